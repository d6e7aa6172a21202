// The page: what is typed becomes a question, and its answer is shown.

import { Catalog } from "./catalog.js";
import { headline, showCommand, showDecision } from "./decision.js";
import { byId, el, fill } from "./dom.js";
import { Form } from "./form.js";
import { latest } from "./latest.js";
import { follow, read } from "./link.js";
import { trouble } from "./problems.js";
import { changes, line, texts } from "./question.js";
import { Service } from "./service.js";
import { Store } from "./store.js";
import { showTables } from "./tables.js";
import { themed } from "./theme.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("./question.js").Line} Line */

const WHILE_TYPING = 200; // milliseconds without a key before the service is asked

/** Joins the store, the service and what is shown. */
class Page {
  constructor() {
    this.service = new Service((away) => this.#away(away));
    this.catalog = new Catalog(this.service);
    this.ask = latest(this.#asked.bind(this), this.#answered.bind(this), this.#failed.bind(this));
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
    const { whyNot, anyFact, changes: other, edit, ...question } = state;
    byId("answer").setAttribute("aria-busy", "true");
    this.ask(state, JSON.stringify(question), wait);
    byId("answer").removeAttribute("aria-busy");
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

  /** Read the rules again, where the service has newer ones. */
  async #newer() {
    await this.catalog.load();
    this.#rules();
  }

  /** @param {{asked: Line, answer: any}} found */
  #answered({ asked, answer }) {
    this.form?.tell([]);
    fill(byId("headline"), headline(answer));
    byId("headline").classList.toggle("refused", answer.error !== null);
    const command = el("div");
    showDecision(byId("decision"), answer);
    byId("decision").append(command);
    const state = /** @type {Store} */ (this.store).state;
    showCommand(command, asked, { whyNot: state.whyNot, anyFact: state.anyFact, changes: changes(state, this.catalog) });
    showTables(byId("walks"), answer.trace, this.catalog, null);
  }

  /** @param {Error & {problems?: any[], away?: boolean}} error */
  #failed(error) {
    if (error.away) return;
    this.form?.tell(error.problems ?? []);
    fill(byId("headline"), "✗ The question is not valid.");
    byId("headline").classList.add("refused");
    fill(byId("decision"), trouble(error));
    fill(byId("walks"), el("p", { class: "quiet" }, "No table was walked."));
  }

  /** @param {boolean} away */
  #away(away) {
    const said = away ? el("p", { class: "banner" }, "✗ The service does not answer. What is shown is from before; the page asks again by itself.") : null;
    fill(byId("banner"), said);
    if (away) return;
    if (this.store === undefined) void this.start();
    else this.#changed(this.store.state, 0);
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
