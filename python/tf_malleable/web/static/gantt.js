// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Which job had how many cores when. Where nothing is known, nothing is drawn but the gap.
import { html } from "./html.js";
import { clock, colour, cores, letter } from "./words.js";

const WIDTH = 1000;
const LEFT = 34;
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

export function Gantt({ store, seconds }) {
  const end = store.connected ? store.now : store.at;
  const begin = end - seconds;
  const total = Math.max(1, store.info.cpus.length);
  const lines = rows(store, begin);
  if (!lines.length) return html`<p class="empty">No job has had cores in this time.</p>`;
  const x = (at) => LEFT + ((Math.min(end, Math.max(begin, at)) - begin) / seconds) * (WIDTH - LEFT);
  const height = TOP + lines.length * ROW + 4;
  const step = STEPS.find((each) => seconds / each <= 10) ?? 600;
  const ticks = [];
  for (let at = Math.ceil(begin / step) * step; at < end; at += step) ticks.push(at);
  const gaps = [...store.gaps.filter(([, to]) => to > begin)];
  return html`<div class="scroll gantt" tabindex="0" role="region" aria-label="Cores of jobs over time">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${`${lines.length} jobs from ${clock(begin)} to ${clock(end)}`}>
      <defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="gapline" width="2" height="6" /></pattern></defs>
      ${ticks.map((at) => html`<g key=${at} class="tick"><line x1=${x(at)} x2=${x(at)} y1=${TOP - 4} y2=${height} /><text x=${x(at)} y="10">${clock(at).slice(0, step < 60 ? 8 : 5)}</text></g>`)}
      ${lines.map(([id, spans], i) => {
        const y = TOP + i * ROW;
        const name = store.jobs.get(id)?.name ?? store.ended.find((job) => job.id === id)?.name ?? "";
        return html`<g key=${id} class=${colour({ id })}>
          <text class="row" x="2" y=${y + ROW / 2}>${letter({ id })} ${id}</text>
          ${spans.map((span) => {
            const width = Math.max(1, x(span.end) - x(span.begin));
            const thick = span.state === "running" ? 4 + (ROW - 6) * Math.min(1, span.cpus.length / total) : 1.5;
            return html`<rect key=${span.begin} class=${span.state} x=${x(span.begin)} width=${width} y=${y + (ROW - thick) / 2} height=${thick}>
              <title>${`job ${id} (${name}): ${span.state === "running" ? cores(span.cpus.length) : span.state}, ${clock(span.begin)} to ${clock(span.end)}`}</title>
            </rect>`;
          })}
        </g>`;
      })}
      ${gaps.map(([from, to]) => html`<g key=${from} class="gap"><rect x=${x(from)} width=${Math.max(2, x(to) - x(from))} y=${TOP - 4} height=${height} fill="url(#gap)" /><title>no data</title></g>`)}
    </svg>
  </div>`;
}
