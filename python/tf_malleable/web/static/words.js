// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Jobs, numbers and times in words. Pure.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const COLOURS = 8;

// Letter and colour depend on the id alone, so they stay the same while other jobs come and go.
export const letter = (job) => LETTERS[(Number(job.id) - 1) % LETTERS.length];
export const colour = (job) => `c${(Number(job.id) - 1) % COLOURS}`;

// As `tfm jobs` says it.
export function state(job) {
  if (job.paused_by_user ?? job.held) return "paused";
  if (job.stopped) return "stopped";
  return job.state === "paused" ? "held" : job.state;
}

export function mainProcess(job) {
  if (job.pid != null || job.main_ended == null) return `pid ${job.pid ?? "unknown"}`;
  const code = job.exit_code == null ? "" : ` with exit code ${job.exit_code}`;
  const how = job.cause?.startsWith("signal") ? ` by ${job.cause}` : code;
  return `ended${how}; ${job.remaining} ${job.remaining === 1 ? "process remains" : "processes remain"}`;
}

// As `tfm show` says it.
export function threadsOf({ name, follows, limit, capacity, pids }) {
  const count = limit == null ? "" : `, ${limit} of ${capacity} threads`;
  const where = pids.length === 1 ? `process ${pids[0]}` : `processes ${pids[0]} and ${pids.length - 1} more`;
  return `${name}: ${follows}${count} (${where})`;
}

export function duration(seconds) {
  if (seconds == null) return "–";
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, "0")}`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function number(value, digits = 3) {
  if (value == null) return "–";
  return Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(digits)));
}

export const percent = (share) => (share == null ? "–" : `${Math.round(100 * share)} %`);
export const cores = (count) => (count === 1 ? "1 core" : `${count} cores`);
export const jobs = (count) => (count === 1 ? "1 job" : `${count} jobs`);
export const clock = (at) => new Date(1000 * at).toLocaleTimeString("en-GB");
export const dayAndTime = (at) =>
  new Date(1000 * at).toLocaleString("en-GB", {
    day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });

// The share of its cores that a job keeps busy; null if unknown.
export const efficiency = (job) =>
  job.used_cpus == null || !job.granted.length ? null : job.used_cpus / job.granted.length;

export const progress = (job) =>
  job.steps_done == null || !job.steps_total ? null : Math.min(1, job.steps_done / job.steps_total);

// Seconds until the last announced step at the present speed; null if unknown.
export function remaining(job, now) {
  if (job.state !== "running" || job.steps_done == null || !job.steps_total || !job.steps_per_second) return null;
  const then = (job.steps_total - job.steps_done) / job.steps_per_second;
  return Math.max(0, then - (job.as_of ? Math.max(0, now - job.as_of) : 0));
}

// Time without cores until now: the controller says it only when something else has changed.
export function waited(job, now) {
  const since = job.as_of ? Math.max(0, now - job.as_of) : 0;
  return job.waiting_seconds + job.paused_seconds + (job.state === "running" ? 0 : since);
}

export function cpuList(cpus) {
  const parts = [];
  for (let i = 0; i < cpus.length; i++) {
    const first = cpus[i];
    while (i + 1 < cpus.length && cpus[i + 1] === cpus[i] + 1) i++;
    parts.push(first === cpus[i] ? `${first}` : `${first}-${cpus[i]}`);
  }
  return parts.join(",") || "none";
}
