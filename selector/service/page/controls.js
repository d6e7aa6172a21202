// Controls of a form, made of data.

import { el } from "./dom.js";

/** @param {string[][]} options */
export function select(options) {
    return el("select", {}, ...options.map(([value, label]) => el("option", { value }, label)));
}

/** @param {number} rows */
export function area(rows) {
    return el("textarea", { rows, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
}

/** @param {string[]} values */
export function suggestions(values) {
    return values.map((value) => el("option", { value }));
}

/**
 * @param {string} legend
 * @param {...any} children
 */
export function group(legend, ...children) {
    return el("fieldset", {}, el("legend", {}, legend), ...children);
}
