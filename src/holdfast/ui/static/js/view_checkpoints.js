// The checkpoint as a whole, and savepoints.
import { html } from "./core.js";
import { useAnswer } from "./api.js";
import * as format from "./format.js";
import { Loading, Trouble } from "./parts.js";
import { link } from "./route.js";

const STRIP = 200;

export function CheckpointsView({ job, version }) {
  const { data, problem } = useAnswer(`/api/jobs/${job}/checkpoints`, version);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  return html`
    <div class="stack">
      <section class="panel" aria-labelledby="checkpoint">
        <h2 id="checkpoint">Checkpoint</h2>
        <dl class="facts">
          <dt>path</dt><dd><code>${data.checkpoint}</code></dd>
          <dt>in use by</dt><dd>${data.used_by || "nobody"}</dd>
          <dt>committed</dt><dd>${data.last_committed == null ? "nothing yet" : `micro-batches ${format.count(data.first_committed)} to ${format.count(data.last_committed)}`}${data.planned.length ? ` · ${data.planned.map(format.count).join(", ")} planned` : ""}</dd>
          <dt>watermark</dt><dd>${data.watermark ? format.utc(data.watermark) : "none"}</dd>
          <dt>size</dt><dd>${Object.entries(data.sizes).map(([kind, size]) => `${kind} ${format.bytes(size)}`).join(" · ") || "–"}</dd>
        </dl>
      </section>
      <section class="panel" aria-labelledby="retained">
        <header><h2 id="retained">Retained micro-batches</h2><span class="small muted">their state can be read, and gone back to</span></header>
        ${data.retained.length ? html`<div class="strip">${data.retained.slice(-STRIP).map((each) => html`<a key=${each.batch} href=${link(["job", job, "state"], { batch: each.batch })} title=${each.at_ms ? format.moment(each.at_ms) : undefined} aria-label=${`State after micro-batch ${each.batch}`}>${each.batch}</a>`)}</div>` : html`<p class="muted">None yet.</p>`}
      </section>
      <section class="panel" aria-labelledby="operators">
        <h2 id="operators">State on disk</h2>
        <div class="scroll" tabindex="0" role="region" aria-label="State on disk"><table>
          <thead><tr><th scope="col">Operator</th><th scope="col">Steps</th><th scope="col" class="number">Partitions</th><th scope="col" class="number">Snapshots</th><th scope="col" class="number">Changelogs</th></tr></thead>
          <tbody>${data.operators.map((each) => html`<tr key=${each.number}><th scope="row">${each.number}</th><td>${each.steps.join(", ") || each.name}</td><td class="number">${format.count(each.partitions)}</td><td class="number">${format.count(each.snapshots)} · ${format.bytes(each.snapshot_bytes)}</td><td class="number">${format.count(each.changelogs)} · ${format.bytes(each.changelog_bytes)}</td></tr>`)}</tbody>
        </table></div>
      </section>
      <${Savepoints} data=${data} />
    </div>`;
}

function Savepoints({ data }) {
  return html`
    <section class="panel" aria-labelledby="savepoints">
      <header><h2 id="savepoints">Savepoints</h2><span class="small muted">newest first</span></header>
      ${data.savepoints.length === 0
        ? html`<p class="muted">None in ${data.looked_in.join(" or ") || "any folder that was looked at"}. Make one with <code>holdfast savepoint create ${data.checkpoint} DEST</code>; name other folders with <code>--savepoints</code>.</p>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label="Savepoints"><table>
          <thead><tr><th scope="col">Path</th><th scope="col">Job</th><th scope="col" class="number">After micro-batch</th><th scope="col">Made</th><th scope="col" class="number">Size</th></tr></thead>
          <tbody>${data.savepoints.map((each) => html`<tr key=${each.path}><th scope="row"><code>${each.path}</code></th><td>${each.job || "–"}${each.is_of_this_job ? html` <span class="badge bare running">this one</span>` : ""}</td><td class="number">${format.count(each.batch)}</td><td>${format.utc(each.created_at)}</td><td class="number">${format.bytes(each.bytes)}</td></tr>`)}</tbody>
        </table></div>`}
      ${data.unusable.length > 0 && html`<details><summary>${format.plural(data.unusable.length, "entry", "entries")} that cannot be used</summary><ul class="small">${data.unusable.map((each) => html`<li key=${each}>${each}</li>`)}</ul></details>`}
    </section>`;
}
