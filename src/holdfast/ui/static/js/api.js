// Requests: each can be given up, and says what went wrong in the server's words.
import { useEffect, useRef, useState } from "./core.js";
import { queryText } from "./route.js";

export class Problem extends Error {
  constructor(status, { what, detail, todo }) {
    super(what);
    Object.assign(this, { status, what, detail: detail || "", todo: todo || "" });
  }
}

export function address(path, query = {}) {
  const text = queryText(query);
  return text ? `${path}?${text}` : path;
}

export async function get(url, signal) {
  let response;
  try {
    response = await fetch(url, { signal, headers: { Accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { what: "The dashboard's server does not answer.", todo: "see whether holdfast ui is still running" });
  }
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && content) return content;
  throw new Problem(response.status, { ...content, what: (content && content.what) || "The server's answer cannot be read." });
}

// Asks when the key or the version changes. News about the same key while it is being asked wait for the answer, or a slow
// answer about a fast job would never come; another key gives up what was asked before.
function useAsked(key, version, ask, onAnswer, onProblem) {
  const [busy, setBusy] = useState(false);
  const run = useRef({ key: null, control: null, again: false });
  useEffect(() => {
    if (key == null) return;
    const before = run.current;
    if (before.control && before.key === key) { before.again = true; return; }
    if (before.control) before.control.abort();
    const begin = () => {
      const control = new AbortController();
      run.current = { key, control, again: false };
      setBusy(true);
      ask(control.signal).then(onAnswer, (problem) => { if (problem.name !== "AbortError") onProblem(problem); }).then(() => {
        if (run.current.control !== control) return;
        run.current.control = null;
        if (run.current.again) begin(); else setBusy(false);
      });
    };
    begin();
  }, [key, version]);
  useEffect(() => () => { if (run.current.control) run.current.control.abort(); }, []);
  return busy;
}

// What a URL answers. The last answer stays until the next one is there.
export function useAnswer(url, version) {
  const [answer, setAnswer] = useState({ data: null, problem: null });
  const busy = useAsked(
    url, version, (signal) => get(url, signal),
    (data) => setAnswer({ data, problem: null }),
    (problem) => setAnswer((before) => ({ data: before.data, problem })),
  );
  return { ...answer, busy };
}

const OVERLAP = 3;
const WHOLE_MS = 5000; // How often a whole history is asked for, at most: it is merged anew each time.

// The series of a job: all of it at first, then only what is new.
export function useSeries(job, version, range) {
  const [series, setSeries] = useState(null);
  const [problem, setProblem] = useState(null);
  const kept = useRef({ key: "", series: null, asked: 0 });
  const key = `${job} ${range}`;
  const ask = async (signal) => {
    const before = kept.current.key === key ? kept.current.series : null;
    const points = range === "whole" ? 600 : Number(range);
    const grows = before && range !== "whole" && before.batch.length > OVERLAP;
    const since = grows ? before.batch[before.batch.length - 1 - OVERLAP] : undefined;
    const wait = before && range === "whole" ? Math.max(kept.current.asked + WHOLE_MS - Date.now(), 0) : 0;
    if (wait) await later(wait, signal);
    kept.current.asked = Date.now();
    const asked = (from) => get(address(`/api/jobs/${job}/series`, { points, since: from, whole: range === "whole" ? "true" : undefined }), signal);
    const found = await asked(since);
    // A job that went back, or another one in its place: what was told before does not hold.
    const next = !grows ? found : found.rewrites === before.rewrites ? joined(before, found, points) : await asked();
    kept.current = { ...kept.current, key, series: next };
    return next;
  };
  useAsked(key, version, ask, (next) => { setSeries(next); setProblem(null); }, setProblem);
  return { series, problem };
}

function later(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(new DOMException("given up", "AbortError")); });
  });
}

// Two parts of a series as one: where they overlap, the newer one holds.
function joined(before, newer, points) {
  const first = newer.batch.length ? newer.batch[0] : Infinity;
  const keep = before.batch.findIndex((number) => number >= first);
  const head = keep < 0 ? before.batch.length : keep;
  const length = head + newer.batch.length;
  const put = (a, b, fill) => {
    const start = a ? a.slice(0, head) : new Array(head).fill(fill);
    return [...start, ...(b || new Array(newer.batch.length).fill(fill))].slice(Math.max(length - points, 0));
  };
  const names = (a, b) => [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const result = { ...newer };
  for (const name of ["batch", "at_ms", "rows", "arriving", "processed", "duration_ms", "interval_ms", "watermark_ms", "event_ms_max", "lag"]) {
    result[name] = put(before[name], newer[name], null);
  }
  result.phases_ms = Object.fromEntries(names(before.phases_ms, newer.phases_ms).map((name) => [name, put(before.phases_ms[name], newer.phases_ms[name], 0)]));
  result.steps = Object.fromEntries(names(before.steps, newer.steps).map((step) => {
    const a = before.steps[step] || {};
    const b = newer.steps[step] || {};
    return [step, Object.fromEntries(names(a, b).map((name) => [name, put(a[name], b[name], 0)]))];
  }));
  result.sources = Array.from({ length: Math.max(before.sources.length, newer.sources.length) }, (_, number) => {
    const a = before.sources[number] || {};
    const b = newer.sources[number] || {};
    return { name: b.name || a.name || "", rows: put(a.rows, b.rows, 0), lag: put(a.lag, b.lag, null) };
  });
  return result;
}
