// Before anything is drawn: the theme that was chosen, or the one of the system.
(() => {
  let chosen = "auto";
  try { chosen = localStorage.getItem("holdfast-theme") || "auto"; } catch { /* Storage may be forbidden. */ }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
