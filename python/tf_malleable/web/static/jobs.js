// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// The jobs that have cores, and the queue with what each job in it waits for.
import { Component } from "preact";
import { html } from "./html.js";
import { JobStrip, lentOnly } from "./cpus.js";
import { colour, cores, cpuList, duration, efficiency, letter, mainProcess, clock, dayAndTime, number, percent, progress, remaining, state, threadsOf, waited } from "./words.js";

export const Badge = ({ job }) => html`<span class=${`badge ${colour(job)}`} aria-hidden="true">${letter(job)}</span>`;

// Names are other people's: isolated, so that their direction of writing stays theirs, and cut by CSS.
export const Name = ({ text }) => html`<bdi class="name" title=${text}>${text}</bdi>`;

function Progress({ job }) {
  const share = progress(job);
  if (share === null) return html`<span class="quiet">${job.steps_done == null ? "–" : `${number(job.steps_done)} steps`}</span>`;
  return html`<span class="progress">
    <progress max="1" value=${share} aria-label=${`progress of job ${job.id}`}></progress>${percent(share)}
  </span>`;
}

function Efficiency({ job }) {
  const share = efficiency(job);
  const low = share !== null && share < 0.5;
  return html`<span class=${low ? "low" : ""} title="the share of its cores that it keeps busy">${percent(share)}</span>`;
}

const spent = (job) => `${number(job.energy_joules)} J (${job.energy_source})${job.steps_done ? `, ${number(job.energy_joules / job.steps_done)} J a step` : ""}`;

const ms = (seconds) => `${number(1000 * seconds)} ms`;

function served({ requests, per_second, in_flight, p50, p99 }) {
  const tail = p50 == null ? "" : `; latency ${ms(p50)} (median), ${ms(p99)} (p99)`;
  return `${number(requests)}, ${number(per_second)} a second, ${in_flight} in flight${tail}`;
}

const DAY = 86400;

// When it will have done its steps, at the present speed.
function Eta({ left, now }) {
  if (left === null) return html`<span class="quiet" title="only of jobs that run and say how many steps they have in all">unknown</span>`;
  const at = Math.round((now + left) / 10) * 10;
  return html`<span title=${`about ${dayAndTime(at)}`}>${duration(left)} <span class="quiet eta">${left < DAY ? clock(at).slice(0, 5) : dayAndTime(at).slice(0, 6)}</span></span>`;
}

function Details({ job, columns, onLog }) {
  const speeds = job.speeds.map((speed) => `${number(speed.steps_per_second)} a second with ${cores(speed.cores)}`);
  const facts = [
    ["Command", job.command.join(" ") || "not shown to you"],
    ["CPUs", `granted ${cpuList(job.granted)}; actual ${cpuList(job.actual)}; lent ${cpuList(job.lent)}`],
    ...(job.confined ? [["Confined", job.confined]] : []),
    ...(job.pools?.length ? [["Pools", job.pools.map(threadsOf).join("; ")]] : []),
    ["Asked for", `${job.min} to ${job.max} cores, preferably ${job.preferred}; priority ${job.priority}, weight ${job.weight}`],
    ["Speeds", speeds.join("; ") || "none measured yet"],
    ...(job.slo == null ? [] : [["Objective", job.slo]]),
    ...(job.latency == null ? [] : [["Requests", served(job.latency)]]),
    ["Times", `ran ${duration(job.run_seconds)}, resized ${job.resizes} times`],
    ...(job.energy_joules == null ? [] : [["Energy", spent(job)]]),
    ["Process", job.container ? `container ${job.container.name}` : mainProcess(job)],
  ];
  return html`<tr class="details"><td></td><td colspan=${columns - 1}>
    <dl>${facts.map(([name, text]) => html`<div><dt>${name}</dt><dd><bdi>${text}</bdi></dd></div>`)}</dl>
    ${job.output && html`<button class="small" onClick=${() => onLog(job)} aria-label=${`Log of job ${job.id}`}>Log…</button>`}
  </td></tr>`;
}

// Rows are drawn again only if their job has changed: there may be hundreds.
class Row extends Component {
  shouldComponentUpdate(next) {
    return ["job", "total", "open", "chosen", "waited", "left", "power", "onChange"].some((name) => next[name] !== this.props[name]);
  }

  render({ job, total, open, chosen, waited, left, now, power, columns, onOpen, onChange, onLog }) {
    return [
      html`<tr key="row" class=${chosen ? "chosen" : ""} data-job=${job.id}>
        <td><${Badge} job=${job} /></td>
        <td class="number">${job.id}</td>
        <td class="wide"><button class="plain" aria-expanded=${open ? "true" : "false"} onClick=${() => onOpen(job.id)}><${Name} text=${job.name} /></button></td>
        <td><bdi>${job.user}</bdi></td>
        <td><span class=${`state ${state(job)}`}>${state(job)}</span></td>
        <td class="cores"><${JobStrip} job=${job} total=${total} /></td>
        <td class="number" title="desired / granted / actual">${job.desired}${job.by_hand == null ? "" : "*"} / ${job.granted.length}${lentOnly(job) ? `+${lentOnly(job)}` : ""} / ${job.actual.length}${job.confined ? html` <span class="low" title=${job.confined}>confined</span>` : ""}</td>
        <td class="number">${number(job.steps_per_second)}</td>
        <td><${Progress} job=${job} /></td>
        <td class="left"><${Eta} left=${left} now=${now} /></td>
        <td class="number"><${Efficiency} job=${job} /></td>
        <td class="number">${duration(waited)}</td>
        ${power && html`<td class="number">${job.watts == null ? "–" : `${number(job.watts)} W`}</td>`}
        ${onChange && html`<td><button class="small change" onClick=${() => onChange(job.id)} aria-label=${`Change job ${job.id}`}>Change…</button></td>`}
      </tr>`,
      open && html`<${Details} key="details" job=${job} columns=${columns} onLog=${onLog} />`,
    ];
  }
}

const whole = (seconds) => (seconds === null ? null : Math.floor(seconds));

export function Running({ jobs, total, now, selected, opened, onOpen, onChange, onLog }) {
  if (!jobs.length) return html`<p class="empty">No job runs. Start one with <code>tfm run -- python train.py</code>.</p>`;
  const power = jobs.some((job) => job.watts != null);
  const columns = 12 + (power ? 1 : 0) + (onChange ? 1 : 0);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Jobs with cores"><table>
    <thead><tr>
      <th><span class="hidden">Letter</span></th><th class="number">id</th><th>name</th><th>user</th><th>state</th><th>cores</th>
      <th class="number">desired / granted / actual</th><th class="number">steps/s</th><th>progress</th><th>remaining, until</th><th class="number">efficiency</th><th class="number">waited</th>
      ${power && html`<th class="number">power</th>`}${onChange && html`<th><span class="hidden">Change</span></th>`}
    </tr></thead>
    <tbody>${jobs.map((job) => html`<${Row} key=${job.id} job=${job} total=${total} open=${opened.has(job.id)} chosen=${selected === job.id}
      waited=${Math.floor(waited(job, now))} left=${whole(remaining(job, now))} now=${now} power=${power} columns=${columns} onOpen=${onOpen} onChange=${onChange} onLog=${onLog} />`)}</tbody>
  </table></div>`;
}

class Waiting extends Component {
  shouldComponentUpdate(next) {
    return ["job", "place", "waited", "onChange"].some((name) => next[name] !== this.props[name]);
  }

  render({ job, place, waited, onChange }) {
    return html`<tr data-job=${job.id}>
      <td class="number">${place}</td>
      <td><${Badge} job=${job} /></td>
      <td class="number">${job.id}</td>
      <td class="wide"><${Name} text=${job.name} /></td>
      <td><bdi>${job.user}</bdi></td>
      <td class="number">${job.min} … ${job.max}</td>
      <td class="number">${job.priority}</td>
      <td class="number">${duration(waited)}</td>
      <td class="reason"><bdi>${job.reason ?? "the controller has not said"}</bdi></td>
      ${onChange && html`<td><button class="small change" onClick=${() => onChange(job.id)} aria-label=${`Change job ${job.id}`}>Change…</button></td>`}
    </tr>`;
  }
}

export function Queue({ jobs, now, onChange }) {
  if (!jobs.length) return html`<p class="empty">Nobody waits.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Jobs that wait"><table>
    <thead><tr>
      <th class="number">#</th><th><span class="hidden">Letter</span></th><th class="number">id</th><th>name</th><th>user</th><th class="number">cores</th>
      <th class="number">priority</th><th class="number">waiting</th><th>why</th>${onChange && html`<th><span class="hidden">Change</span></th>`}
    </tr></thead>
    <tbody>${jobs.map((job, i) => html`<${Waiting} key=${job.id} job=${job} place=${i + 1} waited=${Math.floor(waited(job, now))} onChange=${onChange} />`)}</tbody>
  </table></div>`;
}
