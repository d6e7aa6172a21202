// What is asked of the service, made of what was typed.

/** @typedef {import("./store.js").State} State */
/** @typedef {import("./catalog.js").Catalog} Catalog */
/** @typedef {import("./service.js").Problem} Problem */
/** @typedef {{facts?: any, request: Record<string, any>, config?: any, backend?: string, policy?: string}} Line */

const SHARED = ["dtype", "seq_len_q", "seq_len_kv"]; // of a layer and of its call
const ALIGNMENT = "causal_alignment";
const INTEGER = /^-?\d{1,15}$/;

/** What is wrong with the texts that were given, each problem with its place. */
export class TextProblems extends Error {
    /** @param {Problem[]} problems */
    constructor(problems) {
        super("The texts that were given are not valid.");
        this.problems = problems;
    }
}

/**
 * Have the texts of facts and config read by the service. Raises `TextProblems` where they are not valid.
 *
 * @param {State} state
 * @param {import("./service.js").Service} service
 * @param {AbortSignal} signal
 * @returns {Promise<{facts?: any, config?: any}>}
 */
export async function texts(state, service, signal) {
    const given = /** @type {Record<string, string>} */ ({});
    if (state.machine === "own") given.facts = state.facts;
    if (state.config.trim() !== "") given.config = state.config;
    if (Object.keys(given).length === 0) return {};
    const told = await service.ask("v1/validate", given, signal);
    if (!told.valid) throw new TextProblems(told.problems);
    return told.parsed;
}

/**
 * Make the question.
 *
 * @param {State} state
 * @param {{facts?: any, config?: any}} read what the texts say
 * @param {Catalog} catalog
 * @returns {Line}
 */
export function line(state, read, catalog) {
    const found = /** @type {Line} */ ({ request: request(state, catalog) });
    if (state.machine === "own") found.facts = read.facts;
    else if (state.machine !== "host") found.facts = machine(state.machine, catalog);
    if (read.config !== undefined) found.config = read.config;
    if (state.backend !== "") found.backend = state.backend;
    if (state.policy !== "") found.policy = state.policy;
    return found;
}

/**
 * @param {string} name
 * @param {Catalog} catalog
 * @returns {any}
 */
function machine(name, catalog) {
    const found = catalog.machines.find((one) => one.name === name);
    if (found === undefined) throw new Error(`This service knows no machine ${name}.`);
    return found.facts;
}

/**
 * @param {State} state
 * @param {Catalog} catalog
 * @returns {Record<string, any>}
 */
function request(state, catalog) {
    const types = new Map(catalog.facts("request", "call").map((fact) => [fact.name, fact.type]));
    const typed = (/** @type {Record<string, string>} */ some) =>
        Object.fromEntries(Object.entries(some).map(([name, text]) => [name, value(text, types.get(name))]));
    const found = typed(state.request);
    if (Object.keys(state.call).length === 0) return found;
    const shared = SHARED.filter((name) => name in found).map((name) => [name, found[name]]);
    return { ...found, call: { ...Object.fromEntries(shared), ...causal(found), ...typed(state.call) } };
}

/**
 * The causal diagonal of a call: its alignment, which does not matter where the lengths are equal.
 *
 * @param {Record<string, any>} layer
 * @returns {Record<string, any>}
 */
function causal(layer) {
    if (layer.causal === undefined || layer.causal === false) return {};
    const equal = layer.seq_len_q !== undefined && layer.seq_len_q === layer.seq_len_kv;
    return { causal: layer.causal === true && equal ? "top_left" : layer.causal };
}

/**
 * Give a text as a value of a fact; what is none of it stays a text, which the service then refuses with its reason.
 *
 * @param {string} text
 * @param {string | undefined} type
 * @returns {string | number | boolean | null}
 */
export function value(text, type) {
    const bare = text.trim();
    if (type === "integer" && INTEGER.test(bare)) return Number(bare);
    if (type === "boolean" && (bare === "true" || bare === "false")) return bare === "true";
    if (bare === "null") return null;
    return bare;
}

/**
 * Give what is changed in the second world; a change without a fact or a value is not made yet.
 *
 * @param {State} state
 * @param {Catalog} catalog
 * @returns {Record<string, any>}
 */
export function changes(state, catalog) {
    const types = new Map(catalog.facts("machine", "request").map((fact) => [fact.name, fact.type]));
    const made = state.changes.filter(({ fact, value: text }) => fact !== "" && text.trim() !== "");
    return Object.fromEntries(made.map(({ fact, value: text }) => [fact, value(text, types.get(fact))]));
}

/**
 * The facts of a layer that have a control, those that are asked most first.
 *
 * @param {Catalog} catalog
 * @returns {import("./catalog.js").Fact[]}
 */
export function layerFacts(catalog) {
    const facts = catalog.facts("request");
    const alignments = facts.find((fact) => fact.name === ALIGNMENT)?.values ?? [];
    return facts
        .filter((fact) => fact.name !== ALIGNMENT)
        .map((fact) => (fact.name === "causal" ? { ...fact, values: [...fact.values, ...alignments] } : fact));
}
