// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Changes by hand. Each says what will happen, as the controller foresees it, before it is done.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { Badge, Name } from "./jobs.js";
import { cores } from "./words.js";

const SETTLE_MS = 150;

export function Modal({ label, wide, onClose, onSubmit, children }) {
  const place = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    place.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${place} class=${wide ? "wide" : ""} aria-label=${label} onClose=${onClose} onClick=${(event) => event.target === place.current && onClose()}>
    <form onSubmit=${(event) => { event.preventDefault(); onSubmit(); }}>${children}</form>
  </dialog>`;
}

// Whose cores would change. Asked a moment after the last key, and only the last answer counts.
function useForecast(store, path) {
  const [forecast, setForecast] = useState({ path: null });
  useEffect(() => {
    if (path === null) return;
    let current = true;
    const timer = setTimeout(async () => {
      const said = await store.ask("GET", path).then(({ changes }) => ({ changes }), (error) => ({ error: error.message }));
      if (current) setForecast({ path, ...said });
    }, SETTLE_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [path]);
  return forecast.path === path ? forecast : {};
}

function Forecast({ sentence, forecast, waits }) {
  const { changes, error } = forecast;
  return html`<section class="forecast" aria-live="polite">
    <h3>What will happen</h3>
    ${sentence && html`<p>${sentence}</p>`}
    ${error ? html`<p class="problem">${error}</p>`
      : !changes ? html`<p class="quiet">${waits}</p>`
      : !changes.length ? html`<p class="nobody">Nobody's cores change now.</p>`
      : html`<ul>${changes.map((each) => html`<li key=${each.id}><${Badge} job=${each} /> <span class="number">${each.id}</span> <${Name} text=${each.name} /> <span class="quiet">(<bdi>${each.user}</bdi>)</span> <span>${cores(each.before)} → <b>${each.after}</b></span></li>`)}</ul>`}
  </section>`;
}

function Buttons({ verb, danger, busy, disabled, problem, onClose }) {
  return html`<footer>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <button type="button" onClick=${onClose}>Leave it</button>
    <button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy || disabled}>${verb}</button>
  </footer>`;
}

function useRequest(store, onDone) {
  const [state, setState] = useState({ busy: false, problem: null });
  const send = async (request, said) => {
    setState({ busy: true, problem: null });
    try {
      await store.ask(...request);
      onDone(said);
    } catch (error) {
      setState({ busy: false, problem: error.message });
    }
  };
  return [state, send];
}

function choices(job, count, priority) {
  const path = `v1/jobs/${job.id}`;
  const valid = (value) => /^-?\d+$/.test(value);
  return {
    cores: {
      label: "Set its cores by hand", verb: `Set ${cores(Number(count))}`, valid: valid(count) && Number(count) >= 1,
      preview: `change=cores&cores=${count}`, request: ["PUT", `${path}/cores`, { cores: Number(count) }],
      said: `job ${job.id} is set to ${cores(Number(count))} by hand`,
    },
    ...(job.by_hand != null && {
      auto: {
        label: "Let the policy decide its cores again", verb: "Return to the policy", valid: true,
        preview: "change=cores", request: ["PUT", `${path}/cores`, { cores: null }],
        said: `the policy decides the cores of job ${job.id} again`,
      },
    }),
    priority: {
      label: "Change its priority", verb: `Set priority ${priority}`, valid: valid(priority),
      preview: `change=priority&priority=${priority}`, request: ["PATCH", path, { priority: Number(priority) }],
      sentence: "Higher goes first, with policies that look at priorities.", said: `job ${job.id} has priority ${priority}`,
    },
    ...((job.paused_by_user ?? job.held)
      ? {
          resume: {
            label: "Resume it", verb: "Resume", valid: true, preview: "change=resume", request: ["POST", `${path}/resume`],
            sentence: "It may have cores again, as the policy decides.", said: `job ${job.id} is resumed`,
          },
        }
      : {
          pause: {
            label: "Pause it", verb: "Pause", valid: true, preview: "change=pause", request: ["POST", `${path}/pause`],
            sentence: "Its processes stop and keep their memory, until somebody resumes it.", said: `job ${job.id} is paused`,
          },
        }),
    cancel: {
      label: "Cancel it", verb: "Cancel the job", danger: true, valid: true, preview: "change=cancel", request: ["POST", `${path}/cancel`],
      sentence: "Its processes get SIGTERM, and SIGKILL after 10 seconds. This cannot be undone.", said: `job ${job.id} is cancelled`,
    },
  };
}

export function ChangeJob({ store, job, onDone, onClose }) {
  const [choice, setChoice] = useState("cores");
  const [count, setCount] = useState(String(job.by_hand ?? (job.granted.length || job.min)));
  const [priority, setPriority] = useState(String(job.priority));
  const [{ busy, problem }, send] = useRequest(store, onDone);
  const all = choices(job, count, priority);
  const chosen = all[choice] ?? all.cores;
  const forecast = useForecast(store, chosen.valid ? `v1/jobs/${job.id}/preview?${chosen.preview}` : null);
  const field = (value, set, name, low, high) => html`<input type="number" aria-label=${name} min=${low} max=${high} step="1" value=${value} onInput=${(event) => set(event.target.value)} />`;
  return html`<${Modal} label=${`Change job ${job.id}`} onClose=${onClose} onSubmit=${() => chosen.valid && !busy && send(chosen.request, chosen.said)}>
    <h2><${Badge} job=${job} /> Job ${job.id} <${Name} text=${job.name} /></h2>
    <fieldset><legend class="hidden">Change</legend>
      ${Object.entries(all).map(([key, { label }]) => html`<label key=${key} class="choice"><input type="radio" name="change" value=${key} checked=${choice === key} onChange=${() => setChoice(key)} />
        <span>${label}</span>
        ${key === choice && key === "cores" && field(count, setCount, "Cores", 1, store.info.cpus.length)}
        ${key === choice && key === "priority" && field(priority, setPriority, "Priority", -1000, 1000)}</label>`)}
    </fieldset>
    <${Forecast} sentence=${chosen.sentence} forecast=${forecast} waits=${chosen.valid ? "asking the controller …" : "Give a whole number."} />
    <${Buttons} verb=${chosen.verb} danger=${chosen.danger} busy=${busy} disabled=${!chosen.valid} problem=${problem} onClose=${onClose} />
  <//>`;
}

export function ChangePolicy({ store, onDone, onClose }) {
  const [policies, setPolicies] = useState(null);
  const [policy, setPolicy] = useState(store.info.policy);
  const [{ busy, problem }, send] = useRequest(store, onDone);
  useEffect(() => {
    store.ask("GET", "v1/policy").then(setPolicies, () => setPolicies({ available: [] }));
  }, []);
  const forecast = useForecast(store, policy ? `v1/policy/preview?policy=${encodeURIComponent(policy)}` : null);
  const verb = policy === store.info.policy ? "Keep it" : `Use ${policy}`;
  return html`<${Modal} label="Change the policy" onClose=${onClose} onSubmit=${() => policy && !busy && send(["PUT", "v1/policy", { policy }], `the policy is now ${policy}`)}>
    <h2>Who gets how many cores</h2>
    <label class="field">Policy, with options <input id="policy" list="policies" value=${policy} spellcheck="false" autocomplete="off" onInput=${(event) => setPolicy(event.target.value.trim())} /></label>
    <ul class="policies">${(policies?.available ?? []).map(({ name, summary }) => html`<li key=${name}><button type="button" class="plain" aria-pressed=${policy === name ? "true" : "false"} onClick=${() => setPolicy(name)}><b>${name}</b> ${summary}</button></li>`)}</ul>
    <${Forecast} sentence=${policy === store.info.policy ? "This is the policy in force." : null} forecast=${forecast} waits="asking the controller …" />
    <${Buttons} verb=${verb} busy=${busy} disabled=${!policy || forecast.error} problem=${problem} onClose=${onClose} />
  <//>`;
}
