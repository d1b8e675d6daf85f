// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// The last lines that a job has written, read again while it runs.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { Modal } from "./dialogs.js";
import { Badge, Name } from "./jobs.js";

const AGAIN_MS = 2000;

export function JobLog({ store, job, onClose }) {
  const place = useRef(null);
  const atEnd = useRef(true);
  const [said, setSaid] = useState({ text: null, problem: null });
  useEffect(() => {
    let timer = null;
    let closed = false;
    const read = async () => {
      const found = await store.ask("GET", `log/${job.id}`).catch((error) => ({ problem: error.message }));
      if (closed) return;
      setSaid((before) => ({ text: found.text ?? before.text, problem: found.problem ?? null }));
      if (store.jobs.has(job.id)) timer = setTimeout(read, AGAIN_MS);
    };
    read();
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, []);
  // Its end is what is new, unless somebody reads further up.
  useEffect(() => {
    if (place.current && atEnd.current) place.current.scrollTop = place.current.scrollHeight;
  }, [said.text]);
  const scrolled = ({ target }) => (atEnd.current = target.scrollTop + target.clientHeight >= target.scrollHeight - 4);
  return html`<${Modal} label=${`Log of job ${job.id}`} wide=${true} onClose=${onClose} onSubmit=${onClose}>
    <h2><${Badge} job=${job} /> Log of job ${job.id} <${Name} text=${job.name} /></h2>
    ${said.problem && html`<p class="problem" role="alert">${said.problem}</p>`}
    ${said.text !== null && html`<pre class="log" ref=${place} tabindex="0" onScroll=${scrolled}>${said.text || "It has written nothing yet."}</pre>`}
    <footer><span class="quiet spacer">at most the last 200 lines</span><button>Close</button></footer>
  <//>`;
}
