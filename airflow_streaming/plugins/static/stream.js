// One stream: its state, its charts on one cursor, and their panels.

import { menu, menuButton } from "./acts.js";
import { Poll, at, get } from "./api.js";
import { address, go, params } from "./app.js";
import { Chart, MAIN, STATE, shortSource } from "./charts.js";
import { clean, glyph, h, pill, put, say } from "./dom.js";
import { backlog, failure, skeleton } from "./fleet.js";
import { ALL, boundsOf, firstToShow, missing, slowestWatermark } from "./figures.js";
import { NOTHING, ago, count, exactShare, lasted, milliseconds, rate, seconds, share, bytes, stamp, time, words } from "./format.js";
import { PANELS, about } from "./panels.js";

const RANGES = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800 };
/** Milliseconds without a heartbeat after which figures are those of the past. */
const SILENT = 60_000;
const MARKS = {
  launched: ["▶", "c6", "driver started"],
  deployed: ["D", "c4", "deployed"],
  upgrade: ["U", "c4", "upgrade"],
  cutover: ["C", "c4", "cutover"],
  restart_decided: ["↻", "c3", "restart"],
  killed: ["✕", "c5", "killed"],
  circuit_opened: ["✕", "c5", "gave up"],
  alert_unhealthy: ["!", "c5", "alert"],
  alert_gave_up: ["!", "c5", "alert"],
  alert_recovered: ["✓", "c2", "recovered"],
  checkpoint_changed: ["B", "c7", "restored"],
  sink_repaired: ["B", "c7", "sink repaired"],
  backup: ["B", "c7", "backup"],
};

export function stream(root, dag, name) {
  document.title = `${name} · Streams`;
  const path = `api/streams/${at(dag, name)}`;
  const q = params();
  const state = { data: null, error: null, series: null, marks: [], query: q.get("query") ?? "", at: 0, opened: {}, isNew: true };
  let range = RANGES[q.get("range")] ? q.get("range") : "1h";
  let fixed = q.get("from") && q.get("to") ? [Number(q.get("from")), Number(q.get("to"))] : null;
  const charts = MAIN.map((chart) => new Chart(chart, { zoom }));
  let extra = [];
  const owned = [];

  const top = h("div", { class: "top" });
  const reason = h("p", { class: "reason" });
  const banner = h("div", { class: "banner", hidden: true, role: "alert" });
  const change = h("div", { class: "open-change", hidden: true, role: "region", "aria-label": "Open change" });
  const facts = h("dl", { class: "facts" });
  const ranges = h("div", { class: "segment", role: "group", "aria-label": "Range" });
  const queries = h("div", { class: "segment", role: "group", "aria-label": "Query" });
  const legend = h("div", { class: "legend", "aria-label": "Marks" });
  const note = h("span", { class: "dim" });
  const grid = h("div", { class: "charts" }, charts.map((one) => one.node));
  const absent = h("p", { class: "dim absent", role: "status" });
  const more = h("div", { class: "charts" });
  const now = h("div", { class: "body" });
  const rules = h("div", { class: "body" });
  const failed = h("section", { class: "card", hidden: true });
  const asOf = h("span", {}, "Right now");
  const rulesAsOf = h("span", {}, "Rules");
  const rail = h("aside", { class: "rail", "aria-label": "Now" }, card(asOf, now), failed, card(rulesAsOf, rules));
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const panel = h("div", { class: "panel", role: "tabpanel" });
  const whole = h("div", { hidden: true }, reason, change, facts, h("div", { class: "tools" }, ranges, queries, note, h("span", { class: "grow" }), legend), h("div", { class: "layout" }, h("div", {}, grid, absent, more), rail), tabs, panel);
  const wait = h("div", {}, skeleton());
  const fresh = h("span", { class: "fresh", role: "status" });
  const act = menuButton(() => (state.data ? menu(state.data, () => status.run(), showPanel) : []));
  root.append(
    h("nav", { class: "crumb", "aria-label": "Breadcrumb" }, h("a", { href: "?", onclick: back }, "Streams"), " / ", clean(name)),
    h("header", { class: "top" }, top, h("span", { class: "grow" }), fresh, act),
    banner,
    wait,
    whole,
  );

  const page = {
    zoom,
    refresh: () => status.run(),
    own: (chart) => (owned.push(chart), chart),
    actButton(wanted, label) {
      const found = menu(state.data, () => status.run(), showPanel).find((one, index) => state.data.acts?.[index]?.act === wanted);
      return found ? h("button", { class: found.isRed ? "button danger" : "button", onclick: found.act }, label) : h("span", { class: "tag" }, label);
    },
  };

  const status = new Poll(loadStatus, 5);
  const figures = new Poll(loadSeries, 15);
  const story = new Poll(loadMarks, 30);
  const ticking = setInterval(() => document.hidden || paintAge(), 1000);
  document.addEventListener("keydown", pressed);
  paintRanges();
  paintGroups();

  async function loadStatus() {
    try {
      state.data = await get(path);
      state.error = null;
      state.at = Date.now();
    } catch (error) {
      state.error = error;
    }
    paint();
    return state.error?.status === 403 || state.error?.status === 404 ? 60 : 0;
  }

  async function loadSeries() {
    const asked = span();
    try {
      const found = await get(`${path}/series?seconds=${asked.seconds}${asked.end ? `&end=${asked.end}` : ""}`);
      state.series = byName(found);
      if (Object.values(state.opened).some(Boolean)) await loadExtra();
      paintCharts();
    } catch (error) {
      if (!state.series) say(absent, error.message);
    }
    return fixed ? 120 : asked.seconds > 7200 ? 60 : 0;
  }

  async function loadExtra() {
    const asked = span();
    for (const part of ["state", "observed"]) {
      if (state.opened[part]) state[part] = byName(await get(`${path}/series?part=${part}&seconds=${asked.seconds}${asked.end ? `&end=${asked.end}` : ""}`));
    }
  }

  async function loadMarks() {
    try {
      const asked = span();
      const since = (asked.end ?? Math.floor(Date.now() / 1000)) - asked.seconds;
      const { entries } = await get(`${path}/timeline?most=120&since=${since}`);
      state.marks = entries
        .filter((entry) => MARKS[entry.kind])
        .map((entry) => ({ at: (time(entry.at) ?? 0) / 1000, sign: MARKS[entry.kind][0], color: MARKS[entry.kind][1], name: MARKS[entry.kind][2], text: entry.text }));
      paintCharts();
    } catch {
      // Charts without marks are still right; the timeline below has the error.
    }
  }

  function span() {
    if (fixed) return { seconds: Math.max(60, Math.round(fixed[1] - fixed[0])), end: fixed[1] };
    return { seconds: RANGES[range], end: null };
  }

  function zoom(from, to) {
    fixed = [Math.floor(from), Math.ceil(Math.max(to, from + 60))];
    address({ from: fixed[0], to: fixed[1] });
    paintRanges();
    figures.run();
    story.run();
  }

  /** A stream that has just begun fills a short range; what the address asks for is kept. */
  function chooseRange(data) {
    state.isNew = false;
    const began = time(data.driver?.began);
    const isYoung = data.driver?.epoch === 1 && began !== null && Date.now() - began < 20 * 60_000;
    if (fixed || params().get("range") || !isYoung) return;
    range = "15m";
    paintRanges();
    figures.run();
  }

  function setRange(name) {
    range = name;
    fixed = null;
    address({ range: name, from: "", to: "" });
    paintRanges();
    figures.run();
    story.run();
  }

  function paint() {
    paintAge();
    if (!state.data) {
      put(wait, state.error ? failure(state.error, () => status.run()) : skeleton());
      put(top, h("h1", {}, name));
      act.hidden = true;
      return;
    }
    const data = state.data;
    act.hidden = false;
    put(wait);
    whole.hidden = false;
    banner.hidden = !state.error;
    if (state.error) put(banner, glyph("bad"), `${state.error.message} The data was read ${seconds(Math.round((Date.now() - state.at) / 1000))} ago.`);
    put(top, h("h1", {}, data.stream), pill(data.level, words(data.state)), data.since ? h("span", { class: "since", title: stamp(data.since) }, `for ${lasted(data.since, Date.now())}`) : null, data.change ? h("button", { class: `tag ${data.change.waits ? "warn" : "busy"}`, onclick: () => showPanel("changes") }, data.change.waits ? `${data.change.kind} waits for your decision` : `${data.change.kind}: ${words(data.change.state)}`) : null);
    put(reason, data.reason, data.remedy ? [" ", h("b", {}, data.remedy)] : null);
    paintChange(data);
    paintFacts(data);
    paintNow(data);
    paintRules(data);
    paintFailure(data);
    if (state.isNew) chooseRange(data);
    if (!panel.childNodes.length) showPanel(params().get("tab") || (data.change ? "changes" : "timeline"), true);
    paintCharts();
  }

  function paintChange(data) {
    const open = data.change;
    change.hidden = !open;
    const print = JSON.stringify([open, data.acts]);
    const isNew = print !== state.change;
    state.change = print;
    if (isNew && state.panel?.id === "changes" && !document.querySelector("dialog[open]")) state.panel.draw(panel, data, page);
    if (!open) return;
    const acts = (data.acts ?? []).filter((one) => one.act.startsWith(`${open.kind}.`));
    put(
      change,
      h("span", { class: `tag ${open.waits || open.overdue || open.failing ? "warn" : "busy"}` }, `${open.kind}: ${words(open.state)}`),
      h("span", {}, h("b", {}, `for ${lasted(open.since, Date.now())}. `), open.waits_for ? `Waits for ${open.waits_for}.` : about(open.kind, open.state), open.failing ? [" ", h("b", { class: "hot" }, open.failing)] : null, open.until ? h("span", { class: "dim" }, ` ${open.overdue ? "Overdue since" : "Until"} ${stamp(open.until)}.`) : null),
      h("span", { class: "grow" }),
      acts.map((one) => page.actButton(one.act, words(one.act.split(".")[1]))),
      h("button", { class: "button", onclick: () => showPanel("changes") }, "Details"),
    );
  }

  function paintFacts(data) {
    const query = data.queries[0];
    const watermark = slowestWatermark(data.queries);
    const entries = [
      ["Input", rate(data.input_rate), `processing ${rate(data.processing_rate)}`],
      ["Backlog", backlog(data.backlog), "after the last batch"],
      ["Watermark delay", seconds(rounded(data.watermark_delay_s)), watermark ? clean(watermark).slice(0, 19).replace("T", " ") : "no watermark"],
      ["Last batch", milliseconds(data.batch_ms), query?.interval_s ? `every ${seconds(query.interval_s)}` : "no interval"],
      ["State rows", count(data.state_rows), `${data.queries_total} ${data.queries_total === 1 ? "query" : "queries"}`],
      ["Restarts 24 h", data.restarts_24h ?? NOTHING, data.driver ? `epoch ${data.driver.epoch}, ${words(data.driver.cause)}` : ""],
      ["Deployment", data.deployment ? `#${data.deployment}` : NOTHING, data.lanes.length > 1 ? `lane ${data.color}` : "one lane"],
      ["Spark", data.spark || NOTHING, data.driver ? `${data.launcher} on ${clean(data.driver.host)}` : ""],
      ["Backup", data.backup ? ago(data.backup.at, Date.now()) : "none", data.backup ? (data.backup.verified ? "verified" : "not verified") : "no backup is known"],
    ];
    if (data.dag_differs) entries.push(["DAG", "differs", clean(data.dag_differs)]);
    if (data.freshness) entries.push(freshness(data.freshness));
    if (data.data_loss) entries.push(["Unread data", "kept for", clean(data.data_loss)]);
    if (data.size) entries.push(["Size", data.size.recommended ? "would change" : data.size.result === "in_place" ? "changed in place" : "changed", `${ago(data.size.at, Date.now())}: ${clean(data.size.text)}`]);
    if (data.standby) entries.push(["Standby", clean(data.standby), ""]);
    put(facts, entries.map(([label, value, small]) => h("div", { class: "fact" }, h("dt", {}, label), h("dd", { title: clean(value) }, value, h("small", { title: clean(small) }, small)))));
  }

  function paintNow(data) {
    const parts = data.queries.map((query) =>
      h(
        "div",
        { class: "query" },
        h("div", {}, h("b", {}, query.name), " ", h("span", { class: "dim" }, query.active ? "" : "ended")),
        h("div", { class: "message" }, query.message || "No message."),
        h(
          "dl",
          { class: "pairs" },
          pairs([
            ["batch", query.batch === null ? null : `${query.batch}${query.processing && query.batch_for_s !== null ? `, in work for ${seconds(query.batch_for_s)}` : ""}`],
            ["tasks", query.active_tasks === null ? null : `${query.active_tasks} running`],
            ["committed", `${count(query.batches)} batches in this epoch`],
            ...query.sources.map((source) => [shortSource(source.name), source.end || null]),
            ["error", query.error || null],
          ]),
        ),
      ),
    );
    const driver = data.driver;
    put(
      now,
      parts.length ? parts : h("p", { class: "dim" }, "No query has been started."),
      driver ? h("dl", { class: "pairs query" }, pairs([["driver", `${clean(driver.name)} ${driver.process === "unseen" ? "" : driver.process}`], ["host", driver.host], ["application", driver.application], ["began", stamp(driver.began)], ["because", driver.reason]])) : null,
    );
  }

  function paintRules(data) {
    const order = { firing: 0, pending: 1, clear: 2 };
    const sign = { firing: "down", pending: "warn", clear: "well", unknown: "off" };
    const known = data.rules.filter((rule) => rule.state !== "unknown").sort((one, other) => (order[one.state] ?? 9) - (order[other.state] ?? 9));
    const unknown = data.rules.filter((rule) => rule.state === "unknown");
    const row = (rule) =>
      h(
        "tr",
        { title: clean(rule.reason ?? "") },
        h("td", { class: "rulestate" }, h("span", { role: "img", "aria-label": rule.state, title: rule.state }, glyph(sign[rule.state] ?? "off"))),
        h("td", { class: "name2" }, h("span", {}, words(rule.rule)), h("div", { class: "dim" }, `${rule.wants}${data.queries.length > 1 && rule.query ? `, ${clean(rule.query)}` : ""}`)),
        h("td", { class: "figure" }, figure(rule)),
      );
    const list = (found) => h("table", { class: "rules" }, h("tbody", {}, found.map(row)));
    const wasOpen = rules.querySelector("details")?.open ?? false;
    put(
      rules,
      known.length ? list(known) : null,
      unknown.length ? h("details", { open: wasOpen }, h("summary", { class: "dim" }, `${unknown.length} ${unknown.length === 1 ? "rule" : "rules"} without a figure`), list(unknown)) : null,
      data.rules.length ? null : h("p", { class: "dim" }, "The dag gives this stream no rules."),
    );
  }

  function paintFailure(data) {
    const told = data.failure;
    failed.hidden = !told;
    if (!told) return;
    put(
      failed,
      h("header", {}, h("h2", {}, "Last exception"), h("span", { class: "dim" }, `epoch ${told.epoch}, ${ago(told.at, Date.now())}`)),
      h(
        "div",
        { class: "body" },
        h("div", {}, h("span", { class: "tag down" }, words(told.kind)), " ", h("b", {}, told.class), told.batch !== null ? h("span", { class: "dim" }, ` in batch ${told.batch}${told.query ? ` of ${clean(told.query)}` : ""}`) : null),
        h("pre", { class: "error", tabindex: "0" }, told.text),
        told.decision ? h("div", {}, told.decision) : null,
        told.remedy ? h("div", { class: "remedy" }, told.remedy) : null,
      ),
    );
  }

  function paintRanges() {
    put(ranges, Object.keys(RANGES).map((name) => h("button", { "aria-pressed": !fixed && name === range ? "true" : "false", onclick: () => setRange(name) }, name)), fixed ? h("button", { "aria-pressed": "true", onclick: () => setRange(range), title: "Back to the newest figures" }, "zoomed ✕") : null);
  }

  function paintGroups() {
    const group = (part, label) =>
      h(
        "div",
        { class: "group" },
        h("button", { "aria-expanded": state.opened[part] ? "true" : "false", onclick: () => toggle(part) }, `${state.opened[part] ? "▾" : "▸"} ${label}`),
        h("span", { class: "line" }),
      );
    extra.forEach((one) => one.end());
    extra = [];
    const parts = [group("state", "RocksDB state store")];
    if (state.opened.state) {
      parts.push(...STATE.map((chart) => (extra.push(new Chart(chart, { zoom })), extra.at(-1).node)));
      parts.push(h("p", { class: "dim absent state" }));
    }
    parts.push(group("observed", "Observed metrics"));
    if (state.opened.observed) {
      const names = [...new Set([chosen(state.observed) ?? []].flat().flatMap((one) => Object.keys(one.figures)))];
      const found = names.map((name) => ({ id: name, title: clean(name.slice(9)), show: count, lines: [[name, "value"]], band: true }));
      parts.push(...found.map((chart) => (extra.push(new Chart(chart, { zoom })), extra.at(-1).node)));
      if (!names.length) parts.push(h("p", { class: "dim" }, "The query observes no metric with df.observe in this range."));
    }
    put(more, parts);
    more.className = "charts";
  }

  async function toggle(part) {
    state.opened[part] = !state.opened[part];
    try {
      if (state.opened[part]) await loadExtra();
    } catch {
      state[part] = null;
    }
    paintGroups();
    paintCharts();
  }

  /** The series of the query that is shown; all series where the queries are shown together. */
  function chosen(told) {
    if (!told) return undefined;
    if (state.query === ALL && told.series.length > 1) return told.series;
    return told.series.find((one) => one.query === state.query) ?? told.series[0];
  }

  function setQuery(name) {
    state.query = name;
    address({ query: name });
    paintGroups();
    paintCharts();
  }

  function paintQueries(told) {
    const names = told.series.map((one) => one.query);
    // The choice stays while the range moves on.
    if (state.query !== ALL && !names.includes(state.query)) state.query = firstToShow(told.series);
    queries.hidden = names.length < 2;
    const choice = (name, label) => h("button", { "aria-pressed": state.query === name ? "true" : "false", onclick: () => setQuery(name) }, label);
    put(queries, names.map((one) => choice(one, clean(one))), choice(ALL, "all queries"));
  }

  function paintCharts() {
    if (!state.series) return;
    const told = state.series;
    paintQueries(told);
    say(note, told.cut ? "Older figures are in the home and too many to show." : "");
    const series = chosen(told);
    const known = boundsOf(state.data, state.query === ALL ? ALL : series?.query);
    const sources = state.data?.queries.find((one) => one.name === series?.query)?.sources.map((one) => one.name) ?? [];
    const marks = state.marks.filter((mark) => mark.at >= told.begin && mark.at <= told.end);
    charts.forEach((one) => ((one.names = { sources }), one.draw(series, told, known, marks)));
    say(absent, missing(charts, told.series.length > 0));
    const isObserved = (one) => one.chart.id.startsWith("observed.");
    extra.forEach((one) => {
      const part = isObserved(one) ? state.observed : state.state;
      const own = chosen(part);
      const joined = own && series && one.chart.id === "cache" ? series : own;
      if (part) one.draw(joined, part, known, marks);
    });
    const about = more.querySelector(".absent.state");
    if (about && state.state) say(about, missing(extra.filter((one) => !isObserved(one)), state.state.series.length > 0));
    const kinds = new Map(marks.map((mark) => [mark.name, mark]));
    put(legend, [...kinds.values()].map((mark) => h("span", {}, h("b", { class: `ink-${mark.color}` }, mark.sign), ` ${mark.name}`)));
  }

  function showPanel(id, isFirst = false) {
    const chosenPanel = PANELS.find((one) => one.id === id) ?? PANELS[0];
    state.panel = chosenPanel;
    if (!isFirst) address({ tab: chosenPanel.id });
    owned.splice(0).forEach((chart) => chart.end());
    put(
      tabs,
      PANELS.map((one) =>
        h(
          "button",
          {
            role: "tab",
            "aria-selected": one === chosenPanel ? "true" : "false",
            tabindex: one === chosenPanel ? "0" : "-1",
            onclick: () => showPanel(one.id),
            onkeydown: (event) => {
              const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              if (!step) return;
              const next = PANELS[(PANELS.indexOf(one) + step + PANELS.length) % PANELS.length];
              showPanel(next.id);
              tabs.querySelector('[aria-selected="true"]').focus();
            },
          },
          one.name,
        ),
      ),
    );
    chosenPanel.draw(panel, state.data, page);
    if (!isFirst) tabs.scrollIntoView({ block: "start" });
  }

  function paintAge() {
    if (!state.at) return;
    const seen = time(state.data?.seen_at);
    const age = (Date.now() - state.at) / 1000;
    say(fresh, seen ? `heartbeat ${ago(state.data.seen_at, Date.now())}` : `seen ${seconds(Math.round(age))} ago`);
    const isSilent = seen !== null && Date.now() - seen > SILENT;
    const past = isSilent ? ago(state.data.seen_at, Date.now()) : "";
    say(asOf, past ? `Last seen ${past}` : "Right now");
    say(rulesAsOf, past ? `Rules as last seen ${past}` : "Rules");
    fresh.classList.toggle("late", age > 30 || Boolean(state.error));
  }

  function pressed(event) {
    if (event.target instanceof HTMLInputElement || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = Number(event.key) - 1;
    if (event.key === "Escape") back(event);
    else if (Object.keys(RANGES)[index]) setRange(Object.keys(RANGES)[index]);
  }

  function back(event) {
    event.preventDefault();
    go({ dag: "", stream: "", tab: "", range: "", from: "", to: "", query: "" });
  }

  return {
    end() {
      [status, figures, story].forEach((poll) => poll.stop());
      clearInterval(ticking);
      document.removeEventListener("keydown", pressed);
      [...charts, ...extra, ...owned].forEach((chart) => chart.end());
    },
    themed() {
      [...charts, ...extra, ...owned].forEach((chart) => chart.themed());
    },
  };
}

function byName(told) {
  told.series.sort((one, other) => (one.query < other.query ? -1 : 1));
  return told;
}

function card(title, body) {
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, title)), body);
}

function pairs(entries) {
  return entries.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}

function rounded(value) {
  return typeof value === "number" && Math.abs(value) >= 10 ? Math.round(value) : value;
}

function figure(rule) {
  const show = {
    processing_share: share,
    cache_miss_share: share,
    input_rate: rate,
    backlog_bytes: bytes,
    state_bytes: bytes,
  };
  if (rule.figure === null || rule.figure === undefined) return h("span", { class: "dim" }, rule.state === "unknown" ? "no figure" : "idle");
  return /seconds$/.test(rule.metric) ? seconds(rounded(rule.figure)) : (show[rule.metric] ?? count)(rule.figure);
}

/** The fact of a freshness objective: its label, its state and its figures. */
function freshness(found) {
  const burning = found.fires.length ? `, burns too fast (${found.fires.map(clean).join(", ")})` : "";
  const small = `${exactShare(found.share)} of ${exactShare(found.objective)}, ${share(found.budget_left)} of the budget left${burning}, ${ago(found.at, Date.now())}`;
  return ["Freshness", found.is_late ? "late" : "on time", small];
}
