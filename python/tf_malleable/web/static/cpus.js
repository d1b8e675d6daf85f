// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Who has which CPU: one cell for each, by NUMA node.
import { html } from "./html.js";
import { colour, letter } from "./words.js";

const GAP = 4;

function cell(owners, cpu) {
  const { granted, lent, actual } = owners;
  const user = granted.get(cpu.id);
  const lender = lent.get(cpu.id);
  if (user) {
    const pending = !actual.has(cpu.id);
    const isBorrowed = lender && lender !== user;
    const note = (pending ? ", not acknowledged yet" : "") + (isBorrowed ? `, lent by job ${lender.id} (${lender.name})` : "");
    return {
      kind: `fill ${colour(user)}${pending ? " pending" : ""}`, mark: letter(user), borrowed: isBorrowed && colour(lender),
      title: `CPU ${cpu.id}: job ${user.id} (${user.name})${note}`,
    };
  }
  if (lender)
    return { kind: `lent ${colour(lender)}`, mark: letter(lender), title: `CPU ${cpu.id}: lent by job ${lender.id} (${lender.name}), nobody uses it` };
  return { kind: "free", mark: "", title: `CPU ${cpu.id}: free` };
}

export function owners(jobs) {
  const found = { granted: new Map(), lent: new Map(), actual: new Set() };
  for (const job of jobs) {
    for (const cpu of job.granted) {
      // Of two jobs that share a CPU, the borrower is shown.
      if (!job.lent.includes(cpu) || !found.granted.has(cpu)) found.granted.set(cpu, job);
    }
    for (const cpu of job.lent) found.lent.set(cpu, job);
    for (const cpu of job.actual) found.actual.add(cpu);
  }
  return found;
}

export function Cpus({ info, jobs, selected, onSelect }) {
  const who = owners(jobs);
  const nodes = new Map();
  for (const cpu of [...info.cpus].sort((a, b) => a.id - b.id))
    nodes.set(cpu.node, [...(nodes.get(cpu.node) ?? []), cpu]);
  const few = info.cpus.length <= 16;
  const perRow = few ? 8 : 16;
  const size = few ? 56 : 34;
  const height = few ? 44 : 30;
  const free = info.cpus.filter((cpu) => !who.granted.has(cpu.id) && !who.lent.has(cpu.id)).length;
  return html`<div class="cpus">
    ${[...nodes].map(([node, cpus]) => {
      const rows = Math.ceil(cpus.length / perRow);
      const columns = Math.min(perRow, cpus.length);
      const width = columns * (size + GAP);
      return html`<figure key=${node}>
        ${nodes.size > 1 && html`<figcaption>NUMA node ${node}</figcaption>`}
        <svg class="strip" viewBox=${`0 0 ${width} ${rows * (height + GAP)}`} style=${{ maxWidth: `${width * (few ? 1.4 : 1.25)}px` }} role="img"
          aria-label=${`${cpus.length} CPUs of node ${node}; the table of jobs says who has them`}>
          ${cpus.map((cpu, i) => {
            const { kind, mark, borrowed, title } = cell(who, cpu);
            const x = (i % columns) * (size + GAP) + GAP / 2;
            const y = Math.floor(i / columns) * (height + GAP) + GAP / 2;
            const job = who.granted.get(cpu.id) ?? who.lent.get(cpu.id);
            const chosen = job && job.id === selected;
            return html`<g key=${cpu.id} class=${`cpu ${kind}${chosen ? " chosen" : ""}`} data-cpu=${cpu.id} onClick=${() => job && onSelect(job.id)}>
              <title>${title}</title>
              <rect x=${x} y=${y} width=${size} height=${height} rx="5" />
              ${borrowed && html`<path class=${`corner ${borrowed}`} d=${`M${x + size - 11} ${y + 1} h10 v10 z`} />`}
              <text x=${x + size / 2} y=${y + height * 0.58}>${mark}</text>
              <text class="id" x=${x + 3.5} y=${y + 6.5}>${cpu.id}</text>
            </g>`;
          })}
        </svg>
      </figure>`;
    })}
    <p class="legend">
      <span><i class="key c0"></i>in use</span><span><i class="key c0 pending"></i>granted, not acknowledged</span>
      <span><i class="key c0 lent"></i>lent, unused</span><span><i class="key borrowed"></i>corner: lent by another job</span>
      <span><i class="key free"></i>free (${free})</span>
    </p>
  </div>`;
}

// How many CPUs a job lends without using them.
export function lentOnly(job) {
  return job.lent.filter((cpu) => !job.granted.includes(cpu)).length;
}

// A job's cores: asked for (outline), granted (light), actual (full), lent and unused (hatched).
export function JobStrip({ job, total }) {
  const unit = 120 / Math.max(1, total);
  const bar = (count) => Math.max(count ? 1.5 : 0, count * unit);
  const lent = lentOnly(job);
  const title = `${job.desired} desired${job.by_hand == null ? "" : " (set by hand)"}, ${job.granted.length} granted, ${job.actual.length} actual` + (lent ? `, ${lent} lent` : "");
  return html`<svg class=${`bar ${colour(job)}`} viewBox="0 0 124 16" role="img" aria-label=${title}>
    <title>${title}</title>
    <rect class="granted" x="1" y="3" width=${bar(job.granted.length)} height="10" rx="2" />
    <rect class="actual" x="1" y="3" width=${bar(job.actual.length)} height="10" rx="2" />
    ${lent > 0 && html`<rect class="lending" x=${1 + bar(job.granted.length)} y="3" width=${bar(lent)} height="10" rx="2" />`}
    <rect class="desired" x="1" y="1.5" width=${bar(Math.min(job.desired, total))} height="13" rx="2.5" />
  </svg>`;
}
