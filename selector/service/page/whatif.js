// A second world beside this one: facts that are otherwise, and what differs then.

import { select } from "./controls.js";
import { el, fill, plain, table } from "./dom.js";
import { headline } from "./decision.js";
import { trouble } from "./problems.js";
import { outcomeWords } from "./tables.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").State} State */
/** @typedef {import("./catalog.js").Catalog} Catalog */

/** Rows of facts and values, and the other decision. */
export class WhatIf {
    /**
     * @param {HTMLElement} into
     * @param {HTMLElement} answer
     * @param {HTMLElement} said where the answer is said in a sentence, to be read out
     * @param {Store} store
     * @param {Catalog} catalog
     */
    constructor(into, answer, said, store, catalog) {
        this.answer = answer;
        this.said = said;
        this.store = store;
        this.facts = catalog.facts("machine", "request");
        this.rows = el("div");
        this.add = el("button", { type: "button", on: { click: () => this.#added() } }, "Add a fact that is otherwise");
        fill(into, this.rows, this.add);
        store.listen((state) => this.show(state));
        this.show(store.state);
    }

    /** @param {State} state */
    show(state) {
        if (this.rows.childElementCount !== state.changes.length)
            fill(this.rows, ...state.changes.map((_, at) => this.#row(at)));
        state.changes.forEach(({ fact, value }, at) => this.#showRow(at, fact, value));
        if (state.changes.length === 0) (fill(this.said), fill(this.answer));
    }

    #added() {
        const at = this.store.state.changes.length;
        this.store.update({ changes: [...this.store.state.changes, { fact: "", value: "" }] }, "changes");
        document.getElementById(`change-${at}-fact`)?.focus();
    }

    /**
     * @param {number} at
     * @param {Partial<{fact: string, value: string}>} part
     * @param {string} from
     */
    #changed(at, part, from) {
        const changes = this.store.state.changes.map((one, other) => (other === at ? { ...one, ...part } : one));
        this.store.update({ changes }, from);
    }

    /** @param {number} at */
    #removed(at) {
        this.store.update({ changes: this.store.state.changes.filter((_, other) => other !== at) }, "changes");
        this.add.focus();
    }

    /** @param {number} at */
    #row(at) {
        const id = `change-${at}`;
        const names = this.facts.map((one) => [one.name, one.name]);
        const fact = select([["", "choose a fact"], ...names]);
        fact.id = `${id}-fact`;
        fact.addEventListener("input", () => this.#changed(at, { fact: fact.value, value: "" }, id));
        const value = el("input", {
            id: `${id}-value`,
            type: "text",
            list: `${id}-list`,
            autocomplete: "off",
            spellcheck: "false",
            on: { input: () => this.#changed(at, { value: value.value }, `typing:${id}`) },
        });
        const gone = () => this.#removed(at);
        return el(
            "div",
            { class: "change", role: "group", "aria-label": `Change ${at + 1}` },
            el("div", { class: "field" }, el("label", { for: fact.id }, `Fact ${at + 1}`), fact),
            el(
                "div",
                { class: "field" },
                el("label", { for: value.id }, `Value ${at + 1}`),
                value,
                el("datalist", { id: `${id}-list` }),
            ),
            el("button", { type: "button", "aria-label": `Remove change ${at + 1}`, on: { click: gone } }, "Remove"),
        );
    }

    /**
     * @param {number} at
     * @param {string} name
     * @param {string} text
     */
    #showRow(at, name, text) {
        const [fact, value, list] = ["fact", "value", "list"].map(
            (part) => /** @type {any} */ (document.getElementById(`change-${at}-${part}`)),
        );
        if (name !== "" && ![...fact.options].some((/** @type {any} */ one) => one.value === name))
            fact.append(el("option", { value: name }, `${name} (not known here)`));
        if (fact.value !== name) fact.value = name;
        if (value.value !== text) value.value = text;
        const known = this.facts.find((one) => one.name === name)?.values ?? [];
        if (list.dataset.of !== name) fill(list, ...[...known, "unknown"].map((one) => el("option", { value: one })));
        list.dataset.of = name;
    }

    /**
     * @param {any} found `what_if` of an explanation
     * @param {any} now the decision of this world
     */
    told(found, now) {
        const known = (/** @type {string} */ name) => (name in now.facts ? plain(now.facts[name]) : "not known");
        const told = Object.entries(found.changed).map(
            ([name, value]) => `${name} ${value === null ? "not known or null" : plain(value)}, now ${known(name)}`,
        );
        const provider = found.differences.find((/** @type {any} */ one) => one.field === "provider");
        const other = { ...found.decision, provider: provider ? provider.after : now.provider };
        const differs = found.differences.length === 0 ? "nothing else is decided" : headline(other);
        fill(this.said, `Where ${told.join("; ")}: ${differs}.`);
        fill(
            this.answer,
            el(
                "div",
                { class: "worlds" },
                world("This world", now, false),
                world("The other world", other, found.differences.length > 0),
            ),
            found.differences.length > 0 && differences(found.differences),
            found.rows.length > 0 && outcomes(found.rows),
        );
    }

    /** @param {Error} error */
    failed(error) {
        fill(this.said);
        fill(this.answer, trouble(error));
    }
}

/**
 * @param {string} title
 * @param {any} answer
 * @param {boolean} differs
 */
function world(title, answer, differs) {
    return el(
        "div",
        { class: "world" },
        el("h3", {}, title),
        el("p", { class: differs ? "headline differs" : "headline" }, `${differs ? "≠ " : ""}${headline(answer)}`),
        el("p", {}, el("code", {}, answer.log ?? "")),
    );
}

/** @param {any[]} found */
function differences(found) {
    return table(
        "What differs of the decision",
        ["Field", "This world", "The other world"],
        found.map((one) => ({ cells: [one.field, told(one.before), told(one.after)] })),
    );
}

/** @param {any} value */
function told(value) {
    if (Array.isArray(value)) return value.length === 0 ? "none" : value.join("; ");
    return value !== null && typeof value === "object"
        ? (value.message ?? plain(value))
        : value === null
          ? "none"
          : plain(value);
}

/** @param {any[]} rows */
function outcomes(rows) {
    return table(
        "Rows of which something else becomes",
        ["Row", "This world", "The other world"],
        rows.map((one) => ({ cells: [one.row, outcomeWords(one.before), outcomeWords(one.after)] })),
    );
}
