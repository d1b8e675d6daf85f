// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// What the host and its jobs draw, as far as anything measures or estimates it.
import { html } from "./html.js";
import { Badge, Name } from "./jobs.js";
import { number } from "./words.js";

const watts = (value) => (value == null ? "–" : `${number(value)} W`);

// Areas from the controller, or else summed up over the jobs.
export function areas(power, jobs) {
  if (power?.areas?.length) return power.areas.map((each) => [each.area, each.watts, each.budget]);
  const sums = new Map();
  for (const job of jobs)
    if (job.watts != null) sums.set(job.area ?? "host", (sums.get(job.area ?? "host") ?? 0) + job.watts);
  return [...sums];
}

const Bar = ({ value, most }) => html`<svg class="watts" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${most > 0 ? Math.max(0.5, (100 * value) / most) : 0} height="8" rx="1" /></svg>`;

export function Power({ power, jobs }) {
  const drawing = jobs.filter((job) => job.watts != null).sort((a, b) => b.watts - a.watts);
  const known = areas(power, jobs);
  if (!known.length && power?.watts == null)
    return html`<p class="empty">No meter: ${power?.problem ?? "this host reports no power, and no curve was calibrated to estimate it"}.</p>`;
  const most = Math.max(power?.watts ?? 0, ...known.map(([, value]) => value), 1);
  const budget = power?.budget;
  return html`<div class="power">
    <dl class="facts">
      <div><dt>Host</dt><dd>${watts(power?.watts)}</dd></div>
      <div><dt>Idle</dt><dd>${watts(power?.idle_watts)}</dd></div>
      <div><dt>No job's</dt><dd>${watts(power?.other_watts)}</dd></div>
      <div><dt>Source</dt><dd>${power?.source ?? "–"}${power?.meter ? ` (${power.meter})` : ""}</dd></div>
      <div><dt>Budget</dt><dd>${budget ? `${watts(budget.watts)} ${budget.kind}` : "none"}</dd></div>
    </dl>
    <div class="columns">
      <table><thead><tr><th>area</th><th class="number">power</th><th><span class="hidden">Bar</span></th></tr></thead>
        <tbody>${known.map(([area, value, allowed]) => html`<tr key=${area}><td><bdi>${area}</bdi></td><td class="number">${watts(value)}${allowed ? ` of ${watts(allowed.watts)}` : ""}</td><td><${Bar} value=${value} most=${most} /></td></tr>`)}</tbody></table>
      <table><thead><tr><th><span class="hidden">Letter</span></th><th>job</th><th class="number">power</th><th><span class="hidden">Bar</span></th></tr></thead>
        <tbody>${drawing.slice(0, 12).map((job) => html`<tr key=${job.id}><td><${Badge} job=${job} /></td><td><${Name} text=${job.name} /></td><td class="number">${watts(job.watts)}</td><td><${Bar} value=${job.watts} most=${most} /></td></tr>`)}</tbody></table>
    </div>
  </div>`;
}
