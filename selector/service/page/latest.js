// Questions of which only the last one counts.

/**
 * Give a function that works out something some time after it was last called. What is under way then is taken back; what
 * is asked again with the same key, and was answered, is not asked again.
 *
 * @template Given, Found
 * @param {(given: Given, signal: AbortSignal) => Promise<Found>} work
 * @param {(found: Found) => void} done
 * @param {(error: Error) => void} failed
 * @returns {(given: Given, key: string, wait?: number) => void}
 */
export function latest(work, done, failed) {
    let current = "";
    let under = new AbortController();
    let timer = 0;
    const run = async (/** @type {Given} */ given, /** @type {AbortSignal} */ signal) => {
        try {
            const found = await work(given, signal);
            if (!signal.aborted) done(found);
        } catch (error) {
            if (signal.aborted) return;
            current = "";
            failed(/** @type {Error} */ (error));
        }
    };
    return (given, key, wait = 0) => {
        if (key === current) return;
        current = key;
        clearTimeout(timer);
        under.abort();
        under = new AbortController();
        const { signal } = under;
        timer = setTimeout(() => run(given, signal), wait);
    };
}
