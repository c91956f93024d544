// The state explorer: keys and windows as rows, cells as columns, after any retained micro-batch.
import { html, useEffect, useRef, useState } from "./core.js";
import { address, useAnswer } from "./api.js";
import * as format from "./format.js";
import { BatchSlider, Empty, KeyLink, Loading, Select, Trouble, What, WindowText } from "./parts.js";
import { go, link } from "./route.js";

const PAGE = 50;

export function StateView({ job, version, query }) {
  const { data, problem } = useAnswer(`/api/jobs/${job}/state`, version);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  if (!data.retained.length) return html`<${Empty} title="Nothing has been committed yet">There is state to look at once the job has committed its first micro-batch.<//>`;
  if (!data.steps.length) return html`<${Empty} title="No step has state">This job's checkpoint holds no state of a step.<//>`;
  return html`<${Explorer} job=${job} states=${data} query=${query} />`;
}

function Explorer({ job, states, query }) {
  const { retained, steps } = states;
  const step = steps.find((each) => each.name === query.step) || steps[0];
  const newest = retained[retained.length - 1].batch;
  const [followed, setFollowed] = useState(newest);
  const batch = query.batch ? Number(query.batch) : followed;
  const at = retained.findIndex((each) => each.batch === batch);
  const compare = comparedWith(query.compare, retained, at);
  const offset = Math.max(Number(query.offset) || 0, 0);
  const prefix = query.prefix || "";
  const show = (changes, replace = true) => go(link(["job", job, "state"], { step: step.name, batch: query.batch, compare: query.compare, prefix, offset, ...changes }), replace);
  const url = address(`/api/jobs/${job}/state/page`, { step: step.name, batch, compare, prefix, offset, limit: PAGE });
  const page = useAnswer(url, "");
  // The newest is shown once the one before has been: else a slow answer about a fast job would never come.
  useEffect(() => { if (!page.busy && followed !== newest) setFollowed(newest); }, [page.busy, newest]);
  return html`
    <div class="stack">
      <div class="panel tools" role="search">
        ${steps.length > 1 && html`<${Select} id="step" label="Step" value=${step.name} options=${steps.map((each) => [each.name, each.name])} onChange=${(name) => show({ step: name, prefix: "", offset: "" }, false)} />`}
        <${Search} prefix=${prefix} onSearch=${(text) => show({ prefix: text, offset: "" })} />
        <${BatchSlider} id="state-batch" label="After" batches=${retained} value=${batch} onChange=${(to) => show({ batch: to === newest ? "" : to })} />
        <${Select} id="compare" label="Compared with" value=${query.compare || "previous"} onChange=${(value) => show({ compare: value === "previous" ? "" : value })}
          options=${[["previous", "the one before"], ["none", "nothing"], ...retained.filter((each) => each.batch !== batch).slice(-200).reverse().map((each) => [String(each.batch), `micro-batch ${each.batch}`])]} />
      </div>
      ${at < 0 && html`<p class="muted">Micro-batch ${batch} is no longer retained; ${retained[0].batch} to ${newest} are.</p>`}
      <${Rows} job=${job} step=${step} page=${page} prefix=${prefix} onMove=${(to) => show({ offset: to || "" }, false)} />
    </div>`;
}

function comparedWith(choice, retained, at) {
  if (choice === "none") return undefined;
  if (choice && choice !== "previous") return Number(choice);
  return at > 0 ? retained[at - 1].batch : undefined;
}

function Search({ prefix, onSearch }) {
  const [text, setText] = useState(prefix);
  const field = useRef(null);
  useEffect(() => { if (document.activeElement !== field.current) setText(prefix); }, [prefix]);
  useEffect(() => {
    if (text === prefix) return undefined;
    const timer = setTimeout(() => onSearch(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const jump = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      event.preventDefault();
      field.current.focus();
    };
    addEventListener("keydown", jump);
    return () => removeEventListener("keydown", jump);
  }, []);
  return html`<div class="wide"><label for="prefix">Keys that begin with <span aria-hidden="true">( / )</span></label><input id="prefix" ref=${field} type="search" value=${text} maxlength="1000" autocomplete="off" spellcheck=${false} onInput=${(event) => setText(event.target.value)} /></div>`;
}

function Rows({ job, step, page, prefix, onMove }) {
  const { data, problem, busy } = page;
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  if (!data.rows.length) {
    return prefix
      ? html`<${Empty} title="No key begins with this">Keys are compared as the text that the table shows. A key of several columns is a JSON list.<//>`
      : html`<${Empty} title="No keys">The step has no state after micro-batch ${data.batch}.<//>`;
  }
  const windows = data.rows.some((row) => row.window);
  const docs = new Map(step.cells.map((cell) => [cell.name, cell.doc]));
  const timers = new Set(step.cells.filter((cell) => cell.is_timer).map((cell) => cell.name));
  return html`
    <section class="panel" aria-labelledby="rows">
      <header><h2 id="rows">${data.step} <span class="muted">after micro-batch ${format.count(data.batch)}</span></h2>
        <span class="small muted" aria-live="polite">${data.compare == null ? "" : `differences to micro-batch ${format.count(data.compare)} are marked`}</span></header>
      <div class=${`scroll ${busy ? "busy" : ""}`} tabindex="0" role="region" aria-label="State by key and window">
        <table class="state-table">
          <thead><tr><th scope="col"><${KeyHead} text=${step.key} /></th>${windows && html`<th scope="col">window <span class="type">UTC</span></th>`}${data.columns.map((name) => html`<th scope="col" key=${name} title=${docs.get(name) || undefined}>${name}</th>`)}</tr></thead>
          <tbody>${data.rows.map((row, place) => html`<${StateRow} key=${place} row=${row} job=${job} data=${data} windows=${windows} timers=${timers} />`)}</tbody>
        </table>
      </div>
      ${data.is_cut && html`<p class="muted small">Keys on this page have more windows than are shown: search for one of them.</p>`}
      <${Pager} job=${job} data=${data} prefix=${prefix} onMove=${onMove} />
    </section>`;
}

// The columns of a key, each as "name type".
function KeyHead({ text }) {
  if (!text) return "key";
  return text.split(", ").map((column, place) => {
    const [, name, type] = /^(.*?)( \S+)?$/s.exec(column);
    return html`${place > 0 && ", "}${name}${type && html`<span class="type">${type}</span>`}`;
  });
}

function StateRow({ row, job, data, windows, timers }) {
  const whole = row.what === "added" || row.what === "removed";
  return html`<tr class=${whole ? row.what : ""}>
    <th scope="row"><${KeyLink} job=${job} query=${{ step: data.step, key: row.key, batch: data.batch }} text=${row.key_text} cut=${row.is_key_cut} />${whole && html` <${What} what=${row.what} />`}</th>
    ${windows && html`<td><${WindowText} window=${row.window} /></td>`}
    ${data.columns.map((name) => html`<${StateCell} key=${name} cell=${row.cells[name]} whole=${whole} isTimer=${timers.has(name)} />`)}
  </tr>`;
}

function StateCell({ cell, whole, isTimer }) {
  if (!cell) return html`<td class="muted">–</td>`;
  // A time stays on one line; several, of a timer with tags, do not.
  const shape = isTimer && !cell.text.includes("; ") ? "time" : "";
  if (whole && cell.what === "removed") return html`<td class=${`muted ${shape}`}><del><code>${cell.old}</code></del></td>`;
  return html`<td class=${whole ? shape : `${cell.what} ${shape}`}>
    ${cell.text && html`<code>${cell.text}</code>`}
    ${!whole && cell.what === "added" && html`<span class="hidden-visually">, added</span>`}
    ${cell.old != null && html`<span class="was">${cell.what === "removed" ? "removed, was" : "was"} <del><code>${cell.old}</code></del></span>`}
    ${cell.expires_at && html`<span class="was time">expires ${cell.expires_at}</span>`}
  </td>`;
}

function Pager({ job, data, prefix, onMove }) {
  const [counting, setCounting] = useState("");
  const key = `${data.step} ${data.batch} ${prefix}`;
  const total = useAnswer(counting === key ? address(`/api/jobs/${job}/state/count`, { step: data.step, batch: data.batch, prefix }) : null, "");
  const known = !data.more ? data.offset + data.keys : counting === key && total.data ? total.data.keys : null;
  const of = known != null ? ` of ${format.count(known)}` : "";
  return html`
    <nav class="pager" aria-label="Pages">
      <p class="small muted">keys ${format.count(data.offset + 1)} to ${format.count(data.offset + data.keys)}${of}
        ${known == null && html` <button type="button" class="plain small" disabled=${counting === key} onClick=${() => setCounting(key)}>${counting === key ? "counting …" : "count all"}</button>`}</p>
      <div class="buttons">
        <button type="button" disabled=${data.offset === 0} onClick=${() => onMove(0)}>First</button>
        <button type="button" disabled=${data.offset === 0} onClick=${() => onMove(Math.max(data.offset - PAGE, 0))}>Previous</button>
        <button type="button" disabled=${!data.more} onClick=${() => onMove(data.offset + PAGE)}>Next</button>
      </div>
    </nav>`;
}
