// Charts of one stream on one cursor: their figures, and the marks on their axis.

import uPlot from "./vendor/uPlot.esm.js";
import { clean, h, put, say } from "./dom.js";
import { gapped, linesOf, sum, together } from "./figures.js";
import { bytes, count, milliseconds, rate, seconds, share, words } from "./format.js";
import { color } from "./theme.js";

const HEIGHT = 168;
const SYNC = uPlot.sync("streams");

const TIMES = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000, 157680000, 315360000];
const SMALL = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const WHOLE = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
const STEPS = new Map([
  [seconds, [...SMALL, ...TIMES]],
  [milliseconds, [1, 2, 5, 10, 20, 50, 100, 200, 500, ...TIMES.map((one) => one * 1000)]],
  [bytes, Array.from({ length: 52 }, (_, power) => 2 ** power)],
]);
/** How much more than the input is shown of the processing rate: its headroom, and not its peaks. */
const HEADROOM = 2.2;

/** Charts of the first part. `lines` take figures by name, `stack` and `each` by the part before a point. */
export const MAIN = [
  { id: "rates", title: "Rows per second", show: rate, lines: [["input_rate", "input"], ["processing_rate", "processing"]], band: true },
  { id: "duration", title: "Batch duration by phase", together: "Batch duration", show: milliseconds, stack: "phase.", but: ["triggerExecution"], metric: { batch_seconds: 1000 } },
  { id: "backlog", title: "Backlog in records", show: count, whole: true, each: "backlog_records.", metric: { backlog_records: 1 }, unless: "backlog_" },
  { id: "backlog_files", title: "Backlog in files", show: count, whole: true, each: "backlog_files.", metric: { backlog_files: 1 }, optional: true },
  { id: "backlog_bytes", title: "Backlog in bytes", show: bytes, each: "backlog_bytes.", metric: { backlog_bytes: 1 }, optional: true },
  { id: "watermark", title: "Watermark delay", show: seconds, lines: [["watermark_delay_s", "delay"]], band: true, metric: { watermark_delay_seconds: 1 } },
  { id: "state_rows", title: "State rows", show: count, whole: true, lines: [["state_rows", "rows"]], metric: { state_rows: 1 } },
  { id: "state_bytes", title: "State memory", show: bytes, lines: [["state_bytes", "memory"]], metric: { state_bytes: 1 } },
  { id: "commit", title: "State commit per store", show: milliseconds, lines: [["state_commit_ms", "commit"]], band: true, metric: { state_commit_seconds: 1000 }, optional: true },
  { id: "dropped", title: "Rows dropped behind the watermark", show: count, whole: true, lines: [["dropped_rows", "dropped"]], bars: true, optional: true },
  { id: "executors", title: "Executors", show: count, whole: true, lines: [["executors", "executors"]], step: true, optional: true },
];

const R = "state.rocksdb";
export const STATE = [
  { id: "ops", title: "Gets and puts per batch", show: count, lines: [[`${R}GetCount`, "gets"], [`${R}PutCount`, "puts"]] },
  { id: "latency", title: "Get and put time per batch", show: milliseconds, lines: [[`${R}GetLatency`, "get"], [`${R}PutLatency`, "put"]] },
  { id: "io", title: "Bytes read and written", show: bytes, lines: [[`${R}TotalBytesRead`, "read"], [`${R}TotalBytesWritten`, "written"]] },
  { id: "cache", title: "Block cache misses", show: share, lines: [["cache_miss_share", "misses"]], metric: { cache_miss_share: 1 } },
  { id: "phases", title: "Commit: flush, compaction, checkpoint, file sync", together: "Commit", show: milliseconds, lines: [[`${R}CommitFlushLatency`, "flush"], [`${R}CommitCompactLatency`, "compaction"], [`${R}CommitCheckpointLatency`, "checkpoint"], [`${R}CommitFileSyncLatencyMs`, "file sync"]] },
  { id: "files", title: "Files copied and reused", show: count, lines: [[`${R}FilesCopied`, "copied"], [`${R}FilesReused`, "reused"]] },
  { id: "stall", title: "Writer stall", show: milliseconds, lines: [[`${R}WriterStallLatencyMs`, "stall"]] },
];

export class Chart {
  constructor(chart, { names = {}, zoom }) {
    this.chart = chart;
    this.names = names;
    this.zoom = zoom;
    this.marks = [];
    this.values = h("div", { class: "values", "aria-hidden": "true" });
    this.box = h("div", { class: "plot" });
    this.title = h("h2", {}, chart.title);
    this.isMissed = false;
    this.node = h(
      "section",
      { class: "card chart", "aria-label": chart.title, tabindex: "0" },
      h("header", {}, this.title, this.values),
      this.box,
    );
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: HEIGHT }));
    this.observer.observe(this.box);
  }

  get width() {
    return Math.max(200, this.box.clientWidth - 8);
  }

  /**
   * Draw a series of the API over a range, or a list of series with a line for each query; `rules` give the
   * thresholds. A chart without a line is hidden; `isMissed` tells that its reader should know.
   */
  draw(series, range, rules, marks) {
    this.last = [series, range, rules, marks];
    this.marks = marks;
    this.shown = this.chart;
    const all = [series ?? []].flat();
    if (Array.isArray(series)) ({ chart: this.shown, series } = together(this.chart, series, bucketOf(range)));
    say(this.title, this.shown.title);
    const figures = series?.figures ?? {};
    const lines = linesOf(this.shown, figures);
    // A source reports its backlog in one unit only.
    const isElsewhere = this.chart.unless && all.some((one) => Object.keys(one.figures).some((name) => name.startsWith(this.chart.unless)));
    this.node.hidden = !lines.length;
    this.isMissed = !lines.length && !this.chart.optional && !isElsewhere;
    if (!lines.length) {
      this.clear();
      put(this.box, h("div", { class: "none" }, series || all.length ? "Spark does not report it for this query." : "No batch in this range."));
      return;
    }
    const { columns, options } = this.layout(lines, figures, rules);
    const [times, truth] = gapped(series.at, columns, bucketOf(range));
    this.truth = truth;
    // A line far above the visible range runs along the upper edge; its value is beside the title.
    const top = this.chart.id === "rates" && this.greatest > 0 ? this.greatest * HEADROOM : Infinity;
    this.top = top;
    const data = truth.map((column) => column.map((value) => (value > top ? top : value)));
    const shape = JSON.stringify([this.shown.title, options.map((one) => one.label), range.lane]);
    this.range = range;
    if (!this.plot || this.shape !== shape) {
      this.clear();
      put(this.box);
      this.shape = shape;
      this.plot = new uPlot(this.options(options), [times, ...data], this.box);
    } else {
      this.plot.setData([times, ...data], true);
    }
    this.node.setAttribute("aria-label", this.told(lines, series));
    this.node.dataset.newest = JSON.stringify(Object.fromEntries(lines.map((line) => [line.name, series.figures[line.name].last.findLast((value) => value !== null && value !== undefined) ?? null])));
    this.paintValues(null);
  }

  layout(lines, figures, rules) {
    const columns = [];
    const options = [];
    const paint = (index) => color(`c${(index % 8) + 1}`);
    const order = this.shown.stack ? [...lines].reverse() : lines;
    const below = [];
    const add = (values, option) => {
      columns.push(values);
      options.push(option);
    };
    order.forEach((line) => {
      const place = this.shown.places?.[line.name] ?? lines.indexOf(line);
      const { last, min, max } = figures[line.name];
      const stroke = paint(place);
      const label = this.label(line);
      if (this.shown.stack) {
        // The sum of the parts below, so that the top line is the whole.
        const top = last.map((value, at) => (value === null ? null : value + sum(below.map((one) => one[at]))));
        below.push(last);
        add(top, { label, stroke, fill: mixed(stroke, 0.3), width: 1, own: last, place });
      } else {
        if (this.shown.band && max && lines.length <= 2 && place === 0) {
          add(max, { label: "", stroke: "transparent", width: 0, quiet: true, bandTop: true });
          add(min ?? last, { label: "", stroke: "transparent", width: 0, quiet: true, bandOf: stroke });
        }
        add(last, { label, stroke, width: 1.5, fill: lines.length === 1 && !this.shown.band ? mixed(stroke, 0.1) : undefined, own: last, place, bars: this.shown.bars, step: this.shown.step });
      }
    });
    if (this.shown.stack) {
      columns.reverse();
      options.reverse();
    }
    this.greatest = Math.max(0, ...(figures.input_rate?.max ?? figures.input_rate?.last ?? []).filter((one) => one !== null));
    this.bounds = rules.filter((rule) => this.shown.metric?.[rule.metric]).map((rule) => rule.bound * this.shown.metric[rule.metric]);
    return { columns, options };
  }

  label(line) {
    const source = /^backlog_\w+\.(\d+)$/.exec(line.name);
    const name = source ? this.names.sources?.[Number(source[1])] : null;
    return name ? shortSource(name) : line.label;
  }

  options(series) {
    const axis = { stroke: color("soft"), font: "11px Inter, system-ui, sans-serif", grid: { stroke: color("grid"), width: 1 }, ticks: { show: false } };
    this.series = series;
    const top = series.findIndex((one) => one.bandTop);
    return {
      width: this.width,
      height: HEIGHT,
      padding: [10, 20, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: SYNC.key, setSeries: false }, points: { size: 5 }, drag: { x: true, y: false }, y: false },
      scales: {
        x: { time: true, range: () => [this.range.begin, this.range.end] },
        y: { range: (_, low, high) => this.span(low, high) },
      },
      axes: [
        { ...axis, size: 26, space: 70, values: (_, splits, __, ___, step) => splits.map((split) => utc(split, step)) },
        { ...axis, size: 70, space: 34, incrs: this.chart.whole ? WHOLE : STEPS.get(this.chart.show), values: (_, splits) => splits.map((split) => this.chart.show(split)) },
      ],
      bands: top >= 0 ? [{ series: [top + 1, top + 2], fill: mixed(series[top + 1].bandOf, 0.16) }] : [],
      series: [
        {},
        ...series.map((one) => ({
          label: one.label,
          stroke: one.stroke,
          width: one.width,
          fill: one.fill,
          points: { show: false },
          spanGaps: false,
          paths: one.bars ? uPlot.paths.bars({ size: [0.9, 6] }) : one.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        })),
      ],
      hooks: {
        draw: [(plot) => this.drawMarks(plot)],
        setCursor: [(plot) => this.paintValues(plot.cursor.idx)],
        setSelect: [
          (plot) => {
            if (plot.select.width < 8) return;
            const from = plot.posToVal(plot.select.left, "x");
            const to = plot.posToVal(plot.select.left + plot.select.width, "x");
            plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.zoom(from, to);
          },
        ],
      },
    };
  }

  span(low, high) {
    const inView = (this.bounds ?? []).filter((bound) => bound <= (high || 0) * 4);
    let top = Math.max(high ?? 0, ...inView);
    if (this.chart.id === "rates" && this.greatest > 0) top = Math.min(top, this.greatest * HEADROOM);
    return [Math.min(0, low ?? 0), top > 0 ? top * 1.08 : 1];
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.lineWidth = ratio;
    let signed = -Infinity;
    for (const mark of [...this.marks].sort((one, other) => one.at - other.at)) {
      const x = Math.round(plot.valToPos(mark.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = color(mark.color);
      ctx.globalAlpha = 0.75;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
      ctx.font = `600 ${9 * ratio}px system-ui`;
      ctx.textAlign = "center";
      // Signs that would lie over each other are left out; the lines are all there.
      if (x - signed < 11 * ratio) continue;
      signed = x;
      ctx.fillText(mark.sign, x, bbox.top - 2 * ratio);
    }
    for (const bound of this.bounds ?? []) {
      const y = plot.valToPos(bound, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      ctx.strokeStyle = color("down");
      ctx.globalAlpha = 0.8;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.restore();
  }

  paintValues(index) {
    const shown = (this.series ?? []).filter((one) => !one.quiet);
    const times = this.plot?.data[0] ?? [];
    const at = index ?? times.length - 1;
    const parts = shown.map((one) => {
      const column = this.truth[this.series.indexOf(one)];
      let value = valueAt(column, at);
      if (this.shown.stack && value !== null) {
        const next = this.series[this.series.indexOf(one) + 1];
        const below = next ? this.truth[this.series.indexOf(next)]?.[at] : 0;
        value -= below ?? 0;
      }
      return h("span", {}, h("span", { class: `dot k${(one.place % 8) + 1}` }), clean(this.shown === this.chart ? words(one.label) : one.label), " ", h("b", value > this.top ? { title: "Above the scale of the chart, which is the input's." } : {}, value > this.top ? "↑ " : "", this.chart.show(value)));
    });
    put(this.values, index === null || times[at] === undefined ? null : h("span", {}, utc(times[at], 1)), parts.slice(0, 4));
  }

  told(lines, series) {
    const parts = lines.map((line) => {
      const values = series.figures[line.name].last.filter((value) => value !== null && value !== undefined);
      return `${this.label(line)} now ${this.chart.show(values.at(-1))}, greatest ${this.chart.show(Math.max(...values))}`;
    });
    return `${this.shown.title}: ${parts.join("; ")}`;
  }

  themed() {
    this.shape = "";
    if (this.last) this.draw(...this.last);
  }

  clear() {
    this.plot?.destroy();
    this.plot = null;
    this.shape = "";
    this.series = [];
    put(this.values);
  }

  end() {
    this.observer.disconnect();
    this.clear();
  }
}

function bucketOf(range) {
  return Math.max((range.end - range.begin) / 240, 20);
}

/** The value at a point; where only other queries have a point, the one before it. */
function valueAt(column, at) {
  let index = at;
  while (index > 0 && column?.[index] === undefined) index--;
  return column?.[index] ?? null;
}

function mixed(paint, alpha) {
  const found = /^#(..)(..)(..)$/.exec(paint ?? "");
  return found ? `rgb(${found.slice(1).map((part) => parseInt(part, 16)).join(" ")} / ${alpha})` : paint;
}

function utc(moment, step) {
  const text = new Date(moment * 1000).toISOString();
  if (step >= 86400) return text.slice(5, 10);
  return step >= 60 ? text.slice(11, 16) : text.slice(11, 19);
}

export function shortSource(name) {
  const kafka = /\[Subscribe(?:Pattern)?\[([^\]]*)\]/.exec(name);
  if (kafka) return kafka[1];
  const file = /FileStreamSource\[([^\]]*)\]/.exec(name);
  return (file ? file[1].split("/").filter(Boolean).at(-1) : name) ?? name;
}
