// The state in the address, readable, so that a link can be sent.

import { NOTHING } from "./store.js";

/** @typedef {import("./store.js").State} State */

const TEXTS = /** @type {const} */ (["config", "backend", "policy", "edit"]);
const GROUPS = /** @type {const} */ (["request", "call"]);

/**
 * Write the state as what stands after `#`.
 *
 * @param {State} state
 * @returns {string}
 */
export function written(state) {
    const found = new URLSearchParams({ machine: state.machine });
    if (state.machine === "own") found.set("facts", state.facts);
    for (const group of GROUPS) {
        for (const [name, value] of Object.entries(state[group])) found.set(`${group}.${name}`, value);
    }
    for (const name of TEXTS) {
        if (state[name] !== "") found.set(name, state[name]);
    }
    if (state.whyNot !== "") found.set("why_not", state.whyNot);
    if (state.anyFact) found.set("any", "true");
    for (const { fact, value } of state.changes) found.append("if", `${fact}=${value}`);
    return found.toString();
}

/**
 * Read the state from what stands after `#`; what is not said there is as it is at first.
 *
 * @param {string} fragment
 * @param {string} machine the machine that is chosen where none is named
 * @returns {State}
 */
export function read(fragment, machine) {
    const found = new URLSearchParams(fragment.replace(/^#/, ""));
    const text = (/** @type {string} */ name) => found.get(name) ?? "";
    return {
        ...NOTHING,
        machine: found.get("machine") ?? machine,
        facts: text("facts"),
        request: group(found, "request."),
        call: group(found, "call."),
        ...Object.fromEntries(TEXTS.map((name) => [name, text(name)])),
        whyNot: text("why_not"),
        anyFact: text("any") === "true",
        changes: found.getAll("if").map(change),
    };
}

/**
 * @param {URLSearchParams} found
 * @param {string} prefix
 * @returns {Record<string, string>}
 */
function group(found, prefix) {
    const some = [...found].filter(([name, value]) => name.startsWith(prefix) && value !== "");
    return Object.fromEntries(some.map(([name, value]) => [name.slice(prefix.length), value]));
}

/**
 * @param {string} text
 * @returns {{fact: string, value: string}}
 */
function change(text) {
    const at = text.indexOf("=");
    return at < 0 ? { fact: text, value: "" } : { fact: text.slice(0, at), value: text.slice(at + 1) };
}

/**
 * Keep the address and the state alike. Typing into one control makes one entry of the history, each other change one of
 * its own.
 *
 * @param {import("./store.js").Store} store
 * @param {string} machine
 */
export function follow(store, machine) {
    let last = "";
    history.replaceState(null, "", `#${written(store.state)}`);
    store.listen((state, from) => {
        const address = `#${written(state)}`;
        if (from !== "link" && address !== location.hash) {
            if (from === last && from.startsWith("typing:")) history.replaceState(null, "", address);
            else history.pushState(null, "", address);
        }
        last = from;
    });
    addEventListener("popstate", () => store.update(read(location.hash, machine), "link"));
}
