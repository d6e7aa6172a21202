// Light or dark: as the system is, or as the reader says, which the browser remembers.

const KEY = "attention-selector-colours";

/** @param {HTMLSelectElement} control */
export function themed(control) {
    const show = (/** @type {string} */ theme) => {
        if (theme === "system") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = theme;
    };
    const kept = recall();
    control.value = kept;
    show(kept);
    control.addEventListener("input", () => {
        show(control.value);
        keep(control.value);
    });
}

/** @returns {string} */
function recall() {
    try {
        const found = localStorage.getItem(KEY);
        return found === "light" || found === "dark" ? found : "system";
    } catch {
        return "system"; // a browser that keeps nothing
    }
}

/** @param {string} theme */
function keep(theme) {
    try {
        localStorage.setItem(KEY, theme);
    } catch {
        // it holds until the page is left
    }
}
