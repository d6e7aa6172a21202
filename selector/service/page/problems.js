// What is wrong, in words and with its place.

import { el } from "./dom.js";

/** @typedef {import("./service.js").Problem} Problem */

/**
 * Say where a problem is: in a line of a text, or at a path.
 *
 * @param {Problem} problem
 * @param {string} [own] the name of the text that is shown beside, which goes without saying
 * @returns {string}
 */
export function place(problem, own) {
    const file = problem.file === own || problem.file === "line" || problem.file === "body" ? "" : problem.file;
    const line = problem.line ? `line ${problem.line}, column ${problem.column}` : "";
    return [file, line, line === "" ? (problem.path ?? "") : ""].filter((part) => part !== "").join(", ");
}

/**
 * @param {Problem} problem
 * @param {string} [own]
 * @returns {string}
 */
export function sentence(problem, own) {
    const where = place(problem, own);
    return `${where === "" ? "" : `${where}: `}${problem.message}${problem.hint ? ` (${problem.hint})` : ""}`;
}

/**
 * Tell an error: its sentence, and the problems behind it.
 *
 * @param {Error & {problems?: Problem[], more?: number}} error
 * @returns {HTMLElement}
 */
export function trouble(error) {
    const problems = error.problems ?? [];
    const more = error.more ? [el("li", {}, `and ${error.more} more`)] : [];
    const list =
        problems.length === 0 ? null : el("ul", {}, ...problems.map((one) => el("li", {}, sentence(one))), ...more);
    return el("div", { class: "trouble" }, el("p", {}, `✗ ${error.message}`), list);
}
