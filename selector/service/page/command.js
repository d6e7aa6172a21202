// The command that says the same.

/** @typedef {import("./question.js").Line} Line */

/** @type {Record<string, string>} */
const FLAGS = {
    role: "--role",
    role_category: "--role-category",
    model: "--model",
    head_dim: "--head-dim",
    dtype: "--dtype",
    num_heads: "--heads",
    num_kv_heads: "--kv-heads",
    seq_len_q: "--seq-len",
    seq_len_kv: "--kv-len",
};
const OF_CALL = ["mask", "dtype", "seq_len_q", "seq_len_kv", "causal"]; // what `--mask` asks about

/**
 * Give the command, and what of the question it cannot say: then it is one of `decide`, which takes all of a question.
 *
 * @param {Line} line
 * @param {{whyNot: string, anyFact: boolean, changes: Record<string, any>}} more
 * @returns {{text: string, unsaid: string[]}}
 */
export function command(line, more) {
    const unsaid = [...unsayable(line.request)];
    if (unsaid.length > 0) return { text: here("attention-selector decide", line), unsaid };
    const words = ["attention-selector explain", ...layer(line.request), ...configured(line), ...asked(more)];
    if (line.facts === undefined) return { text: words.join(" "), unsaid };
    words.splice(1, 0, "--facts /dev/stdin");
    return { text: here(words.join(" "), line.facts), unsaid };
}

/**
 * @param {Record<string, any>} request
 * @returns {Iterable<string>}
 */
function* unsayable(request) {
    for (const [name, value] of Object.entries(request)) {
        const said =
            name in FLAGS ||
            name === "call" ||
            name === "mask_free" ||
            ((name === "causal" || name === "compile") && value !== false);
        if (!said || value === null) yield `${name} ${value}`;
    }
    const call = request.call ?? {};
    if (request.call !== undefined && call.mask === undefined) yield "a call without the kind of its mask";
    for (const [name, value] of Object.entries(call)) {
        if (!OF_CALL.includes(name)) yield `${name} ${value} of the call`;
    }
}

/**
 * @param {Record<string, any>} request
 * @returns {string[]}
 */
function layer(request) {
    const words = Object.entries(FLAGS)
        .filter(([name]) => name in request)
        .map(([name, flag]) => `${flag} ${quoted(request[name])}`);
    if (request.mask_free !== undefined) words.push(request.mask_free === true ? "--mask-free" : "--masked");
    if (request.causal !== undefined)
        words.push(request.causal === true ? "--causal" : `--causal ${quoted(request.causal)}`);
    if (request.compile !== undefined) words.push("--compile");
    if (request.call !== undefined) words.push(`--mask ${quoted(request.call.mask)}`);
    return words;
}

/**
 * @param {Line} line
 * @returns {string[]}
 */
function configured(line) {
    const words = [];
    if (line.config !== undefined) words.push(`--diffusion-attention-config ${quoted(JSON.stringify(line.config))}`);
    if (line.backend !== undefined) words.push(`--diffusion-attention-backend ${quoted(line.backend)}`);
    if (line.policy !== undefined) words.push(`--policy ${quoted(line.policy)}`);
    return words;
}

/**
 * @param {{whyNot: string, anyFact: boolean, changes: Record<string, any>}} more
 * @returns {string[]}
 */
function asked(more) {
    const words = [];
    if (more.whyNot !== "") words.push(`--why-not ${quoted(more.whyNot)}`);
    if (more.whyNot !== "" && more.anyFact) words.push("--any");
    for (const [fact, value] of Object.entries(more.changes)) words.push(`--what-if ${quoted(`${fact}=${value}`)}`);
    return words;
}

/**
 * Give a command with a value on its standard input, as one line of JSON, which no line of the shell can end early.
 *
 * @param {string} words
 * @param {unknown} value
 * @returns {string}
 */
function here(words, value) {
    return `${words} <<'JSON'\n${JSON.stringify(value)}\nJSON`;
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function quoted(value) {
    const text = String(value);
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
