// One key: what it has after a micro-batch, and its life.
import { html } from "./core.js";
import { address, useAnswer } from "./api.js";
import * as format from "./format.js";
import { Empty, Loading, Trouble, WindowText } from "./parts.js";
import { link } from "./route.js";

export function KeyView({ job, version, query }) {
  const { step, key } = query;
  const life = useAnswer(address(`/api/jobs/${job}/state/life`, { step, key }), version);
  const retained = life.data ? life.data.retained : [];
  const newest = retained.length ? retained[retained.length - 1].batch : null;
  const batch = query.batch ? Number(query.batch) : newest;
  const state = useAnswer(batch == null ? null : address(`/api/jobs/${job}/state/key`, { step, key, batch }), "");
  if (life.problem && !life.data) return html`<${Trouble} problem=${life.problem} />`;
  if (!life.data) return html`<${Loading} />`;
  const at = (number) => link(["job", job, "key"], { step, key, batch: number === newest ? "" : number });
  return html`
    <div class="stack">
      <div><p class="crumb"><a href=${link(["job", job, "state"], { step })}>${step}</a></p><h2 class="mono">${life.data.key_text || html`<span class="muted">(empty)</span>`}</h2></div>
      <nav class="panel" aria-label="Retained micro-batches">
        <header><h2>After micro-batch ${format.count(batch)}</h2><span class="small muted">those that changed the key are filled</span></header>
        <${Strip} life=${life.data} batch=${batch} at=${at} />
      </nav>
      <${Now} state=${state} batch=${batch} />
      <${Life} life=${life.data} at=${at} />
    </div>`;
}

function Strip({ life, batch, at }) {
  const touched = new Set(life.entries.map((each) => each.batch));
  return html`<div class="strip">${life.retained.slice(-300).map((each) => html`<a key=${each.batch} href=${at(each.batch)} class=${touched.has(each.batch) ? "touched" : ""} aria-current=${each.batch === batch ? "true" : undefined} aria-label=${`micro-batch ${each.batch}${touched.has(each.batch) ? ", which changed the key" : ""}`}>${each.batch}</a>`)}</div>`;
}

function Now({ state, batch }) {
  if (state.problem) {
    return state.problem.status === 404
      ? html`<${Empty} title="No state">The key has nothing after micro-batch ${batch}.<//>`
      : html`<${Trouble} problem=${state.problem} />`;
  }
  if (!state.data) return html`<${Loading} />`;
  return html`${state.data.windows.map((each) => html`
    <section class="panel" key=${each.window} aria-label="State">
      ${each.window && html`<h2>${each.window}</h2>`}
      <dl class="facts">${Object.entries(each.texts).map(([cell, text]) => html`<dt key=${cell}>${cell}</dt><dd><code>${text}</code>${each.expires_at[cell] && html` <span class="small muted">expires ${each.expires_at[cell]}</span>`}</dd>`)}</dl>
    </section>`)}`;
}

function Life({ life, at }) {
  if (!life.entries.length) return html`<${Empty} title="No micro-batch that is retained changed this key">What happened before is no longer known.<//>`;
  const batches = [...new Set(life.entries.map((each) => each.batch))].sort((a, b) => b - a);
  const first = life.retained.length ? life.retained[0].batch : null;
  const windows = life.entries.some((each) => each.window);
  return html`
    <section class="panel" aria-labelledby="life">
      <header><h2 id="life">Its life</h2><span class="small muted">newest first${life.is_cut ? "; there is more than is shown" : ""}</span></header>
      <ol class="life">${batches.map((batch) => {
        const entries = life.entries.filter((each) => each.batch === batch);
        return html`<li key=${batch}>
          <h3><a href=${at(batch)}>micro-batch ${format.count(batch)}</a> <span class="muted small">${entries[0].at_ms ? format.moment(entries[0].at_ms) : ""}${batch === first ? " · the oldest that is retained: what the key had then" : ""}</span></h3>
          <div class="scroll"><table><thead class="hidden-visually"><tr><th scope="col">Cell</th>${windows && html`<th scope="col">Window</th>`}<th scope="col">What happened</th><th scope="col">Value</th></tr></thead>
          <tbody>${entries.map((each, place) => html`<tr key=${place}><th scope="row" class="cell">${each.cell}</th>${windows && html`<td class="window"><${WindowText} window=${each.window} /></td>`}<td class="event"><span class=${`what ${each.what}`}>${each.what}</span></td>
            <td>${each.what !== "added" && each.old ? html`<del class="muted"><code>${each.old}</code></del>` : ""}${each.what === "changed" ? " → " : ""}${each.what !== "removed" ? html`<code>${each.new}</code>` : ""}</td></tr>`)}</tbody></table></div>
        </li>`;
      })}</ol>
    </section>`;
}
