// The frame around the views: which one is shown, and what is told to whoever listens.
import { html, render, useEffect, useRef, useState } from "./core.js";
import { useAnswer } from "./api.js";
import * as format from "./format.js";
import { useNews } from "./live.js";
import { Badge, Loading, Trouble } from "./parts.js";
import { link, useRoute } from "./route.js";
import { ThemeSwitch } from "./theme.js";
import { CheckpointsView } from "./view_checkpoints.js";
import { GraphView } from "./view_graph.js";
import { KeyView } from "./view_key.js";
import { KeysView } from "./view_keys.js";
import { Live } from "./view_live.js";
import { Overview } from "./view_overview.js";
import { StateView } from "./view_state.js";

const TABS = [["", "Live"], ["graph", "Graph"], ["keys", "Keys"], ["state", "State"], ["checkpoints", "Checkpoints"]];
const VIEWS = { "": Live, graph: GraphView, keys: KeysView, state: StateView, key: KeyView, checkpoints: CheckpointsView };
const LINKS = { live: "live", lost: "reconnecting", waiting: "connecting" };

function App() {
  const route = useRoute();
  const news = useNews();
  const [place, job, view = ""] = route.parts;
  const spot = `${place} ${job} ${view}`;
  const before = useRef(spot);
  useEffect(() => {
    // Whoever listens or uses the keyboard alone is brought to the new view, as by a new page.
    if (before.current === spot) return;
    before.current = spot;
    const title = document.querySelector("main h1");
    if (title) title.focus();
    scrollTo(0, 0);
  }, [spot]);
  return html`
    <a class="skip" href="#content" onClick=${skip}>To the content</a>
    <header class="bar">
      <a class="brand" href="#/"><img src="/static/mark.svg" alt="" />Holdfast</a>
      <span class="grow"></span>
      <span class=${`link-state ${news.link}`} title=${LINKS[news.link]}><i class=${news.link === "lost" ? "pulse" : ""}></i><span>${LINKS[news.link]}</span></span>
      <a class="quiet" href="/api/docs">API</a>
      <${ThemeSwitch} />
    </header>
    <main id="content" tabindex="-1">
      ${place === "job" && job ? html`<${Job} key=${job} job=${job} view=${view} query=${route.query} version=${news.versions[job]} />` : html`<${Overview} versions=${news.versions} />`}
    </main>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function Job({ job, view, query, version }) {
  const { data, problem } = useAnswer(`/api/jobs/${job}`, version);
  const name = data ? data.summary.name : "";
  const tab = TABS.find(([id]) => id === (view === "key" ? "state" : view)) || TABS[0];
  useEffect(() => { document.title = name ? `${tab[1]} · ${name} · Holdfast` : "Holdfast"; return () => { document.title = "Holdfast"; }; }, [name, tab[1]]);
  if (problem && !data) return html`<h1 tabindex="-1" class="hidden-visually">Job</h1><div class="stack"><${Trouble} problem=${problem} /><p><a href="#/">All jobs</a></p></div>`;
  if (!data) return html`<h1 tabindex="-1" class="hidden-visually">Job</h1><${Loading} />`;
  const Shown = VIEWS[view] || Live;
  return html`
    <div class="job-head">
      <p class="crumb"><a href="#/">Jobs</a></p>
      <div class="title"><h1 tabindex="-1">${name}</h1><${Badge} level=${data.summary.level} /><span class=${`badge bare ${data.summary.is_running ? "running" : ""}`}>${data.summary.is_running ? "running" : "not running"}</span></div>
      <p class="small muted"><code>${data.summary.checkpoint}</code>${data.unreadable ? ` · ${format.plural(data.unreadable, "line")} of its history cannot be read` : ""}</p>
    </div>
    <nav class="tabs" aria-label="Views of the job">${TABS.map(([id, text]) => html`<a key=${id} href=${link(id ? ["job", job, id] : ["job", job])} aria-current=${id === tab[0] ? "page" : undefined}>${text}</a>`)}</nav>
    <${Announcer} name=${name} level=${data.summary.level} symptoms=${data.summary.symptoms} running=${data.summary.is_running} />
    <${Shown} key=${view} job=${job} view=${data} query=${query} version=${version} />`;
}

// Says when the health changes or the job starts or ends, and nothing else.
function Announcer({ name, level, symptoms, running }) {
  const [text, setText] = useState("");
  const state = `${level} ${running} ${symptoms.map((each) => each.name).join()}`;
  const before = useRef(state);
  useEffect(() => {
    if (before.current === state) return;
    before.current = state;
    setText(`${name}: ${running ? "running" : "not running"}, ${format.RUNS_LEVEL[level]}. ${symptoms.map((each) => each.title).join(". ")}`);
  }, [state]);
  return html`<p class="hidden-visually" role="status">${text}</p>`;
}

render(html`<${App} />`, document.getElementById("app"));
