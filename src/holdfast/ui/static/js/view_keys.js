// Key groups as a heat map, and the busiest and largest keys.
import { html, useState } from "./core.js";
import { address, useAnswer } from "./api.js";
import * as format from "./format.js";
import { BatchSlider, Empty, KeyLink, Loading, Segments, Select, Trouble, isNotWhole } from "./parts.js";
import { go, link } from "./route.js";

const MEASURES = [["elements", "Elements"], ["keys", "Keys"], ["bytes", "Bytes"]];
const SHOW = { elements: format.count, keys: format.count, bytes: format.bytes };
const SKEW_TOLD = 2;

export function KeysView({ job, version, query }) {
  const measure = SHOW[query.by] ? query.by : "elements";
  const { data, problem } = useAnswer(address(`/api/jobs/${job}/keys`, { step: query.step, batch: query.batch }), query.batch ? "" : version);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  const show = (changes) => go(link(["job", job, "keys"], { ...query, ...changes }), true);
  if (!data.batches.length) return html`<${Empty} title="Nothing is known of this job's key groups yet">Its history tells of them when a micro-batch ends.<//>`;
  const newest = data.batches[data.batches.length - 1];
  return html`
    <div class="stack">
      <div class="panel tools">
        ${data.steps.length > 1 && html`<${Select} id="step" label="Step" value=${data.step} options=${data.steps.map((name) => [name, name])} onChange=${(step) => show({ step })} />`}
        <div><span class="small muted" aria-hidden="true">Show</span><${Segments} label="What is shown of each key group" name="by" value=${measure} options=${MEASURES} onChange=${(by) => show({ by: by === "elements" ? "" : by })} /></div>
        <${BatchSlider} id="keys-batch" label="After" batches=${data.batches.map((batch) => ({ batch }))} value=${data.batch ?? newest} onChange=${(batch) => show({ batch: batch === newest ? "" : batch })} />
      </div>
      <${Heat} groups=${data.groups} measure=${measure} step=${data.step} />
      <div class="columns">
        <${Ranked} title="Busiest keys" note="elements in this micro-batch" keys=${data.hot} show=${format.count} job=${job} step=${data.step} none="No key had an element in this micro-batch." />
        <${Ranked} title="Largest keys" note="bytes of state" keys=${data.heavy} show=${format.bytes} job=${job} step=${data.step} none="No key has been measured yet: one is when it is written." />
      </div>
    </div>`;
}

function Heat({ groups, measure, step }) {
  const [chosen, setChosen] = useState(null);
  const values = groups[measure];
  const high = Math.max(...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const place = Math.min(chosen ?? values.indexOf(high), values.length - 1);
  const name = (at) => (groups.labels_each > 1 ? `key groups ${groups.labels[at]} to ${groups.labels[at] + groups.labels_each - 1}` : `key group ${groups.labels[at]}`);
  const told = (at) => `${name(at)}: ${format.plural(groups.elements[at], "element")}, ${format.plural(groups.keys[at], "key")}, ${format.bytes(groups.bytes[at])}`;
  const move = (event) => {
    const row = columnsOf(event.currentTarget);
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -place, End: values.length - 1 - place }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(place + by, 0), values.length - 1);
    setChosen(next);
    event.currentTarget.children[next].focus();
  };
  if (!values.length) return html`<${Empty} title="This step has no key group yet">A key group is there once one of its keys has come.<//>`;
  const mean = total / values.length;
  const skew = mean > 0 ? high / mean : 0;
  return html`
    <section class="panel" aria-labelledby="heat">
      <header><h2 id="heat">Key groups of ${step}</h2><span class="small muted">${format.plural(values.length, "key group")}${skew > SKEW_TOLD && total > 0 ? ` · the fullest has ${format.compact(skew)} times the mean` : ""}</span></header>
      <div class=${`heat ${values.length <= 160 ? "few" : ""}`} role="group" aria-label="Key groups. Arrow keys move between them." onKeyDown=${move}>
        ${values.map((value, at) => html`<button key=${at} type="button" tabindex=${at === place ? 0 : -1} aria-pressed=${at === place} aria-label=${told(at)} title=${told(at)} style=${{ "--heat": value > 0 ? 0.08 + 0.92 * (value / Math.max(high, 1)) : 0 }} onClick=${() => setChosen(at)} onFocus=${() => setChosen(at)}></button>`)}
      </div>
      <div class="pager"><p class="small">${told(place)}</p><p class="scale" aria-hidden="true">0 <i></i> ${SHOW[measure](high)}</p></div>
    </section>`;
}

const columnsOf = (grid) => getComputedStyle(grid).gridTemplateColumns.split(" ").length;

function Ranked({ title, note, keys, show, job, step, none }) {
  const high = Math.max(...keys.map((each) => each.count), 1);
  return html`
    <section class="panel" aria-label=${title}>
      <header><h2>${title}</h2><span class="small muted">${note}</span></header>
      ${keys.length === 0 ? html`<p class="muted">${none}</p>` : html`
        <table class="ranked"><thead class="hidden-visually"><tr><th scope="col">Key</th><th scope="col">How much</th><th scope="col">Share</th></tr></thead>
          <tbody>${keys.map((each) => html`<tr key=${each.key}><th scope="row"><${KeyLink} job=${job} query=${{ step, key: each.key }} text=${each.key} cut=${isNotWhole(each.key)} /></th><td class="number">${show(each.count)}</td><td class="bar-cell" aria-hidden="true"><span class="meter" style=${{ width: `${(each.count / high) * 100}%` }}></span></td></tr>`)}</tbody></table>`}
    </section>`;
}
