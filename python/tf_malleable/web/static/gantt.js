// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Which job had how many cores when. Where nothing is known, nothing is drawn but the gap.
import { html } from "./html.js";
import { clock, colour, cores, letter } from "./words.js";

// Of a name, so many letters are beside its row; the rest is in the tooltip.
const WIDE = { width: 1000, left: 150, letters: 20, ticks: 10 };
const NARROW = { width: 360, left: 100, letters: 12, ticks: 4 };
const narrow = matchMedia("(max-width: 600px)");

const short = (name, letters) => ([...name].length > letters ? `${[...name].slice(0, letters - 1).join("")}…` : name);
const ROW = 16;
const TOP = 18;

const STEPS = [10, 30, 60, 300, 600];

export function rows(store, begin) {
  const found = new Map();
  const add = (span) => {
    if (span.end <= begin) return;
    if (!found.has(span.job)) found.set(span.job, []);
    found.get(span.job).push(span);
  };
  store.spans.forEach(add);
  for (const job of store.jobs.values()) {
    const from = job.since ?? store.loadedAt;
    if (from != null) add({ job: job.id, begin: from, end: store.now, state: job.state, cpus: job.granted });
  }
  // Who had no cores at all is in the queue.
  return [...found].filter(([, spans]) => spans.some((span) => span.state === "running"))
    .sort(([a], [b]) => Number(a) - Number(b));
}

// The parts of a span of which something is known.
export function known(span, gaps) {
  let parts = [span];
  for (const [from, to] of gaps)
    parts = parts.flatMap((part) => [{ ...part, end: Math.min(part.end, from) }, { ...part, begin: Math.max(part.begin, to) }]).filter((part) => part.end > part.begin);
  return parts;
}

export function Gantt({ store, seconds }) {
  const end = store.now;
  const begin = end - seconds;
  const { width: all, left, letters, ticks: most } = narrow.matches ? NARROW : WIDE;
  const total = Math.max(1, store.info.cpus.length);
  const lines = rows(store, begin);
  if (!lines.length) return html`<p class="empty">No job has had cores in this time.</p>`;
  const x = (at) => left + ((Math.min(end, Math.max(begin, at)) - begin) / seconds) * (all - left);
  const height = TOP + lines.length * ROW + 4;
  const step = STEPS.find((each) => seconds / each <= most) ?? 600;
  const ticks = [];
  for (let at = Math.ceil(begin / step) * step; at < end; at += step) ticks.push(at);
  const gaps = store.unknown.filter(([, to]) => to > begin);
  return html`<div class="scroll gantt" tabindex="0" role="region" aria-label="Cores of jobs over time">
    <svg viewBox=${`0 0 ${all} ${height}`} role="img" aria-label=${`${lines.length} jobs from ${clock(begin)} to ${clock(end)}`}>
      <defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="gapline" width="2" height="6" /></pattern></defs>
      ${ticks.map((at) => html`<g key=${at} class="tick"><line x1=${x(at)} x2=${x(at)} y1=${TOP - 4} y2=${height} /><text x=${x(at)} y="10">${clock(at).slice(0, step < 60 ? 8 : 5)}</text></g>`)}
      ${lines.map(([id, spans], i) => {
        const y = TOP + i * ROW;
        const name = store.jobs.get(id)?.name ?? store.ended.find((job) => job.id === id)?.name ?? "";
        return html`<g key=${id} class=${colour({ id })}>
          <text class="row" x="2" y=${y + ROW / 2}><title>${name}</title>${letter({ id })} ${id} <tspan class="name">${short(name, letters)}</tspan></text>
          ${spans.flatMap((span) => known(span, gaps)).map((span) => {
            const width = Math.max(1, x(span.end) - x(span.begin));
            const thick = span.state === "running" ? 4 + (ROW - 6) * Math.min(1, span.cpus.length / total) : 1.5;
            return html`<rect key=${span.begin} class=${span.state} x=${x(span.begin)} width=${width} y=${y + (ROW - thick) / 2} height=${thick}>
              <title>${`job ${id} (${name}): ${span.state === "running" ? cores(span.cpus.length) : span.state}, ${clock(span.begin)} to ${clock(span.end)}`}</title>
            </rect>`;
          })}
        </g>`;
      })}
      ${gaps.map(([from, to]) => html`<g key=${from} class="gap"><rect x=${x(from)} width=${Math.max(2, x(to) - x(from))} y=${TOP - 4} height=${height} fill="url(#gap)" /><title>${`no data from ${clock(from)} to ${clock(to)}`}</title></g>`)}
    </svg>
  </div>`;
}
