// Values as YAML in one line, as rules write them.

const BARE = /^[A-Za-z_][\w./-]*$/;
const OTHERWISE_READ = /^(true|false|null|yes|no|on|off|y|n)$/i;

/**
 * @param {unknown} value
 * @returns {string}
 */
export function flow(value) {
    if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
    if (value !== null && typeof value === "object") {
        return `{${Object.entries(value)
            .map(([key, item]) => `${flow(key)}: ${flow(item)}`)
            .join(", ")}}`;
    }
    if (typeof value === "string" && BARE.test(value) && !OTHERWISE_READ.test(value)) return value;
    return JSON.stringify(value) ?? "null";
}
