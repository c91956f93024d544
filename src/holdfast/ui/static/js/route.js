// Routes live behind the #, so that every view has an address, and going back and reloading work.
import { useEffect, useState } from "./core.js";

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

// What is given in a query; an empty text says nothing, unless it is a key.
export function queryText(query) {
  const given = Object.entries(query).filter(([name, value]) => value !== undefined && value !== null && (value !== "" || name === "key"));
  return new URLSearchParams(given).toString();
}

export function link(parts, query = {}) {
  const text = queryText(query);
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// Goes to an address; with `replace`, as a change of what is shown and not as a step to go back to.
export function go(href, replace = false) {
  if (href === location.hash) return;
  if (replace) history.replaceState(null, "", href); else history.pushState(null, "", href);
  dispatchEvent(new Event("holdfast-route"));
}

export function useRoute() {
  const [route, setRoute] = useState(parse(location.hash));
  useEffect(() => {
    const update = () => setRoute(parse(location.hash));
    for (const event of ["hashchange", "popstate", "holdfast-route"]) addEventListener(event, update);
    return () => { for (const event of ["hashchange", "popstate", "holdfast-route"]) removeEventListener(event, update); };
  }, []);
  return route;
}
