// Questions to the service, and what goes wrong with them.

/**
 * @typedef {object} Problem
 * @property {string} file
 * @property {number | null} line
 * @property {number | null} column
 * @property {string | null} path
 * @property {string} code
 * @property {string} message
 * @property {string | null} hint
 */

/** What the service refused, or that it did not answer. */
export class Trouble extends Error {
    /**
     * @param {string} message
     * @param {Problem[]} problems
     * @param {{away?: boolean, more?: number}} [rest]
     */
    constructor(message, problems, rest = {}) {
        super(message);
        this.problems = problems;
        this.away = rest.away ?? false;
        this.more = rest.more ?? 0;
    }
}

const BETWEEN = 2000; // milliseconds from one look for a service that is away to the next

/** Asks the service, and looks out for it while it is away. */
export class Service {
    /** @param {(away: boolean) => void} told hears when the service goes away and when it is back */
    constructor(told) {
        this.told = told;
        this.away = false;
    }

    /**
     * Ask. Raises `Trouble` for all but an answer, and `AbortError` where the question was taken back.
     *
     * @param {string} path
     * @param {object} [body] with it the question is a POST
     * @param {AbortSignal} [signal]
     * @returns {Promise<any>}
     */
    async ask(path, body, signal) {
        const sent =
            body === undefined
                ? {}
                : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
        let answer;
        let text;
        try {
            answer = await fetch(path, { ...sent, signal });
            text = await answer.text();
        } catch (error) {
            if (error instanceof DOMException && error.name === "AbortError") throw error;
            this.lost();
            throw new Trouble("The service does not answer.", [], { away: true });
        }
        this.found();
        const told = read(text);
        if (answer.ok && told !== null) return told;
        if (told === null || typeof told.detail !== "string")
            throw new Trouble(`The service answered with status ${answer.status}.`, []);
        throw new Trouble(told.detail, told.problems ?? [], { more: told.more_problems });
    }

    /** Say that it is away, and look for it until it is back. */
    lost() {
        if (this.away) return;
        this.away = true;
        this.told(true);
        const look = () =>
            fetch("healthz").then(
                () => this.found(),
                () => setTimeout(look, BETWEEN),
            );
        setTimeout(look, BETWEEN);
    }

    /** Say that it is back, where it was away. */
    found() {
        if (!this.away) return;
        this.away = false;
        this.told(false);
    }
}

/**
 * @param {string} text
 * @returns {any}
 */
function read(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}
