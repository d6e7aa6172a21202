// Edits of one table: their text, the problems in it as it is typed, and in which situations it would decide otherwise.

import { el, fill, plain, table } from "./dom.js";
import { latest } from "./latest.js";
import { place, trouble } from "./problems.js";
import { flow } from "./yaml.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./catalog.js").Catalog} Catalog */
/** @typedef {import("./service.js").Problem} Problem */

const OWN = "proposed.yaml"; // what the service calls a text without a name
const WHILE_TYPING = 300; // milliseconds without a key before the text is checked
const LABEL = "Edits, as YAML";
const BECAUSE = "because: Say why.";
/** What may be done with a row, as an entry of `edits`. */
const EDITS = /** @type {Record<string, (row: any) => string>} */ ({
    "Put a row before it": (row) =>
        `  - id: ours\n    before: ${row.id}\n    when: ${flow(row.when ?? {})}\n    ${action(row)}\n    ${BECAUSE}\n`,
    "Replace it": (row) =>
        `  - id: ${row.id}\n${row.when ? `    when: ${flow(row.when)}\n` : ""}    ${action(row)}\n    ${BECAUSE}\n`,
    "Take it out": (row) => `  - id: ${row.id}\n    disable: true\n    ${BECAUSE}\n`,
});

/** The editor: it keeps its text in the store and has it checked and compared. */
export class Editor {
    /**
     * @param {HTMLElement} into
     * @param {Store} store
     * @param {Catalog} catalog
     */
    constructor(into, store, catalog) {
        this.store = store;
        this.catalog = catalog;
        this.ask = latest(this.#asked.bind(this), this.#told.bind(this), this.#failed.bind(this));
        this.gutter = el("pre", { class: "gutter", "aria-hidden": "true" });
        this.area = el("textarea", {
            id: "edit-text",
            rows: 12,
            wrap: "off",
            spellcheck: "false",
            autocomplete: "off",
            autocapitalize: "off",
            "aria-describedby": "edit-said",
            on: {
                input: () => store.update({ edit: this.area.value }, "typing:edit"),
                scroll: () => (this.gutter.scrollTop = this.area.scrollTop),
            },
        });
        this.said = el("div", { id: "edit-said", "aria-live": "polite" });
        this.differences = el("div");
        fill(
            into,
            this.#starting(),
            el("label", { for: "edit-text" }, LABEL),
            el("div", { class: "text" }, this.gutter, this.area),
            this.said,
            this.differences,
        );
        store.listen(() => this.show());
        this.show();
    }

    #starting() {
        const options = (/** @type {string[]} */ names) => names.map((name) => el("option", { value: name }, name));
        const names = this.catalog.tables();
        const first = names.includes("platform_default") ? "platform_default" : names[0];
        const chosen = el("select", { id: "edit-table" }, ...options(names));
        const row = el("select", { id: "edit-row" });
        const rows = () => fill(row, ...options((this.catalog.table(chosen.value)?.rows ?? []).map((one) => one.id)));
        chosen.value = first;
        chosen.addEventListener("input", rows);
        rows();
        const buttons = Object.keys(EDITS).map((name) =>
            el("button", { type: "button", on: { click: () => this.#insert(chosen.value, row.value, name) } }, name),
        );
        const clear = el(
            "button",
            { type: "button", on: { click: () => this.store.update({ edit: "" }, "edit") } },
            "Clear the text",
        );
        return el(
            "div",
            {},
            el(
                "div",
                { class: "change" },
                el("div", { class: "field" }, el("label", { for: "edit-table" }, "Table"), chosen),
                el("div", { class: "field" }, el("label", { for: "edit-row" }, "Row"), row),
            ),
            el("div", { class: "buttons", role: "group", "aria-label": "Edit the row" }, ...buttons, clear),
        );
    }

    /**
     * Add an entry for a row; a text of another table gives way to one of this table.
     *
     * @param {string} name
     * @param {string} id
     * @param {string} edit
     */
    #insert(name, id, edit) {
        const row = this.catalog.table(name)?.rows.find((one) => one.id === id);
        if (row === undefined) return;
        const head = `table: ${name}\nedits:\n`;
        const { edit: text } = this.store.state;
        const kept = text.startsWith(head) ? `${text.trimEnd()}\n` : head;
        this.store.update({ edit: kept + EDITS[edit](row) }, "edit");
        this.area.focus();
    }

    /** Show the text of the store, and have it checked. */
    show() {
        const { edit } = this.store.state;
        if (this.area.value !== edit) this.area.value = edit;
        this.#number([]);
        this.ask(edit, `${this.catalog.digest} ${edit}`, WHILE_TYPING);
    }

    /**
     * @param {string} text
     * @param {AbortSignal} signal
     */
    async #asked(text, signal) {
        if (text.trim() === "") return null;
        const { service } = this.catalog;
        const checked = await service.ask("v1/validate", { rules: text }, signal);
        return { checked, diff: checked.valid ? await service.ask("v1/diff", { rules: text }, signal) : null };
    }

    /** @param {{checked: any, diff: any} | null} found */
    #told(found) {
        const problems = found?.checked.problems ?? [];
        this.problems = problems;
        this.#number(problems);
        this.area.removeAttribute("aria-invalid");
        if (problems.length > 0) this.area.setAttribute("aria-invalid", "true");
        if (found === null) return (fill(this.said), fill(this.differences));
        if (problems.length > 0) {
            fill(
                this.said,
                el("p", { class: "note" }, problems.length === 1 ? "✗ 1 problem" : `✗ ${problems.length} problems`),
                el("ul", { class: "problems" }, ...problems.map((/** @type {Problem} */ one) => this.#problem(one))),
            );
            return fill(this.differences, el("p", { class: "quiet" }, "It is compared once it is valid."));
        }
        fill(this.said, el("p", {}, "✓ The text is valid."));
        fill(this.differences, el("h3", {}, "What it changes"), ...diff(found.diff));
    }

    /** @param {Error} error */
    #failed(error) {
        fill(this.said, trouble(error));
        fill(this.differences);
    }

    /**
     * Tell a problem with its line, a sign under its column, and a button that goes there.
     *
     * @param {Problem} problem
     */
    #problem(problem) {
        const own = problem.file === OWN && problem.line !== null;
        const text = own ? (this.area.value.split("\n")[/** @type {number} */ (problem.line) - 1] ?? "") : "";
        const under = `${" ".repeat(Math.max(0, (problem.column ?? 1) - 1))}^`;
        return el(
            "li",
            {},
            own
                ? el("button", { type: "button", on: { click: () => this.#go(problem) } }, place(problem, OWN))
                : place(problem, OWN),
            ` ${problem.message}${problem.hint ? ` (${problem.hint})` : ""} `,
            el("small", { class: "quiet" }, problem.code),
            own && el("pre", { class: "excerpt", "aria-hidden": "true" }, `${text}\n${under}`),
        );
    }

    /** @param {Problem} problem */
    #go(problem) {
        const before = this.area.value.split("\n").slice(0, /** @type {number} */ (problem.line) - 1);
        const at =
            before.reduce((/** @type {number} */ sum, /** @type {string} */ line) => sum + line.length + 1, 0) +
            (problem.column ?? 1) -
            1;
        this.area.focus();
        this.area.setSelectionRange(at, at);
    }

    /**
     * Number the lines, and mark those with a problem.
     *
     * @param {Problem[]} problems
     */
    #number(problems) {
        const wrong = new Set(problems.filter((one) => one.file === OWN).map((one) => one.line));
        const count = this.area.value.split("\n").length;
        const lines = Array.from({ length: count }, (_, at) =>
            el(
                "span",
                { class: wrong.has(at + 1) && "wrong" },
                `${wrong.has(at + 1) ? "✗" : " "}${String(at + 1).padStart(3)}\n`,
            ),
        );
        fill(this.gutter, ...lines);
        this.gutter.scrollTop = this.area.scrollTop;
    }
}

/** @param {any} row */
function action(row) {
    const name = ["use", "substitute", "refuse", "entry"].find((one) => one in row) ?? "use";
    return [name, "log", "warn", "transform"]
        .filter((one) => one in row)
        .map((one) => `${one}: ${flow(row[one])}`)
        .join("\n    ");
}

/** @param {any} found */
function diff(found) {
    const summary = found.text.split("\n")[0];
    const rows = found.changes.map((/** @type {any} */ one) => ({
        cells: [
            one.table,
            side(one.before, one.rows?.[0]),
            side(one.after, one.rows?.[1]),
            one.where,
            Object.entries(one.example)
                .map(([name, value]) => `${name} ${plain(value)}`)
                .join(", "),
        ],
    }));
    const rest = [...Object.entries(found.open).map(([name, text]) => `${name}: left open: ${text}`), ...found.beside];
    return [
        el("p", {}, summary),
        rows.length > 0 &&
            table("Situations in which a decision changes", ["Table", "Before", "After", "Where", "Such as"], rows),
        rest.length > 0 && el("ul", {}, ...rest.map((text) => el("li", {}, text))),
    ];
}

/**
 * @param {string | null} does
 * @param {string | null | undefined} row
 */
function side(does, row) {
    return `${does ?? "no row"}${row ? ` (${row})` : ""}`;
}
