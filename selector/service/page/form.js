// The question: controls that follow the vocabulary, and are kept as the state is.

import { area, group, select, suggestions } from "./controls.js";
import { byId, el, fill, folded, plain } from "./dom.js";
import { layerFacts } from "./question.js";
import { NOTHING, putAt, valueAt } from "./store.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").State} State */
/** @typedef {import("./catalog.js").Catalog} Catalog */
/** @typedef {import("./catalog.js").Fact} Fact */
/** @typedef {import("./service.js").Problem} Problem */
/** @typedef {{path: string, label: string, about: string, control: any, list?: any}} Wanted */

const FIRST = ["model", "role", "head_dim", "mask_free", "dtype"];
const SAID_NOTHING = "not given";

/** The form: it writes into the store what is typed, and shows what the store holds. */
export class Form {
    /**
     * @param {HTMLFormElement} into
     * @param {Store} store
     * @param {Catalog} catalog
     */
    constructor(into, store, catalog) {
        this.store = store;
        this.catalog = catalog;
        /** @type {Map<string, {control: any, note: HTMLElement, box: HTMLElement}>} */
        this.fields = new Map();
        fill(into, this.#machine(), ...this.#layer(), this.#call(), this.#config(), this.#again());
        into.addEventListener("submit", (event) => event.preventDefault());
        store.listen((state) => this.show(state));
        this.show(store.state);
    }

    #machine() {
        const names = this.catalog.machines.map((one) => [one.name, one.name]);
        const choice = select([...names, ["host", "the host of the service"], ["own", "facts of my own"]]);
        this.listed = el("div", { class: "listed" });
        this.own = this.#field({
            path: "facts",
            label: "Facts, as YAML or JSON",
            about: "As attention-selector facts writes them.",
            control: area(8),
        });
        return group(
            "Machine",
            this.#field({ path: "machine", label: "Machine", about: "", control: choice }),
            this.listed,
            this.own,
        );
    }

    #layer() {
        const facts = layerFacts(this.catalog);
        const made = new Map(facts.map((fact) => [fact.name, this.#fact("request", fact)]));
        const rest = facts.filter((fact) => !FIRST.includes(fact.name)).map((fact) => made.get(fact.name));
        this.moreOfLayer = folded("More about the layer", ...rest);
        this.model = el("p", { class: "quiet" });
        const [model, ...others] = FIRST.map((name) => made.get(name));
        return [group("Layer", model, this.model, ...others, this.moreOfLayer)];
    }

    #call() {
        const facts = this.catalog.facts("call").map((fact) => this.#fact("call", fact));
        this.ofCall = folded("Ask about a call too", ...facts);
        return group("Call", this.ofCall);
    }

    #config() {
        const backends = this.catalog.backends.map((one) => [one.name, one.name]);
        const policies = this.catalog.facts("config").find((fact) => fact.name === "policy")?.values ?? [];
        return group(
            "Config",
            this.#field({
                path: "backend",
                label: "Backend",
                about: "The default backend that is named.",
                control: select([["", SAID_NOTHING], ...backends]),
            }),
            this.#field({
                path: "policy",
                label: "Policy",
                about: "Whether another backend may take a named one's place.",
                control: select([["", SAID_NOTHING], ...policies.map((one) => [one, one])]),
            }),
            this.#field({
                path: "config",
                label: "Config, as YAML or JSON",
                about: "Such as per_role: {cross: TORCH_SDPA}",
                control: area(4),
            }),
        );
    }

    #again() {
        const click = () => {
            const { machine, facts, edit } = this.store.state; // what is asked of stays
            this.store.update({ ...NOTHING, machine, facts, edit }, "again");
        };
        return el("button", { type: "button", on: { click } }, "Start over");
    }

    /**
     * @param {string} at
     * @param {Fact} fact
     */
    #fact(at, fact) {
        const path = `${at}.${fact.name}`;
        const options = fact.values.map((one) => [one, one]);
        if (fact.closed)
            return this.#field({
                path,
                label: fact.name,
                about: fact.about,
                control: select([["", SAID_NOTHING], ...options]),
            });
        const list = el("datalist", { id: `list-${path}` }, ...suggestions(fact.values));
        const numeric = fact.type === "integer" && fact.values.length === 0;
        const control = el("input", {
            type: "text",
            list: list.id,
            inputmode: numeric && "numeric",
            autocomplete: "off",
            spellcheck: "false",
            placeholder: fact.name === "role" ? "self" : SAID_NOTHING,
        });
        return this.#field({ path, label: fact.name, about: fact.about, control, list });
    }

    /** @param {Wanted} wanted */
    #field({ path, label, about, control, list }) {
        const id = `field-${path}`;
        const hint = el("small", { id: `${id}-about` }, about);
        const note = el("div", { id: `${id}-note`, class: "note" });
        control.id = id;
        control.setAttribute("aria-describedby", `${hint.id} ${note.id}`);
        const from = control.tagName === "SELECT" ? path : `typing:${path}`;
        control.addEventListener("input", () => this.store.update(putAt(this.store.state, path, control.value), from));
        const box = el("div", { class: "field" }, el("label", { for: id }, label), hint, control, list, note);
        this.fields.set(path, { control, note, box });
        return box;
    }

    /**
     * Show a state.
     *
     * @param {State} state
     */
    show(state) {
        for (const [path, { control }] of this.fields) {
            const value = valueAt(state, path);
            if (
                control.tagName === "SELECT" &&
                ![...control.options].some((/** @type {any} */ one) => one.value === value)
            ) {
                control.append(el("option", { value }, `${value} (not known here)`));
            }
            if (control.value !== value) control.value = value;
        }
        this.own.hidden = state.machine !== "own";
        this.#showMachine(state);
        this.#showModel(state);
        const asked = Object.keys(state.request);
        if (asked.some((name) => !FIRST.includes(name))) this.moreOfLayer?.setAttribute("open", "");
        if (Object.keys(state.call).length > 0) this.ofCall?.setAttribute("open", "");
    }

    /** @param {State} state */
    #showMachine(state) {
        if (this.shown === state.machine) return;
        this.shown = state.machine;
        const found = this.catalog.machines.find((one) => one.name === state.machine);
        if (found === undefined) return fill(this.listed);
        const { devices, packages, ...rest } = found.facts;
        const lines = [
            ...Object.entries(rest),
            ...(devices ?? []).flatMap((/** @type {object} */ one) => Object.entries(one)),
            ...Object.entries(packages ?? {}),
        ];
        const copy = () => this.store.update({ machine: "own", facts: JSON.stringify(found.facts, null, 2) }, "copy");
        fill(
            this.listed,
            folded(
                "Its facts",
                el("dl", {}, ...lines.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, plain(value))])),
            ),
            el("button", { type: "button", on: { click: copy } }, "Change these facts"),
        );
    }

    /** @param {State} state */
    #showModel(state) {
        const model = state.request.model ?? "";
        if (this.named === model) return;
        this.named = model;
        const found = this.catalog.model(model);
        fill(this.model, found?.about ?? (model === "" ? "" : "Nothing is known of this model."));
        fill(byId("list-request.role"), ...suggestions(this.catalog.roles(model)));
        fill(byId("list-request.model"), ...suggestions(this.catalog.models().flatMap((one) => one.names)));
    }

    /**
     * Tell each control what is wrong with it, by the paths of problems; gives those of no control.
     *
     * @param {Problem[]} problems
     * @returns {Problem[]}
     */
    tell(problems) {
        const rest = [];
        const told = /** @type {Map<string, Problem[]>} */ (new Map());
        for (const problem of problems) {
            const path = this.#pathOf(problem);
            if (path === undefined) rest.push(problem);
            else told.set(path, [...(told.get(path) ?? []), problem]);
        }
        for (const [path, { control, note }] of this.fields) {
            const some = told.get(path) ?? [];
            control.removeAttribute("aria-invalid");
            if (some.length > 0) control.setAttribute("aria-invalid", "true");
            fill(
                note,
                ...some.map((one) => el("p", {}, `✗ ${placed(one)}${one.message}${one.hint ? ` (${one.hint})` : ""}`)),
            );
        }
        return rest;
    }

    /** @param {Problem} problem */
    #pathOf(problem) {
        if ((problem.file === "facts" || problem.file === "config") && this.fields.has(problem.file))
            return problem.file;
        const path = (problem.path ?? "").replace(/^request\.call\./, "call.");
        return [...this.fields.keys()].find(
            (known) => path === known || path.startsWith(`${known}.`) || path.startsWith(`${known}[`),
        );
    }
}

/** @param {Problem} problem */
function placed(problem) {
    if (problem.line) return `line ${problem.line}, column ${problem.column}: `;
    return "";
}
