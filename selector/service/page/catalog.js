// What the page knows of the rules and machines, for its choices and its tables.

/**
 * @typedef {object} Fact
 * @property {string} name
 * @property {string} type
 * @property {string} group
 * @property {string} about
 * @property {string[]} values what may be suggested
 * @property {boolean} closed whether nothing else is a value
 */
/** @typedef {{names: string[], about?: string, roles?: Record<string, object>}} Model */
/** @typedef {{id: string, when?: object, because?: string}} Row */
/** @typedef {{description?: string, rows: Row[]}} Table */
/** @typedef {{name: string, about: string}} Backend */

/** The rules as they were read last. */
export class Catalog {
    /** @param {import("./service.js").Service} service */
    constructor(service) {
        this.service = service;
        this.digest = "";
        this.rules = /** @type {any} */ ({});
        this.backends = /** @type {Backend[]} */ ([]);
        this.machines = /** @type {{name: string, facts: Record<string, any>}[]} */ ([]);
    }

    /** Read all of it. */
    async load() {
        const { service } = this;
        const [rules, backends, machines] = await Promise.all([
            service.ask("v1/rules"),
            service.ask("v1/backends"),
            service.ask("v1/machines"),
        ]);
        this.rules = rules;
        this.backends = backends.backends;
        this.digest = backends.digest;
        this.machines = machines.machines;
    }

    /**
     * The facts of some groups of the vocabulary, with those of packages for `machine`.
     *
     * @param {...string} groups
     * @returns {Fact[]}
     */
    facts(...groups) {
        const { facts, packages } = this.rules.vocabulary;
        const own = Object.entries(facts).map(([name, fact]) => this.#fact(name, /** @type {any} */ (fact)));
        const installed = Object.entries(packages ?? {}).map(([name, one]) => ({
            name: `packages.${name}`,
            type: "version",
            group: "machine",
            about: /** @type {any} */ (one).about,
            values: ["null"],
            closed: false,
        }));
        return [...own, ...installed].filter((fact) => groups.includes(fact.group));
    }

    /**
     * @param {string} name
     * @param {any} fact
     * @returns {Fact}
     */
    #fact(name, fact) {
        const sets = Object.values(this.rules.vocabulary.sets ?? {}).filter(
            (/** @type {any} */ set) => set.fact === name,
        );
        const listed = sets
            .flatMap((/** @type {any} */ set) => set.values)
            .filter((/** @type {any} */ one) => !/x$/.test(String(one)));
        const values =
            fact.type === "boolean" ? ["true", "false"] : (fact.values ?? [...(fact.special ?? []), ...listed]);
        const closed = fact.type === "boolean" || fact.values !== undefined;
        return {
            name,
            type: fact.type,
            group: fact.group,
            about: fact.about ?? "",
            values: [...new Set(values.map(String))],
            closed,
        };
    }

    /** @returns {Model[]} */
    models() {
        return this.rules.models?.models ?? [];
    }

    /**
     * @param {string} name
     * @returns {Model | undefined}
     */
    model(name) {
        return this.models().find((one) => one.names.includes(name));
    }

    /**
     * The roles of a model, or all of which anything is known.
     *
     * @param {string} model
     * @returns {string[]}
     */
    roles(model) {
        const own = Object.keys(this.model(model)?.roles ?? {});
        if (own.length > 0) return own;
        const named = Object.keys(this.rules.roles?.roles ?? {}).filter((name) => !name.endsWith("*"));
        return [...new Set(["self", "cross", "joint", ...named])];
    }

    /**
     * @param {string} name
     * @returns {Table | undefined}
     */
    table(name) {
        return this.rules.tables[name];
    }

    /** @returns {string[]} */
    tables() {
        return Object.keys(this.rules.tables);
    }
}
