// The theme: the system's, or one that was chosen.
import { html, useEffect, useState } from "./core.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };
const ORDER = ["auto", "light", "dark"];

function chosen() {
  try { return localStorage.getItem("holdfast-theme") || "auto"; } catch { return "auto"; }
}

function apply(choice) {
  const theme = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
  document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("holdfast-theme"));
}

dark.addEventListener("change", () => apply(chosen()));

export function ThemeSwitch() {
  const [choice, setChoice] = useState(chosen());
  const next = ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length];
  const change = () => {
    try { localStorage.setItem("holdfast-theme", next); } catch { /* Then it holds until the page is left. */ }
    setChoice(next);
    apply(next);
  };
  return html`<button class="switch" type="button" onClick=${change} aria-label=${`Theme: ${NAMES[choice]}. Change to ${NAMES[next]}`}><span aria-hidden="true">◐</span> ${NAMES[choice]}</button>`;
}

// Changes whenever the theme does: for what is drawn with colours that CSS cannot reach.
export function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme);
  useEffect(() => {
    const update = () => setTheme(document.documentElement.dataset.theme);
    addEventListener("holdfast-theme", update);
    return () => removeEventListener("holdfast-theme", update);
  }, []);
  return theme;
}
