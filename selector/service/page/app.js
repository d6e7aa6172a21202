// The page: what is typed becomes a question, and its answer is shown.

import { Catalog } from "./catalog.js";
import { headline, showCommand, showDecision } from "./decision.js";
import { byId, el, fill } from "./dom.js";
import { Editor } from "./editor.js";
import { Form } from "./form.js";
import { latest } from "./latest.js";
import { follow, read } from "./link.js";
import { trouble } from "./problems.js";
import { changes, line, texts } from "./question.js";
import { Service } from "./service.js";
import { Store } from "./store.js";
import { showTables } from "./tables.js";
import { themed } from "./theme.js";
import { WhatIf } from "./whatif.js";
import { WhyNot } from "./whynot.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("./question.js").Line} Line */

const WHILE_TYPING = 200; // milliseconds without a key before the service is asked

/** Joins the store, the service and what is shown. */
class Page {
    constructor() {
        this.service = new Service((away) => this.#away(away));
        this.catalog = new Catalog(this.service);
        this.found = /** @type {{asked: Line, answer: any} | null} */ (null);
        this.other = /** @type {any} */ (null);
        this.ask = latest(this.#asked.bind(this), this.#answered.bind(this), this.#failed.bind(this));
        this.askWhyNot = latest(
            this.#explained.bind(this),
            (found) => found && this.whyNot?.told(found.why_not),
            (error) => this.whyNot?.failed(error),
        );
        this.askWhatIf = latest(this.#explained.bind(this), this.#otherwise.bind(this), this.#otherFailed.bind(this));
    }

    /** Read the rules, and begin; while the service is away, when it is back. */
    async start() {
        try {
            await this.catalog.load();
        } catch (error) {
            return this.#failed(/** @type {Error} */ (error));
        }
        const machine = this.catalog.machines[0]?.name ?? "host";
        this.store = new Store(read(location.hash, machine));
        this.form = new Form(byId("form"), this.store, this.catalog);
        this.whatIf = new WhatIf(byId("changes"), byId("otherwise"), byId("otherwise-said"), this.store, this.catalog);
        this.whyNot = new WhyNot(byId("backends"), byId("obstacles"), byId("obstacles-said"), this.store, this.catalog);
        this.editor = new Editor(byId("editor"), this.store, this.catalog);
        follow(this.store, machine);
        this.store.listen((state, from) => this.#changed(state, from.startsWith("typing:") ? WHILE_TYPING : 0));
        this.#rules();
        this.#changed(this.store.state, 0);
    }

    /**
     * @param {State} state
     * @param {number} wait
     */
    #changed(state, wait) {
        const { whyNot, anyFact, changes: _, edit, ...question } = state;
        const other = changes(state, this.catalog);
        const key = JSON.stringify(question);
        this.ask(state, key, wait);
        const why = whyNot === "" ? null : { why_not: whyNot, any: anyFact };
        this.askWhyNot(why && { state, more: why }, JSON.stringify([why, question]), wait);
        const what = Object.keys(other).length === 0 ? null : { what_if: other };
        this.askWhatIf(what && { state, more: what }, JSON.stringify([what, question]), wait);
        this.#showCommand();
    }

    /**
     * @param {State} state
     * @param {AbortSignal} signal
     */
    async #asked(state, signal) {
        const asked = line(state, await texts(state, this.service, signal), this.catalog);
        const answer = await this.service.ask("v1/explain", asked, signal);
        if (answer.digest !== this.catalog.digest) await this.#newer();
        return { asked, answer };
    }

    /**
     * Ask more than the decision.
     *
     * @param {{state: State, more: object} | null} given null where nothing is asked
     * @param {AbortSignal} signal
     */
    async #explained(given, signal) {
        if (given === null) return null;
        const asked = line(given.state, await texts(given.state, this.service, signal), this.catalog);
        return this.service.ask("v1/explain", { ...asked, ...given.more }, signal);
    }

    /** Read the rules again, where the service has newer ones. */
    async #newer() {
        await this.catalog.load();
        this.#rules();
        this.editor?.show();
    }

    /** @param {{asked: Line, answer: any}} found */
    #answered(found) {
        this.found = found;
        this.form?.tell([]);
        fill(byId("headline"), headline(found.answer));
        byId("headline").classList.toggle("refused", found.answer.error !== null);
        showDecision(byId("decision"), found.answer);
        this.#showCommand();
        this.#showTables();
    }

    #showTables() {
        if (this.found !== null)
            showTables(byId("walks"), this.found.answer.trace, this.catalog, this.other?.what_if.rows ?? null);
    }

    #showCommand() {
        if (this.found === null || this.store === undefined) return;
        const { state } = this.store;
        const more = { whyNot: state.whyNot, anyFact: state.anyFact, changes: changes(state, this.catalog) };
        showCommand(byId("same"), this.found.asked, more);
    }

    /** @param {any} found the answer with the other world, or null where none is asked about */
    #otherwise(found) {
        this.other = found;
        if (found !== null) this.whatIf?.told(found.what_if, found);
        this.#showTables();
    }

    /** @param {Error} error */
    #otherFailed(error) {
        this.other = null;
        this.whatIf?.failed(error);
        this.#showTables();
    }

    /** @param {Error & {problems?: any[], away?: boolean}} error */
    #failed(error) {
        if (error.away) return;
        this.found = null;
        this.form?.tell(error.problems ?? []);
        fill(byId("headline"), "✗ The question is not valid.");
        byId("headline").classList.add("refused");
        fill(byId("decision"), trouble(error));
        fill(byId("same"));
        fill(byId("walks"), el("p", { class: "quiet" }, "No table was walked."));
    }

    /** @param {boolean} away */
    #away(away) {
        const said = away
            ? el(
                  "p",
                  { class: "banner" },
                  "✗ The service does not answer. What is shown is from before; the page asks again by itself.",
              )
            : null;
        fill(byId("banner"), said);
        if (away) return;
        if (this.store === undefined) void this.start();
        else {
            this.#changed(this.store.state, 0);
            this.editor?.show();
        }
    }

    #rules() {
        fill(byId("rules"), `rules ${this.catalog.digest.slice(0, 12)}`);
    }
}

themed(byId("theme"));
byId("skip").addEventListener("click", (/** @type {Event} */ event) => {
    event.preventDefault(); // the address carries the state
    byId("answer").focus();
});
void new Page().start();
