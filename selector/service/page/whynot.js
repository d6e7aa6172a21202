// Why a backend does not run: what stands in its way, and the smallest changes that would be enough.

import { el, fill, plain, table } from "./dom.js";
import { trouble } from "./problems.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").State} State */
/** @typedef {{wanted: string[], got: string[], facts: Record<string, any>}} Way */

/** A button for each backend, and the answer for the one that is asked about. */
export class WhyNot {
    /**
     * @param {HTMLElement} into
     * @param {HTMLElement} answer
     * @param {HTMLElement} said where the answer is said in a sentence, to be read out
     * @param {Store} store
     * @param {import("./catalog.js").Catalog} catalog
     */
    constructor(into, answer, said, store, catalog) {
        this.answer = answer;
        this.said = said;
        this.store = store;
        this.buttons = new Map(catalog.backends.map((one) => [one.name, this.#button(one)]));
        this.any = el("input", {
            type: "checkbox",
            id: "any-fact",
            on: { input: () => store.update({ anyFact: this.any.checked }, "any") },
        });
        const label = el(
            "label",
            { for: "any-fact" },
            " also changes that nobody makes on a machine as it is, such as another GPU",
        );
        fill(
            into,
            el("div", { class: "buttons", role: "group", "aria-label": "Backends" }, ...this.buttons.values()),
            el("p", {}, this.any, label),
        );
        store.listen((state) => this.show(state));
        this.show(store.state);
    }

    /** @param {{name: string, about: string}} backend */
    #button({ name, about }) {
        const asked = () => this.store.update({ whyNot: this.store.state.whyNot === name ? "" : name }, "why_not");
        return el(
            "button",
            { type: "button", title: about, "aria-pressed": "false", on: { click: asked } },
            `Why not ${name}?`,
        );
    }

    /** @param {State} state */
    show(state) {
        this.any.checked = state.anyFact;
        for (const [name, button] of this.buttons) button.setAttribute("aria-pressed", String(name === state.whyNot));
        if (state.whyNot === "") (fill(this.said), fill(this.answer));
    }

    /** @param {any} found `why_not` of an explanation */
    told(found) {
        fill(this.said, sentence(found));
        if (found.chosen) return fill(this.answer);
        fill(
            this.answer,
            el("h3", {}, `Why not ${found.backend}?`),
            standings(found.rows),
            named(found),
            changes("So that it is chosen by default", found.ways),
            changes("So that it runs where it is named", found.ways_named),
        );
    }

    /** @param {Error} error */
    failed(error) {
        fill(this.said);
        fill(this.answer, trouble(error));
    }
}

/** @param {any} found */
function sentence(found) {
    if (found.chosen) return `✓ ${found.backend} is what runs.`;
    const rows = found.rows.length === 1 ? "1 row" : `${found.rows.length} rows`;
    const count = found.ways.length + found.ways_named.length;
    const some = count === 1 ? "1 change would be enough" : `any of ${count} changes would be enough`;
    const enough = count === 0 ? "no change of facts that can be made is enough" : some;
    return `${rows} would use ${found.backend}; ${enough}.`;
}

/** @param {any[]} rows */
function standings(rows) {
    if (rows.length === 0) return el("p", {}, "No row that was asked would use it.");
    const lines = rows.map((one) => ({
        kind: one.holds === false ? "rejected" : one.holds === null ? "undetermined" : "",
        cells: [one.subject ? `${one.row} for ${one.subject}` : one.row, stands(one), reasons(one.blamed)],
    }));
    return table("The rows that would use it", ["Row", "Stands", "What is in its way"], lines);
}

/** @param {any} one */
function stands(one) {
    const parts = [{ true: "✓ holds", false: "✗ does not hold", null: "? undetermined" }[String(one.holds)] ?? ""];
    if (one.earlier) parts.push(`and ${one.earlier} stands before it`);
    if (!one.asked) parts.push("(its table was not asked)");
    return parts.join(" ");
}

/** @param {any[]} blamed */
function reasons(blamed) {
    if (blamed.length === 0) return "nothing of its own";
    return el(
        "ul",
        { class: "conditions" },
        ...blamed.map((one) =>
            el("li", {}, `${one.reason} `, el("small", { class: "quiet" }, `${one.file}:${one.line}`)),
        ),
    );
}

/** @param {any} found */
function named(found) {
    const { named: other } = found;
    if (other === null) return null;
    const told = /** @type {Record<string, string>} */ ({
        runs: `✓ Named in the config, it runs (${other.rule}).`,
        substituted: `≠ Named in the config, ${other.backend} would take its place (${other.rule}).`,
        refused: `✗ Named in the config, it is refused: ${other.error?.message}.`,
    });
    return el(
        "div",
        {},
        el("p", {}, told[other.outcome] ?? other.error?.message),
        ...other.warnings.map((/** @type {string} */ text) => el("p", { class: "warning" }, `⚠ Warning: ${text}`)),
    );
}

/**
 * @param {string} title
 * @param {Way[]} ways
 */
function changes(title, ways) {
    if (ways.length === 0) return null;
    const rows = ways.map((way, at) => ({
        cells: [
            String(at + 1),
            listed(way.wanted),
            listed(way.got),
            Object.entries(way.facts)
                .map(([name, value]) => `${name}=${plain(value)}`)
                .join(", "),
        ],
    }));
    return table(`${title}: any one of`, ["Change", "Wanted", "Now", "Such as"], rows);
}

/** @param {string[]} texts */
function listed(texts) {
    return el("ul", { class: "conditions" }, ...texts.map((text) => el("li", {}, text)));
}
