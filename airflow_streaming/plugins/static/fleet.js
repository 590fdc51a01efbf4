// The fleet: a row for every stream, the most urgent first.

import { address, go, params, tell } from "./app.js";
import { Poll, get } from "./api.js";
import { clean, glyph, h, pill, put, say } from "./dom.js";
import { NOTHING, ago, bytes, count, files, kindName, lasted, milliseconds, rate, seconds, stamp, words } from "./format.js";
import { sparkline } from "./sparks.js";

const LEVELS = ["down", "bad", "warn", "busy", "well", "off"];
const NAMES = { down: "down", bad: "not working", warn: "attention", busy: "in transition", well: "well", off: "off" };
const COLUMNS = [
  { key: "state", name: "State" },
  { key: "stream", name: "Stream" },
  { key: "flow", name: "Input / processing" },
  { key: "backlog", name: "Backlog", num: true },
  { key: "watermark", name: "Watermark", num: true },
  { key: "batch", name: "Batch", num: true },
  { key: "restarts", name: "Restarts 24 h", num: true },
  { key: "backup", name: "Backup", num: true },
  { key: "version", name: "Version" },
  { key: "change", name: "Change / last event" },
];
/** Rows of one page; the server decides. */
const PAGE_ROWS = 50;
/** Milliseconds between the last key of a search and its request. */
const TYPING = 250;

/** The newest answer: its time by the server, and when it came. It outlives a visit to a stream's page. */
const newest = { stamp: "", at: 0 };

export function fleet(root) {
  document.title = "Streams";
  const state = { data: null, error: null, answered: 0, nodes: new Map(), asked: 0, typing: 0 };
  const q = params();
  const filter = { text: q.get("q") ?? "", level: q.get("level") ?? "", label: q.get("label") ?? "", group: q.get("group") ?? "", sort: q.get("sort") ?? "state", down: q.get("order") === "desc", page: Math.max(1, Number.parseInt(q.get("page"), 10) || 1) };

  const search = h("input", {
    type: "search",
    class: "search",
    placeholder: "Search streams, dags, states, labels, Spark …",
    "aria-label": "Search streams",
    value: filter.text,
    maxlength: 200,
    oninput: () => {
      clearTimeout(state.typing);
      state.typing = setTimeout(() => change({ text: search.value }), TYPING);
    },
  });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const grouping = h("select", { class: "button", hidden: true, "aria-label": "Group by label", onchange: () => change({ group: grouping.value, label: "" }) });
  const groups = h("div", { class: "chips below", role: "group", "aria-label": "Filter by label" });
  const fresh = h("span", { class: "fresh", role: "status" });
  const check = h("a", { href: "?view=installation", hidden: true, onclick: toCheck }, "Check");
  const banner = h("div", { class: "banner", hidden: true });
  const head = h("tr");
  const body = h("tbody");
  const table = h("table", { class: "fleet" }, h("caption", { class: "hidden" }, "Streams, worst first"), h("thead", {}, head), body);
  const empty = h("div");
  const pages = h("nav", { class: "pages", "aria-label": "Pages of the list", hidden: true });
  root.append(
    h("header", { class: "bar" }, h("h1", {}, "Streams"), chips, h("div", { class: "grow" }), grouping, check, search, fresh),
    groups,
    banner,
    h("div", { class: "scroll" }, table),
    pages,
    empty,
    h("footer", { class: "keys" }, key("/"), " search ", key("j"), key("k"), " move ", key("Enter"), " open"),
  );
  put(empty, skeleton());

  const poll = new Poll(load, 5);
  const ticking = setInterval(() => document.hidden || paintAge(), 1000);
  document.addEventListener("keydown", pressed);

  async function load() {
    const turn = ++state.asked;
    try {
      // The copy that a browser kept of an earlier page does not say how old it is by now.
      const data = await get(`api/fleet?${asPath()}`, newest.at ? "no-cache" : "reload");
      // The user has changed the search or the page meanwhile: the newer request shows its answer.
      if (turn !== state.asked) return 0;
      state.data = data;
      state.error = null;
      state.answered = Date.now();
      // The list has become shorter than the page that the address names.
      if (data.page !== filter.page) {
        filter.page = data.page;
        address(asked());
      }
      // An answer that the browser had already is as old as it was then.
      if (data.at !== newest.stamp) newest.at = state.answered;
      newest.stamp = data.at;
    } catch (error) {
      if (turn !== state.asked) return 0;
      state.error = error;
    }
    paint();
    return state.data?.streams.some((row) => row.state === "reading") ? 0.7 : 0;
  }

  /** The filter as the address of this page has it, and the request for its rows. */
  function asked() {
    return { q: filter.text, level: filter.level, label: filter.label, group: filter.group, sort: filter.sort === "state" ? "" : filter.sort, order: filter.down ? "desc" : "", page: filter.page > 1 ? filter.page : "" };
  }

  function asPath() {
    return new URLSearchParams(Object.entries(asked()).filter(([, value]) => value !== "")).toString();
  }

  function toCheck(event) {
    event.preventDefault();
    go({ view: "installation" });
  }

  function change(more) {
    Object.assign(filter, { page: 1 }, more);
    address(asked());
    paint();
    poll.run();
  }

  function paint() {
    paintAge();
    put(head, COLUMNS.map(heading));
    if (!state.data) {
      table.hidden = pages.hidden = true;
      put(empty, state.error ? failure(state.error, load) : skeleton());
      return;
    }
    paintChips();
    paintGroups();
    const { streams: rows, away, total } = state.data;
    check.hidden = !state.data.may_check;
    banner.hidden = !away.length && !state.error;
    put(banner, glyph("bad"), state.error ? `${state.error.message} The rows are old.` : away.join(" "));
    table.hidden = !rows.length;
    put(empty, rows.length ? null : total ? nothingFound() : first());
    paintRows(rows);
    paintPages();
  }

  function paintRows(rows) {
    const kept = new Map();
    const now = Date.now();
    let before = null;
    for (const row of rows) {
      const id = `${row.dag}\n${row.stream}`;
      const known = state.nodes.get(id);
      const print = JSON.stringify({ ...row, age: 0 });
      const node = known?.print === print ? known.node : drawRow(row, now);
      if (known && known.node !== node) known.node.replaceWith(node);
      kept.set(id, { node, print });
      const place = before ? before.nextSibling : body.firstChild;
      if (place !== node) body.insertBefore(node, place);
      node.classList.toggle("stale", age(row) > 30);
      // Its driver has not reported for long: its last figures are no longer true.
      node.classList.toggle("silent", row.level === "bad");
      before = node;
    }
    for (const [id, { node }] of state.nodes) if (!kept.has(id)) node.remove();
    while (before?.nextSibling) before.nextSibling.remove();
    if (!rows.length) put(body);
    state.nodes = kept;
    if (kept.size && !performance.getEntriesByName("rows").length) performance.mark("rows");
  }

  function paintPages() {
    const { page, pages: last, found, streams: rows } = state.data;
    pages.hidden = last === 1;
    const begin = (page - 1) * PAGE_ROWS;
    const turn = (text, to) => h("button", { class: "button", disabled: to < 1 || to > last, onclick: () => change({ page: to }) }, text);
    put(pages, turn("Previous", page - 1), h("span", { role: "status" }, `${begin + 1} to ${begin + rows.length} of ${found}`), turn("Next", page + 1));
  }

  /** Seconds since a stream was last seen. */
  function age(row) {
    return (row.age ?? 0) + (Date.now() - newest.at) / 1000;
  }

  function heading(column) {
    const isSorted = filter.sort === column.key;
    const order = isSorted ? (filter.down ? "descending" : "ascending") : null;
    return h(
      "th",
      { scope: "col", class: column.num ? "num" : null, "aria-sort": order },
      h(
        "button",
        { class: "sort", onclick: () => change(isSorted ? { down: !filter.down } : { sort: column.key, down: false }) },
        column.name,
        h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (filter.down ? " ↑" : " ↓") : ""),
      ),
    );
  }

  function paintChips() {
    const counts = state.data.counts;
    put(
      chips,
      LEVELS.filter((level) => counts[level] || filter.level === level).map((level) =>
        h(
          "button",
          {
            class: `chip ${level}`,
            "aria-pressed": filter.level === level ? "true" : "false",
            onclick: () => change({ level: filter.level === level ? "" : level }),
          },
          glyph(level),
          h("b", {}, counts[level] ?? 0),
          ` ${NAMES[level]}`,
        ),
      ),
    );
  }

  /** The keys of labels, and the labels of the chosen one; the label of the address can always be taken back. */
  function paintGroups() {
    const { keys, groups: found } = state.data;
    const names = [...new Set([...Object.keys(keys), filter.group])].filter((name) => name);
    grouping.hidden = !names.length;
    // A repaint would close the list that a user has opened.
    const print = `${names.join()}\n${filter.group}`;
    if (state.grouping !== print) put(grouping, ["", ...names].map((name) => h("option", { value: name, selected: name === filter.group }, name ? `by ${clean(name)}` : "no groups")));
    state.grouping = print;
    const listed = filter.label && !found.some((group) => group.label === filter.label) ? [{ label: filter.label }, ...found] : found;
    put(
      groups,
      listed.map(({ label, streams, urgent }) =>
        h(
          "button",
          { class: urgent ? "chip bad" : "chip", "aria-pressed": filter.label === label ? "true" : "false", onclick: () => change({ label: filter.label === label ? "" : label }) },
          urgent ? glyph("bad") : null,
          clean(label),
          streams === undefined ? null : h("b", {}, ` ${urgent ? `${urgent} of ` : ""}${streams}`),
        ),
      ),
    );
  }

  function paintAge() {
    if (!state.data) return;
    const { oldest: known, reading, total } = state.data;
    const oldest = (known ?? 0) + (Date.now() - newest.at) / 1000;
    const seen = `seen ${seconds(Math.round(oldest))} ago`;
    const isReading = reading > 0 && reading === total;
    const failed = state.error ? `last answer ${seconds(Math.round((Date.now() - state.answered) / 1000))} ago` : "";
    say(fresh, failed || (isReading ? "reading" : reading ? `${total - reading} of ${total} read` : seen));
    fresh.classList.toggle("late", Boolean(state.error) || oldest > 30);
  }

  function pressed(event) {
    if (event.target instanceof HTMLInputElement) {
      if (event.key === "Escape") search.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (step) {
      const links = [...body.querySelectorAll("a.name")];
      const here = links.indexOf(document.activeElement);
      const next = links[Math.min(Math.max(here + step, 0), links.length - 1)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    }
  }

  return {
    end() {
      poll.stop();
      clearInterval(ticking);
      clearTimeout(state.typing);
      document.removeEventListener("keydown", pressed);
    },
  };
}

function drawRow(row, now) {
  const open = () => go({ dag: row.dag, stream: row.stream, q: "", level: "", label: "", group: "", sort: "", order: "", page: "" });
  const link = h(
    "a",
    {
      class: "name",
      href: `?dag=${encodeURIComponent(row.dag)}&stream=${encodeURIComponent(row.stream)}`,
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        event.stopPropagation();
        open();
      },
    },
    // A long name may break where it has a sign.
    (row.title ?? row.stream).split(/(?<=[_.-])/).flatMap((part) => [part, h("wbr")]),
  );
  const quiet = row.level === "well" || row.level === "off";
  const cells = [
    h(
      "td",
      { class: "state" },
      h("div", {}, pill(row.level, words(row.state), clean(row.reason)), row.since ? h("span", { class: "dim", title: stamp(row.since) }, lasted(row.since, now)) : null),
      quiet ? null : h("div", { class: "why", title: clean(row.reason) }, row.reason),
    ),
    h("td", {}, link, row.external ? [" ", h("span", { class: "tag", title: "This provider did not launch it: it is watched by its checkpoint." }, "external")] : null, row.gone ? [" ", h("span", { class: "tag warn", title: "No file has the DAG of this stream any more, so no task keeps it." }, "DAG is gone")] : null, (row.labels ?? []).length ? h("div", { class: "dim labels", title: clean(row.labels.join(", ")) }, row.labels.join(", ")) : null, h("div", { class: "dim" }, row.dag === row.stream ? row.state === "reading" ? "" : `${row.queries_total ?? 0} ${row.queries_total === 1 ? "query" : "queries"}` : row.dag)),
    h(
      "td",
      { class: "flow" },
      sparkline(row.spark_in ?? [], row.spark_out ?? []),
      h("span", { class: "figures" }, h("b", {}, rate(row.input_rate)), h("span", { class: "dim" }, rate(row.processing_rate))),
    ),
    h("td", { class: "num" }, backlog(row.backlog)),
    h("td", { class: "num" }, seconds(round(row.watermark_delay_s))),
    h("td", { class: "num" }, milliseconds(row.batch_ms)),
    h("td", { class: `num ${row.restarts_24h ? "hot" : ""}` }, row.restarts_24h ?? NOTHING),
    h("td", { class: "num" }, backup(row.backup, now, row)),
    h(
      "td",
      { class: "version" },
      h("span", {}, row.spark || NOTHING),
      h("div", { class: "dim" }, [row.deployment ? `#${row.deployment}` : null, row.color === "green" ? "green" : null, row.launcher].filter(Boolean).join(" · ")),
    ),
    h("td", { class: "event" }, changeCell(row, now)),
  ];
  const node = h("tr", { class: `row ${row.level}`, onclick: (event) => window.getSelection().isCollapsed && !event.defaultPrevented && open() }, cells);
  cells.forEach((cell, index) => cell.setAttribute("data-name", COLUMNS[index].name));
  return node;
}

function round(value) {
  return typeof value === "number" && Math.abs(value) >= 10 ? Math.round(value) : value;
}

export function backlog(told) {
  const parts = [
    [told?.records, count],
    [told?.files, files],
    [told?.bytes, bytes],
  ];
  const found = parts.filter(([value]) => typeof value === "number").map(([value, show]) => show(value));
  return found.length ? found.join(", ") : NOTHING;
}

function backup(told, now, row) {
  if (row.external || row.state === "reading") return h("span", { class: "dim" }, NOTHING);
  if (!told) return h("span", { class: "dim" }, "none");
  if (told.problem) return h("span", { class: "hot", title: clean(told.problem) }, "damaged");
  return [ago(told.at, now), h("div", { class: told.verified ? "dim" : "hot" }, told.verified ? "verified" : "not verified")];
}

function changeCell(row, now) {
  if (row.change) {
    return [
      h("span", { class: `tag ${row.change.waits || row.change.overdue ? "warn" : "busy"}` }, `${row.change.kind}: ${words(row.change.state)}`),
      h("div", { class: row.change.waits ? "hot" : "dim" }, row.change.waits ? "waits for your decision" : `${lasted(row.change.since, now)}${row.change.overdue ? ", overdue" : ""}`),
    ];
  }
  if (!row.event) return h("span", { class: "dim" }, NOTHING);
  return [h("span", { class: "clip", title: clean(row.event.text) }, row.event.text), h("div", { class: "dim" }, `${kindName(row.event.kind)}, ${ago(row.event.at, now)}`)];
}

export function skeleton() {
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, Array.from({ length: 8 }, () => h("div")));
}

export function failure(error, again) {
  const titles = { 0: "Airflow does not answer", 401: "Sign in to Airflow", 403: "No access", 404: "Not found", 503: "The home does not answer" };
  return h(
    "div",
    { class: "blank", role: "alert" },
    glyph(error.status === 403 || error.status === 404 ? "off" : "bad"),
    h("h2", {}, titles[error.status] ?? "Something went wrong"),
    h("p", {}, error.message),
    again ? h("button", { class: "button", onclick: again }, "Try again") : null,
  );
}

function nothingFound() {
  tell("No stream matches");
  return h("div", { class: "blank" }, h("h2", {}, "No stream matches"), h("p", {}, "Change the search, or click the chosen state again to see all."));
}

function first() {
  const code = `from airflow_streaming import StreamSpec
from airflow_streaming.orchestration.stream_dags import stream_dags
globals().update(stream_dags(StreamSpec(name="orders", application="jobs/orders.py", home="/data/streams", runtime="spark-4.3")))`;
  return h(
    "div",
    { class: "blank" },
    h("h2", {}, "No stream yet"),
    h("p", {}, "Put these three lines into a dag file. The stream appears here when its task has started."),
    h("pre", { class: "code" }, code),
    h("p", { class: "dim" }, "Streams of dags that you may not see are not listed."),
  );
}

function key(name) {
  return h("kbd", {}, name);
}
