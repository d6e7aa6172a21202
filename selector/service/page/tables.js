// The tables that were walked: what became of each row, and why.

import { el, fill, folded, plain, table } from "./dom.js";
import { flow } from "./yaml.js";

/**
 * @typedef {object} Condition
 * @property {string} fact
 * @property {any} value
 * @property {boolean} known
 * @property {string} [state] why there is no value, where there is none
 * @property {string} wanted
 * @property {boolean | null} held
 * @property {boolean} negated
 * @property {string} in where it is asked: `when` of the row, or the ability of what the row would use
 * @property {string} code
 * @property {string} file
 * @property {number} line
 */
/**
 * @typedef {object} Step
 * @property {string} row
 * @property {string} outcome
 * @property {string} action
 * @property {string} target
 * @property {Condition[]} conditions
 * @property {string[]} [blamed] codes of the conditions that stood in its way
 */
/** @typedef {{table: string, subject: string | null, rows: Step[]}} Walk */
/** @typedef {{row: string, before: string | null, after: string | null}} Other */

/** The sign and the words of each outcome: colour alone says nothing. */
const OUTCOMES = /** @type {Record<string, string>} */ ({
    chosen: "✓ chosen",
    rejected: "✗ rejected",
    undetermined: "? undetermined",
    not_reached: "· not reached",
});

/**
 * @param {string | null | undefined} outcome
 * @returns {string}
 */
export function outcomeWords(outcome) {
    return outcome ? (OUTCOMES[outcome] ?? outcome) : "– not asked";
}

/**
 * Show every table that was walked, in the order of the walk.
 *
 * @param {HTMLElement} into
 * @param {Walk[]} trace
 * @param {import("./catalog.js").Catalog} catalog
 * @param {Other[] | null} others what becomes of rows in the second world, where there is one
 */
export function showTables(into, trace, catalog, others) {
    const after = others && new Map(others.map((one) => [one.row, one.after]));
    fill(into, ...trace.map((walk) => walked(walk, catalog, after)));
}

/**
 * @param {Walk} walk
 * @param {import("./catalog.js").Catalog} catalog
 * @param {Map<string, string | null> | null} after
 * @returns {HTMLElement}
 */
function walked(walk, catalog, after) {
    const known = catalog.table(walk.table);
    const columns = ["Row", "Outcome", "Does, and why there", "Conditions"];
    const rows = walk.rows.map((step) => {
        const written = known?.rows.find((row) => row.id === step.row);
        const outcome = el("div", {}, el("div", {}, outcomeWords(step.outcome)), after && otherwise(walk, step, after));
        const does = el(
            "div",
            {},
            `${step.action} ${step.target}`,
            el("div", {}, el("small", {}, written?.because ?? "")),
        );
        return { kind: step.outcome, cells: [step.row, outcome, does, conditions(step, written)] };
    });
    const title = walk.subject ? `${walk.table} for ${walk.subject}` : walk.table;
    return el(
        "article",
        { class: "walk" },
        el("h3", {}, title),
        el("p", { class: "quiet" }, known?.description ?? ""),
        table(`What became of each row of ${title}`, columns, rows),
    );
}

/**
 * Say what becomes of a row in the second world, where that is something else.
 *
 * @param {Walk} walk
 * @param {Step} step
 * @param {Map<string, string | null>} after
 * @returns {Node | null}
 */
function otherwise(walk, step, after) {
    const key = `${walk.table}/${step.row}${walk.subject ? ` for ${walk.subject}` : ""}`;
    return after.has(key) ? el("strong", { class: "differs" }, `≠ what if: ${outcomeWords(after.get(key))}`) : null;
}

/**
 * What a row asked: of one that was passed over what stood in its way, of the chosen one what held, of others what they ask.
 *
 * @param {Step} step
 * @param {import("./catalog.js").Row | undefined} written
 * @returns {Node | string}
 */
function conditions(step, written) {
    if (step.outcome === "not_reached")
        return written?.when === undefined ? "asks nothing" : el("code", { class: "quiet" }, flow(written.when));
    const blamed = new Set(step.blamed ?? []);
    const failing = step.conditions.filter((one) => blamed.has(one.code) && !satisfied(one));
    const rest = step.conditions.filter((one) => !failing.includes(one));
    return el(
        "div",
        {},
        failing.length > 0 &&
            el("ul", { class: "conditions" }, ...failing.map((one) => el("li", { class: "failing" }, told(one)))),
        rest.length > 0 &&
            folded(
                rest.length === 1
                    ? "1 condition more"
                    : `${rest.length} conditions${failing.length > 0 ? " more" : ""}`,
                el("ul", { class: "conditions" }, ...rest.map((one) => el("li", {}, told(one)))),
            ),
        failing.length + rest.length === 0 && "asks nothing",
    );
}

/**
 * @param {Condition} one
 * @returns {boolean}
 */
function satisfied(one) {
    return one.held !== null && one.held !== one.negated;
}

/**
 * Say a condition: the fact, what was wanted of it, what was got, and where that is written.
 *
 * @param {Condition} one
 * @returns {Node}
 */
function told(one) {
    const sign = one.held === null ? "?" : satisfied(one) ? "✓" : "✗";
    const got = one.known ? plain(one.value) : (one.state ?? "not known");
    return el(
        "span",
        {},
        `${sign} `,
        el("b", {}, one.fact),
        ": wanted ",
        el("span", { class: "wanted" }, `${one.negated ? "not " : ""}${one.wanted}`),
        ", got ",
        el("span", { class: "got" }, got),
        " ",
        el("small", { class: "quiet" }, `${one.in === "when" ? "" : `${one.in}, `}${one.file}:${one.line}`),
    );
}
