// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// The jobs that have ended, and the search in them.
import { useMemo, useState } from "preact/hooks";
import { html } from "./html.js";
import { Badge, Name } from "./jobs.js";
import { dayAndTime, duration, jobs, number } from "./words.js";

const AT_ONCE = 50;

// Each word must be in the id, name, user, command, outcome or area of a job.
export function matching(ended, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return ended;
  return ended.filter((job) => {
    const said = [job.id, job.name, job.user, job.outcome, job.cause ?? "", job.area ?? "", ...job.command].join(" ").toLowerCase();
    return words.every((word) => said.includes(word));
  });
}

export function History({ ended, search, onLog, onSearch, onAll }) {
  const [shown, setShown] = useState(AT_ONCE);
  const found = useMemo(() => matching(ended, search), [ended, search]);
  const logs = ended.some((job) => job.output != null);
  const energy = ended.some((job) => job.energy_joules != null);
  return html`<div class="history">
    <p class="tools">
      <label>Search <input id="search" type="search" value=${search} placeholder="name, user, id, command, failed …" autocomplete="off" spellcheck="false"
        onFocus=${onAll} onInput=${(event) => onSearch(event.target.value)} /></label>
      <span role="status" id="found">${search ? `${jobs(found.length)} of ${ended.length}` : jobs(ended.length)}</span>
    </p>
    ${found.length === 0 ? html`<p class="empty">${ended.length ? "No job that has ended is like that." : "No job has ended yet."}</p>` : html`
    <div class="scroll" tabindex="0" role="region" aria-label="Jobs that have ended"><table>
      <thead><tr><th><span class="hidden">Letter</span></th><th class="number">id</th><th>name</th><th>user</th><th>outcome</th><th>ended</th>
        <th class="number">waited</th><th class="number">ran</th><th class="number">core seconds</th><th class="number">resizes</th><th class="number">steps</th>${energy && html`<th class="number">energy</th>`}${logs && html`<th><span class="hidden">Log</span></th>`}</tr></thead>
      <tbody>${found.slice(0, shown).map((job) => html`<tr key=${job.id}>
        <td><${Badge} job=${job} /></td><td class="number">${job.id}</td><td class="wide"><${Name} text=${job.name} /></td><td><bdi>${job.user}</bdi></td>
        <td><span class=${`state ${job.outcome}`}>${job.cause ?? `${job.outcome}${job.exit_code ? ` ${job.exit_code}` : ""}`}</span></td><td>${dayAndTime(job.ended)}</td>
        <td class="number">${duration(job.waiting_seconds + job.paused_seconds)}</td><td class="number">${duration(job.service_seconds)}</td>
        <td class="number">${number(job.core_seconds)}</td><td class="number">${job.resizes}</td><td class="number">${number(job.steps)}</td>
        ${energy && html`<td class="number">${job.energy_joules == null ? "–" : `${number(job.energy_joules / 1000)} kJ`}</td>`}
        ${logs && html`<td>${job.output != null && html`<button class="small" onClick=${() => onLog(job)} aria-label=${`Log of job ${job.id}`}>Log…</button>`}</td>`}
      </tr>`)}</tbody>
    </table></div>
    ${found.length > shown && html`<button class="small" onClick=${() => setShown(shown + AT_ONCE)}>Show more</button>`}`}
  </div>`;
}
