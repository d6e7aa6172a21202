// The state of the page, in one place: what is asked. Everything else follows from it.

/**
 * @typedef {object} State
 * @property {string} machine the name of a machine, `host` or `own`
 * @property {string} facts the text of one's own facts
 * @property {Record<string, string>} request what is said of the layer, as it was typed
 * @property {Record<string, string>} call what is said of a call
 * @property {string} config the text of the config
 * @property {string} backend
 * @property {string} policy
 * @property {string} whyNot the backend of which is asked why it does not run
 * @property {boolean} anyFact whether changes may be told that nobody makes
 * @property {{fact: string, value: string}[]} changes what is otherwise in the second world
 * @property {string} edit the text of an edit of the rules
 */

/** @type {State} */
export const NOTHING = Object.freeze({
    machine: "host",
    facts: "",
    request: {},
    call: {},
    config: "",
    backend: "",
    policy: "",
    whyNot: "",
    anyFact: false,
    changes: [],
    edit: "",
});

/** Holds the state, and tells of each change. */
export class Store {
    /** @param {State} state */
    constructor(state) {
        this.state = state;
        /** @type {((state: State, from: string) => void)[]} */
        this.listeners = [];
    }

    /**
     * Hear of every change, and of where it comes from.
     *
     * @param {(state: State, from: string) => void} heard
     */
    listen(heard) {
        this.listeners.push(heard);
    }

    /**
     * Change some of the state.
     *
     * @param {Partial<State>} change
     * @param {string} from the control that changes it, or `link`
     */
    update(change, from) {
        this.state = { ...this.state, ...change };
        for (const heard of this.listeners) heard(this.state, from);
    }
}

/**
 * Read a value of the state by its path, such as `request.head_dim`.
 *
 * @param {State} state
 * @param {string} path
 * @returns {string}
 */
export function valueAt(state, path) {
    const [group, ...rest] = path.split(".");
    const found = /** @type {any} */ (state)[group];
    return rest.length === 0 ? found : (found[rest.join(".")] ?? "");
}

/**
 * Give the change that puts a value at a path; an empty one of a group is taken out.
 *
 * @param {State} state
 * @param {string} path
 * @param {string} value
 * @returns {Partial<State>}
 */
export function putAt(state, path, value) {
    const [group, ...rest] = path.split(".");
    if (rest.length === 0) return { [group]: value };
    const name = rest.join(".");
    const others = Object.entries(/** @type {any} */ (state)[group]).filter(([key]) => key !== name);
    return { [group]: Object.fromEntries(value === "" ? others : [...others, [name, value]]) };
}
