// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// What all jobs together had and used, drawn by uPlot. Where nothing is known, lines break, and time goes on.
import { Component, createRef } from "preact";
import { html } from "./html.js";

const HEIGHT = 190;

export class Load extends Component {
  place = createRef();

  // uPlot draws on a canvas of its own, which preact leaves alone.
  shouldComponentUpdate(next) {
    if (next.theme !== this.props.theme || next.cpus !== this.props.cpus) this.restart(next);
    else if (next.version !== this.props.version || (next.frozen && next.now !== this.props.now) || next.seconds !== this.props.seconds) this.draw(next);
    return false;
  }

  componentDidMount() {
    this.restart(this.props);
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: HEIGHT }));
    this.observer.observe(this.place.current);
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.plot.destroy();
  }

  get width() {
    return Math.max(200, this.place.current.clientWidth);
  }

  restart({ cpus, series, now, seconds }) {
    this.plot?.destroy();
    const style = getComputedStyle(this.place.current);
    const colour = (name) => style.getPropertyValue(name).trim() || style.color;
    const axis = { stroke: style.color, grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.plot = new uPlot(
      {
        width: this.width,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: [0, Math.max(1, cpus)] } },
        axes: [{ ...axis, values: "{HH}:{mm}:{ss}", space: 90, size: 26 }, { ...axis, size: 36 }],
        series: [
          {},
          { stroke: colour("--line-1"), fill: colour("--fill-1"), width: 1.5, spanGaps: false, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) },
          { stroke: colour("--line-2"), fill: colour("--fill-2"), width: 2, spanGaps: false, points: { show: false } },
        ],
      },
      [[], [], []],
      this.place.current,
    );
    this.draw({ series, now, seconds });
  }

  draw({ series, now, seconds }) {
    this.plot.setData(series.slice(0, 3), false);
    this.plot.setScale("x", { min: now - seconds, max: now });
  }

  render() {
    return html`<div class="load" ref=${this.place} role="img" aria-label="Granted and used CPUs over time; the numbers are at the top of the page"></div>`;
  }
}
