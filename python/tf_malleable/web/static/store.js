// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// What is known, and how each message changes it.

export const KEPT_SECONDS = 1800;
const KEPT_SPANS = 10_000;
const KEPT_ENDED = 5000;
const SILENT_MS = 4000;
const AGAIN_MS = 1000;

// Storage of this origin and tab only, which has this port, while a cookie goes to all ports.
const TOKEN = "token";

// Take the token from the address, so that it is not left there.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get(TOKEN);
  if (given === null) return;
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname + location.search);
}

export class Store {
  constructor(changed) {
    takeToken();
    // The address may be opened again in the same tab, as after a restart of the server.
    addEventListener("hashchange", () => location.hash.startsWith(`#${TOKEN}=`) && location.reload());
    this.token = sessionStorage.getItem(TOKEN);
    this.changed = changed;
    this.about = null;
    this.info = null;
    this.power = null;
    this.loadedAt = null; // From when on changes are seen; what was before comes from the history.
    this.jobs = new Map(); // In order of arrival.
    this.at = 0;
    this.skew = 0; // What the controller's clock is ahead of ours, in seconds.
    this.problem = "connecting …";
    this.since = null;
    this.gaps = [];
    this.series = [[], [], [], [], [], []];
    this.spans = []; // Past spans: {job, begin, end, state, cpus}.
    this.ended = []; // Ended jobs, newest first.
    this.endedUntil = 0;
    this.count = null;
    this.socket = null;
    this.heard = 0;
  }

  get now() {
    return Date.now() / 1000 + this.skew;
  }

  // Times of which nothing is known, up to now.
  get unknown() {
    return this.connected ? this.gaps : [...this.gaps, [this.since ?? this.at, this.now]];
  }

  get connected() {
    return this.problem === null;
  }

  connect() {
    const url = new URL("stream", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    const protocols = this.token === null ? ["tfm"] : ["tfm", `bearer.${this.token}`];
    const socket = (this.socket = new WebSocket(url, protocols));
    this.heard = Date.now();
    socket.onmessage = (event) => {
      this.heard = Date.now();
      this.hear(JSON.parse(event.data));
    };
    socket.onclose = async () => {
      // A browser does not tell a page why a WebSocket was refused.
      const { message } = await this.ask("GET", "about").then(() => new Error("the connection was closed"), (error) => error);
      if (this.socket !== socket) return;
      this.lost(message);
      setTimeout(() => this.socket === socket && this.connect(), AGAIN_MS);
    };
  }

  // Called once a second: a connection may be dead without having been closed.
  watch() {
    if (this.connected && Date.now() - this.heard > SILENT_MS) this.lost("nothing has been heard for a while");
  }

  lost(problem) {
    if (this.connected) {
      this.since = this.at;
      this.sample([this.at + 0.5, null, null, null, null, null]);
    }
    this.problem = problem;
    this.changed();
  }

  hear(said) {
    if (said.series) {
      this.series = said.series.length ? said.series : [[], [], [], [], [], []];
      this.gaps = said.gaps;
    } else if (said.sample) {
      this.sample(said.sample);
    } else if (said.gap) {
      this.gaps.push(said.gap);
    } else if (said.down) {
      this.lost(said.down);
      this.since = said.since ?? this.since;
    } else {
      this.change(said);
    }
    this.changed();
  }

  sample(row) {
    row.forEach((value, i) => this.series[i].push(value));
    while (this.series[0][0] < row[0] - KEPT_SECONDS) this.series.forEach((column) => column.shift());
  }

  change(said) {
    this.at = said.at;
    if (said.whole) this.loadedAt = said.at;
    this.skew = said.at - Date.now() / 1000;
    if (said.info) this.info = said.info;
    if (said.power) this.power = said.power;
    const before = this.jobs;
    if (said.whole) this.jobs = new Map();
    for (const job of said.jobs) {
      const known = before.get(job.id);
      if (known) job.since = same(known, job) ? known.since : said.at;
      else job.since = said.whole ? null : job.state === "waiting" ? job.submitted : (job.started ?? said.at);
      if (known && job.since === said.at && known.since !== said.at) this.passed(known, said.at);
      this.jobs.set(job.id, job);
    }
    for (const id of said.gone) {
      const job = this.jobs.get(id);
      if (job) this.passed(job, said.at);
      this.jobs.delete(id);
    }
    // Jobs that came and went between two lines are only counted.
    if (said.ended !== this.count) setTimeout(() => this.loadEnded(), 100);
    this.count = said.ended;
    if (said.whole) {
      if (this.since !== null && this.problem !== null && !this.gaps.some(([begin]) => begin === this.since))
        this.gaps.push([this.since, said.at]);
      this.loadSpans();
    }
    this.problem = this.since = null;
  }

  // A job had something else until now.
  passed(job, at) {
    const begin = job.since ?? this.loadedAt ?? at;
    if (at > begin) this.spans.push({ job: job.id, begin, end: at, state: job.state, cpus: job.granted });
    if (this.spans.length > KEPT_SPANS) this.spans = this.spans.filter((span) => span.end > at - KEPT_SECONDS).slice(-KEPT_SPANS);
  }

  async ask(method, path, body) {
    const options = { method, headers: this.token === null ? {} : { Authorization: `Bearer ${this.token}` } };
    if (method !== "GET") options.headers["Content-Type"] = "application/json";
    if (body !== undefined) options.body = JSON.stringify(body);
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw new Error("tfm web does not answer; is it still running?");
    }
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.error ?? `it was refused (${answer.status})`);
    return said;
  }

  async loadAbout() {
    this.about = await this.ask("GET", "about").catch(() => null);
    this.changed();
  }

  // Spans of what ended lately, and of live jobs; the present ones of these go on.
  async loadSpans() {
    const at = this.at;
    const since = Math.max(0, at - KEPT_SECONDS).toFixed(3);
    const found = await this.ask("GET", `v1/history?spans=true&limit=2000&since=${since}`).catch(() => null);
    if (!found) return;
    this.spans = found.spans;
    for (const job of this.jobs.values()) {
      const own = found.spans.filter((span) => span.job === job.id);
      const last = own.reduce((a, b) => (a && a.begin > b.begin ? a : b), null);
      if (last && same({ granted: last.cpus, state: last.state }, job)) {
        job.since = last.begin;
        this.spans.splice(this.spans.indexOf(last), 1);
      }
    }
    this.changed();
  }

  async loadEnded(all = false) {
    const since = all ? 0 : this.endedUntil;
    const limit = all ? 1000 : 200;
    const found = await this.ask("GET", `v1/history?limit=${limit}&since=${since.toFixed(6)}`).catch(() => null);
    if (!found) return;
    const known = new Set(found.jobs.map((job) => job.id));
    this.ended = [...found.jobs, ...this.ended.filter((job) => !known.has(job.id))];
    this.ended.sort((a, b) => b.ended - a.ended).splice(KEPT_ENDED);
    if (this.ended.length) this.endedUntil = this.ended[0].ended;
    this.changed();
  }
}

const same = (a, b) => a.state === b.state && a.granted.join() === b.granted.join();
