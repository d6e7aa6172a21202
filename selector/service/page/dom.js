// Elements made of data: every text goes in as a text, never as markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element. Attributes that are false, null or undefined are left out; `on` holds listeners.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name === "on") {
            for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
        } else if (value !== false && value !== null && value !== undefined) {
            made.setAttribute(name, value === true ? "" : String(value));
        }
    }
    made.append(...shown(children));
    return made;
}

/**
 * Put other children into an element.
 *
 * @param {Element} into
 * @param {...Child} children
 */
export function fill(into, ...children) {
    into.replaceChildren(...shown(children));
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function shown(children) {
    return children
        .filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => (child instanceof Node ? child : String(child)));
}

/**
 * Find an element of the page that is always there.
 *
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
    const found = document.getElementById(id);
    if (found === null) throw new Error(`no element ${id}`);
    return found;
}

/**
 * Make a table whose first cells head their rows. On a narrow screen its rows become cards, whose cells say their column;
 * the roles keep it a table there for who cannot see it.
 *
 * @param {string} caption
 * @param {string[]} columns
 * @param {{cells: Child[], kind?: string}[]} rows
 * @returns {HTMLTableElement}
 */
export function table(caption, columns, rows) {
    const head = el(
        "tr",
        { role: "row" },
        ...columns.map((name) => el("th", { scope: "col", role: "columnheader", "data-head": name }, name)),
    );
    const body = rows.map((row) =>
        el("tr", { role: "row", class: row.kind }, ...row.cells.map((child, at) => cell(columns[at], child, at === 0))),
    );
    return el(
        "table",
        { role: "table" },
        el("caption", {}, caption),
        el("thead", { role: "rowgroup" }, head),
        el("tbody", { role: "rowgroup" }, ...body),
    );
}

/**
 * @param {string} column
 * @param {Child} child
 * @param {boolean} heads
 * @returns {HTMLTableCellElement}
 */
function cell(column, child, heads) {
    const inside = el("div", {}, child);
    if (heads) return el("th", { scope: "row", role: "rowheader", "data-column": column }, inside);
    return el("td", { role: "cell", "data-column": column }, inside);
}

/**
 * Make what can be unfolded.
 *
 * @param {string} summary
 * @param {...Child} children
 * @returns {HTMLDetailsElement}
 */
export function folded(summary, ...children) {
    return el("details", {}, el("summary", {}, summary), ...children);
}

/**
 * Say a value as the command line does.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function plain(value) {
    if (value === null || value === undefined) return "null";
    return typeof value === "object" ? JSON.stringify(value) : String(value);
}
