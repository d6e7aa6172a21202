// The decision: what runs, what it rests on, and the command that says the same.

import { el, fill, folded, plain, table } from "./dom.js";
import { command } from "./command.js";

/** @typedef {import("./question.js").Line} Line */

/**
 * Say a decision in one sentence: the log line, or the error.
 *
 * @param {any} answer
 * @returns {string}
 */
export function headline(answer) {
    if (answer.error !== null) return `✗ Refused: ${answer.error.message}`;
    const count = answer.warnings.length;
    const warned = count === 0 ? "" : ` – with ${count === 1 ? "a warning" : `${count} warnings`}`;
    return `${answer.backend}${answer.provider ? ` (${answer.provider})` : ""}${warned}`;
}

/**
 * Show a decision below its sentence.
 *
 * @param {HTMLElement} into
 * @param {any} answer of `/v1/explain`
 */
export function showDecision(into, answer) {
    fill(
        into,
        answer.log && el("p", { class: "log" }, el("code", {}, answer.log)),
        ...warnings(answer),
        el(
            "dl",
            { class: "told" },
            ...basis(answer).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
        ),
        remaining(answer),
        layers(answer),
        facts(answer),
    );
}

/**
 * @param {any} answer
 * @returns {HTMLElement[]}
 */
function warnings(answer) {
    const told = [...answer.warnings];
    if (answer.outdated)
        told.unshift(`newer rules are refused since ${answer.outdated.since}: ${answer.outdated.problem}`);
    return told.map((text) => el("p", { class: "warning" }, el("strong", {}, "⚠ Warning: "), text));
}

/**
 * @param {any} answer
 * @returns {string[][]}
 */
function basis(answer) {
    const told = [
        ["decided by", answer.rule],
        ["provider", answer.provider],
        ["transform", answer.transform],
        [
            "source",
            answer.source &&
                (answer.source === answer.origin ? answer.source : `${answer.source}, from ${answer.origin}`),
        ],
        ["role category", answer.role_category],
        ["policy", answer.policy],
        ["unknown, and it would matter", answer.missing.join(", ")],
        ["rules", answer.digest.slice(0, 12)],
    ];
    return told.filter(([, value]) => value);
}

/** @param {any} answer */
function remaining(answer) {
    const found = answer.remaining;
    if (found === null || !(found.answers?.length > 0)) return null;
    const rows = found.answers.map((/** @type {any} */ one) => ({
        cells: [one.if, one.backend ?? "refused", one.rule],
    }));
    return folded(
        `What is still possible, by ${found.fact}`,
        table("What is still possible", ["If", "Backend", "Row"], rows),
    );
}

/** @param {any} answer */
function layers(answer) {
    const rows = answer.layers.map((/** @type {any} */ one) => ({
        kind: one.decided ? "chosen" : "",
        cells: [
            one.key ? `${one.layer} ${one.key}` : one.layer,
            `${one.decided ? "✓ " : ""}${one.state}`,
            one.names ?? "–",
            one.error ?? one.backend ?? "–",
        ],
    }));
    return folded(
        "What each layer of the config says",
        table("Layers, the highest first", ["Layer", "State", "Names", "Would give"], rows),
    );
}

/** @param {any} answer */
function facts(answer) {
    const rows = Object.entries(answer.facts).map(([name, value]) => ({
        cells: [name, plain(value), answer.origins[name] ?? ""],
    }));
    return folded("Facts, and where they come from", table("Facts of this decision", ["Fact", "Value", "From"], rows));
}

/**
 * Show the command that says the same.
 *
 * @param {HTMLElement} into
 * @param {Line} line
 * @param {{whyNot: string, anyFact: boolean, changes: Record<string, any>}} more
 */
export function showCommand(into, line, more) {
    const { text, unsaid } = command(line, more);
    const shown = el("pre", { id: "command", tabindex: "0", role: "group", "aria-label": "The command" }, text);
    const said = el("span", { role: "status" });
    const copy = async () => {
        fill(said, (await copied(text, shown)) ? "copied" : "selected: copy it with your keys");
    };
    fill(
        into,
        el("h3", {}, "The same on the command line"),
        unsaid.length > 0 &&
            el(
                "p",
                { class: "quiet" },
                `No flag of explain says ${unsaid.join(", ")}; decide takes all of a question as a line.`,
            ),
        shown,
        el("p", {}, el("button", { type: "button", on: { click: copy } }, "Copy the command"), " ", said),
    );
}

/**
 * @param {string} text
 * @param {HTMLElement} shown
 * @returns {Promise<boolean>}
 */
async function copied(text, shown) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        getSelection()?.selectAllChildren(shown); // without TLS a browser keeps the clipboard from a page
        return false;
    }
}
