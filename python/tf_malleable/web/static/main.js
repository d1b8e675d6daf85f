// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// The page: what is on it, and when it is drawn.
import { Component, render } from "preact";
import { html } from "./html.js";
import { Store } from "./store.js";
import { Cpus } from "./cpus.js";
import { Queue, Running } from "./jobs.js";
import { Gantt } from "./gantt.js";
import { Load } from "./load.js";
import { Power } from "./power.js";
import { History } from "./history.js";
import { ChangeJob, ChangePolicy } from "./dialogs.js";
import { JobLog } from "./log.js";
import { clock, duration, number, percent } from "./words.js";

const WINDOWS = [[120, "2 min"], [600, "10 min"], [1800, "30 min"]];
const THEMES = ["auto", "light", "dark"];
const SAID_MS = 6000;

function Tile({ label, value, note, share, children }) {
  return html`<div class="tile"><span class="label">${label}</span><span class="value">${value}</span>
    ${share != null && html`<svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="4" /><rect width=${100 * Math.min(1, share)} height="4" /></svg>`}
    <span class="note">${note}${children}</span></div>`;
}

const Panel = ({ id, title, tools, children }) => html`<section class="panel" id=${id} aria-labelledby=${`${id}-title`}>
  <header><h2 id=${`${id}-title`}>${title}</h2>${tools}</header>${children}</section>`;

class Page extends Component {
  constructor() {
    super();
    this.store = new Store(() => this.soon());
    this.state = { seconds: 600, search: "", opened: new Set(), selected: null, job: null, log: null, policy: false, said: null, theme: localStorage.getItem("theme") ?? "auto" };
    this.change = (id) => this.setState({ job: id });
    this.log = (job) => this.setState({ log: job });
    this.open = (id) => {
      const opened = new Set(this.state.opened);
      opened.has(id) ? opened.delete(id) : opened.add(id);
      this.setState({ opened, selected: id });
    };
    this.select = (id) => this.setState({ selected: this.state.selected === id ? null : id });
    this.done = (said) => {
      this.setState({ job: null, policy: false, said });
      clearTimeout(this.saying);
      this.saying = setTimeout(() => this.setState({ said: null }), SAID_MS);
    };
  }

  // Once per frame, however many messages come; not at all while nobody can see it.
  soon() {
    if (this.waiting || document.hidden) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.forceUpdate();
    });
  }

  componentDidMount() {
    const { store } = this;
    store.loadAbout();
    store.connect();
    setInterval(() => {
      store.watch();
      this.soon();
    }, 1000);
    document.addEventListener("visibilitychange", () => this.soon());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.soon());
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, dialog");
      if (event.key === "/" && !typing) {
        event.preventDefault();
        document.getElementById("search")?.focus();
      }
    });
    this.dress();
  }

  dress() {
    document.documentElement.dataset.theme = this.state.theme;
  }

  nextTheme() {
    const theme = THEMES[(THEMES.indexOf(this.state.theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    this.setState({ theme }, () => this.dress());
  }

  get dark() {
    const { theme } = this.state;
    return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  }

  render() {
    const { store } = this;
    const { seconds, search, opened, selected, said, theme, policy } = this.state;
    const { info, about } = store;
    if (!info) return html`<main class="start"><h1>tf_malleable</h1><p role="status">${store.problem}</p></main>`;
    const jobs = [...store.jobs.values()];
    const running = jobs.filter((job) => job.state !== "waiting");
    const queue = jobs.filter((job) => job.state === "waiting");
    const mayChange = about !== null && !about.read_only && store.connected;
    const change = mayChange ? this.change : null;
    const job = this.state.job !== null && store.jobs.get(this.state.job);
    const now = store.connected ? store.now : store.at;
    return html`
      <header class="top">
        <img src="static/icon.svg" alt="" width="30" height="30" /><h1>tf_malleable <span class="quiet">${about?.host ?? ""}</span></h1>
        <span class=${`pill ${store.connected ? "live" : "down"}`} role="status" id="connection">${store.connected ? "live" : "no data"}</span>
        <span class="spacer"></span>
        ${about && html`<span class="quiet" id="user">${about.read_only ? "read-only" : `you act as ${about.user}`}</span>`}
        <button class="small" onClick=${() => this.nextTheme()} id="theme" aria-label=${`Colours: ${theme}`}>${{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme]}</button>
      </header>
      <main>
        ${!store.connected && html`<p class="banner" role="alert">No data since ${clock(store.since ?? store.at)}: ${store.problem}. Below is what was known then; jobs go on without a controller.</p>`}
        ${info.problem && html`<p class="banner" role="alert">${info.problem}</p>`}
        ${this.tiles(info, jobs, running, queue, mayChange)}
        <div class="grid">
          <${Panel} id="cpus" title="CPUs"><${Cpus} info=${info} jobs=${jobs} selected=${selected} onSelect=${this.select} /><//>
          <${Panel} id="load" title="Load" tools=${html`<span class="legend"><span><i class="line one"></i>granted</span><span><i class="line two"></i>used</span></span>${this.windows(seconds)}`}>
            <${Load} series=${store.series} version=${store.series[0].at(-1)} now=${store.now} frozen=${!store.connected} seconds=${seconds} cpus=${info.cpus.length} theme=${this.dark} /><//>
        </div>
        <${Panel} id="jobs" title="Jobs"><${Running} jobs=${running} total=${info.cpus.length} now=${now} selected=${selected} opened=${opened} onOpen=${this.open} onChange=${change} onLog=${this.log} /><//>
        <${Panel} id="queue" title="Queue"><${Queue} jobs=${queue} now=${now} onChange=${change} /><//>
        <${Panel} id="gantt" title="Who had cores when" tools=${this.windows(seconds)}><${Gantt} store=${store} seconds=${seconds} /><//>
        <${Panel} id="power" title="Power"><${Power} power=${store.power} jobs=${jobs} /><//>
        <${Panel} id="history" title="History"><${History} ended=${store.ended} onLog=${this.log} search=${search} onSearch=${(search) => this.setState({ search })} onAll=${() => this.all()} /><//>
      </main>
      <p class="said" role="status" id="said">${said}</p>
      ${job && html`<${ChangeJob} key=${job.id} store=${store} job=${job} onDone=${this.done} onClose=${() => this.setState({ job: null })} />`}
      ${this.state.log && html`<${JobLog} key=${`log ${this.state.log.id}`} store=${store} job=${this.state.log} onClose=${() => this.setState({ log: null })} />`}
      ${policy && html`<${ChangePolicy} store=${store} onDone=${this.done} onClose=${() => this.setState({ policy: false })} />`}`;
  }

  // Whoever searches wants more than the newest.
  all() {
    if (this.hasAll) return;
    this.hasAll = true;
    this.store.loadEnded(true);
  }

  windows(seconds) {
    return html`<span class="windows" role="group" aria-label="Time shown">${WINDOWS.map(([length, label]) => html`<button key=${length} class="small" aria-pressed=${length === seconds ? "true" : "false"} onClick=${() => this.setState({ seconds: length })}>${label}</button>`)}</span>`;
  }

  tiles(info, jobs, running, queue, mayChange) {
    const total = info.cpus.length;
    const granted = new Set(running.flatMap((job) => job.granted)).size;
    const used = running.reduce((sum, job) => sum + (job.used_cpus ?? 0), 0);
    const steps = running.reduce((sum, job) => sum + (job.steps_per_second ?? 0), 0);
    const longest = queue.length ? Math.max(...queue.map((job) => this.store.now - job.submitted)) : null;
    const watts = this.store.power?.watts ?? (jobs.some((job) => job.watts != null) ? jobs.reduce((sum, job) => sum + (job.watts ?? 0), 0) : null);
    return html`<div class="tiles">
      <${Tile} label="CPUs granted" value=${html`${granted}<small> / ${total}</small>`} share=${total ? granted / total : 0} note=${`${total - granted} not in use`} />
      <${Tile} label="CPUs busy" value=${number(used)} share=${total ? used / total : 0} note=${`${percent(granted ? used / granted : null)} of those granted`} />
      <${Tile} label="Jobs running" value=${running.length} note=${`${number(steps)} steps/s in all`} />
      <${Tile} label="Jobs waiting" value=${queue.length} note=${longest === null ? "nobody waits" : `longest ${duration(longest)}`} />
      <${Tile} label="Power" value=${watts === null ? "no meter" : `${number(watts)} W`} note=${this.store.power?.source ?? ""} />
      <${Tile} label="Policy" value=${html`<span class="policy">${info.policy}</span>`}>${mayChange && html`<button class="small" id="change-policy" onClick=${() => this.setState({ policy: true })}>Change…</button>`}<//>
    </div>`;
  }
}

render(html`<${Page} />`, document.getElementById("page"));
