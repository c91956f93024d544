// Small parts that several views use.
import { html, useEffect, useState } from "./core.js";
import * as format from "./format.js";
import { link } from "./route.js";

export const Badge = ({ level, text }) => html`<span class=${`badge ${level}`}>${text || format.RUNS_LEVEL[level] || level}</span>`;

export const Empty = ({ title, children }) => html`<div class="panel empty"><strong>${title}</strong><p>${children}</p></div>`;

export const Trouble = ({ problem }) => html`
  <div class="panel problem" role="alert">
    <h2>${problem.what || problem.message}</h2>
    ${problem.detail && html`<pre>${problem.detail}</pre>`}
    ${problem.todo && html`<p class="todo">${problem.todo}</p>`}
  </div>`;

export const Loading = () => html`<p class="muted" aria-busy="true">Loading …</p>`;

// A key, and the way to its life; a text that was cut leads nowhere.
export function KeyLink({ job, query, text, cut }) {
  const shown = text === "" ? html`<span class="muted">(empty)</span>` : text;
  return cut ? html`<span class="mono">${shown}</span>` : html`<a class="mono" href=${link(["job", job, "key"], query)}>${shown}</a>`;
}

// Of a key in a history or a symptom, the text was cut if it was long, and what cannot be seen was escaped: such a text may
// be that of another key.
export const isNotWhole = (text) => /(?:…|\.\.\.)$|\\/.test(text);

// One of a few, as radio buttons side by side.
export const Segments = ({ label, name, value, options, onChange }) => html`
  <fieldset class="segments">
    <legend class="hidden-visually">${label}</legend>
    ${options.map(([id, text]) => html`
      <label key=${id}><input type="radio" name=${name} value=${id} checked=${id === value} onChange=${() => onChange(id)} />${text}</label>`)}
  </fieldset>`;

export const Select = ({ id, label, value, options, onChange }) => html`
  <div>
    <label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([option, text]) => html`<option key=${option} value=${option} selected=${option === value}>${text}</option>`)}
    </select>
  </div>`;

// Micro-batches to go back and forth in. `batches` ascend; each is { batch, at_ms }.
export function BatchSlider({ id, label, batches, value, onChange }) {
  const place = Math.max(batches.findIndex((each) => each.batch === value), 0);
  const [shown, setShown] = useState(place);
  useEffect(() => setShown(place), [place, batches.length]);
  useEffect(() => {
    if (shown === place || !batches[shown]) return undefined;
    // While the thumb is moved, not every place on the way is asked for.
    const timer = setTimeout(() => onChange(batches[shown].batch), 120);
    return () => clearTimeout(timer);
  }, [shown]);
  const at = batches[Math.min(shown, batches.length - 1)];
  const text = at ? `micro-batch ${at.batch}${at.at_ms ? `, ${format.moment(at.at_ms)}` : ""}` : "none";
  const step = (by) => setShown((before) => Math.min(Math.max(before + by, 0), batches.length - 1));
  return html`
    <div class="slider wide">
      <label for=${id}>${label}: <output for=${id} style=${{ color: "var(--text)" }}>${text}</output></label>
      <div class="line">
        <button type="button" aria-label="One micro-batch back" disabled=${shown <= 0} onClick=${() => step(-1)}>‹</button>
        <input id=${id} type="range" min="0" max=${Math.max(batches.length - 1, 0)} step="1" value=${shown} disabled=${batches.length < 2}
          aria-valuetext=${text} onInput=${(event) => setShown(Number(event.target.value))} />
        <button type="button" aria-label="One micro-batch forward" disabled=${shown >= batches.length - 1} onClick=${() => step(1)}>›</button>
      </div>
    </div>`;
}

export const What = ({ what }) => (what === "same" ? null : html`<span class=${`what ${what}`}>${what}</span>`);

export const WindowText = ({ window }) => html`<span>${window || html`<span class="muted">global</span>`}</span>`;
