// Panels of a stream: timeline, changes, deployments, backups and reports.

import { askRestore, askVerify } from "./acts.js";
import { at, get } from "./api.js";
import { Chart, MAIN } from "./charts.js";
import { clean, h, put } from "./dom.js";
import { firstToShow } from "./figures.js";
import { failure, skeleton } from "./fleet.js";
import { ago, bytes, clock, files, kindName, lasted, stamp, words } from "./format.js";
import { markdown } from "./markdown.js";
import { runs } from "./runs.js";

export const PANELS = [
  { id: "timeline", name: "Timeline", draw: timeline },
  { id: "changes", name: "Changes", draw: changes },
  { id: "deployments", name: "Deployments", draw: deployments },
  { id: "backups", name: "Backups", draw: backups },
  { id: "reports", name: "Reports", draw: reports },
];

/** What a state of an open change means, by the kind of change. */
const ABOUT = {
  upgrade: {
    begun: "Terms and proposed deployment are recorded.",
    backed_up: "A verified backup of the running stream exists.",
    ready: "The new driver waits at the barrier, or is started after the stop.",
    stopped: "The old driver is proved gone and its last batch is backed up.",
    applying: "From here on giving up means rolling back.",
    repartitioning: "Spark writes the state with another number of partitions.",
    repartitioned: "State has its new number of partitions.",
    migrating: "Spark writes a migrated copy of the checkpoint; the original is only read.",
    migrated: "The migrated copy is proved.",
    deployed: "The new deployment is the current one.",
    launched: "Its driver runs; the soak watches it.",
    judged: "The soak has a verdict; waiting for keep or roll back.",
    kept: "The new deployment stays.",
    rolling_back: "The new driver is stopped; checkpoint and sinks are put back.",
    left: "Nothing is restored; the old deployment gets the present checkpoint.",
    restored: "Checkpoint and sinks are put back.",
    rolled_back: "The old deployment is the current one again.",
    aborted: "The old deployment continues; nothing was changed.",
  },
  cutover: {
    planned: "Terms are recorded; nothing was done.",
    starting: "Green's driver is being started.",
    catching_up: "Green reads what blue has read already.",
    shadowing: "Green keeps pace and must be well for some time.",
    comparing: "The outputs of both lanes are compared.",
    ready: "Green may become live; waiting for promote.",
    held: "Nothing is proved either way; waiting for a decision.",
    warming: "Green's next driver waits at the barrier.",
    draining: "Blue comes to its end at a batch boundary.",
    switching: "Green takes over.",
    live: "Consumers are led to green.",
    soaking: "Green is watched; blue can be back at any moment.",
    finalizing: "Point of no return.",
    finalized: "Green stays; blue is kept for some time.",
    retired: "Blue's lane is free.",
    aborting: "Green is stopped; blue stays live.",
    aborted: "Green is gone; blue is live.",
    rolling_back: "Consumers are led back to blue.",
    rolled_back: "Blue is live again.",
  },
};

export function about(kind, state) {
  return ABOUT[kind]?.[state] ?? "";
}

async function load(box, path, draw) {
  put(box, skeleton());
  try {
    draw(await get(path));
  } catch (error) {
    put(box, failure(error, () => load(box, path, draw)));
  }
}

function base(data) {
  return `api/streams/${at(data.dag, data.stream)}`;
}

function timeline(box, data) {
  // Each entry is a file of its own: the first look at a stream on an object store reads this many.
  let most = 20;
  const search = h("input", { type: "search", class: "search", placeholder: "Filter: kind, text, who …", "aria-label": "Filter the timeline", oninput: () => paint() });
  const list = h("div");
  let entries = [];
  const more = h("button", { class: "button", onclick: () => ((most = Math.min(500, most * 3)), fetchAll()) }, "Older entries");
  put(box, h("div", { class: "tools" }, search, h("span", { class: "grow" }), more), list);
  put(list, skeleton());
  fetchAll();

  async function fetchAll() {
    try {
      entries = (await get(`${base(data)}/timeline?most=${most}`)).entries;
      more.hidden = entries.length < most || most >= 500;
      paint();
    } catch (error) {
      put(list, failure(error, fetchAll));
    }
  }

  function paint() {
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = entries.filter((entry) => {
      const hay = `${words(entry.kind)} ${entry.kind} ${entry.text} ${entry.by}`.toLowerCase();
      return terms.every((term) => hay.includes(term));
    });
    put(
      list,
      shown.length
        ? table(
            ["When (UTC)", "What", "", "Who"],
            shown.map((entry) => [
              h("td", { class: "when", title: stamp(entry.at) }, clock(entry.at), h("div", { class: "dim" }, ago(entry.at, Date.now()))),
              h("td", { class: "what" }, kind(entry)),
              h("td", {}, entry.text, entry.remedy ? h("div", { class: "remedy" }, entry.remedy) : null),
              h("td", { class: "dim" }, entry.by, entry.epoch ? h("div", {}, `epoch ${entry.epoch}`) : null),
            ]),
          )
        : nothing("Nothing on the timeline matches."),
    );
  }
}

const TONES = {
  launched: "busy",
  deployed: "busy",
  restart_decided: "warn",
  circuit_opened: "down",
  alert_unhealthy: "warn",
  alert_restarted: "warn",
  alert_gave_up: "down",
  alert_recovered: "well",
  circuit_closed: "well",
  blocked: "down",
  killed: "warn",
  upgrade: "busy",
  cutover: "busy",
};

function kind(entry) {
  return h("span", { class: `tag ${TONES[entry.kind] ?? ""}` }, kindName(entry.kind));
}

function changes(box, data, page) {
  const act = (name) => (data.acts ?? []).find((one) => one.act === name);
  const [inAirflow, list] = [h("div"), h("div")];
  put(box, inAirflow, list);
  runs(inAirflow, data);
  load(list, `${base(data)}/changes`, ({ changes: found }) => {
    if (!found.length) return put(list, nothing("This stream was never upgraded, cut over or restored."));
    put(list, found.map((change, index) => changeCard(change, data, index === 0, page, act)));
  });
}

function changeCard(change, data, isFirst, page) {
  const isOpen = !change.outcome && change.table.length > 0;
  const title = change.kind === "cutover" ? `Cutover ${change.number}: ${change.blue} to ${change.green}` : `${words(change.kind)} ${change.number}: deployment ${change.from} to ${change.to}`;
  const tone = { done: "well", rolled_back: "warn", abandoned: "" }[change.outcome] ?? "busy";
  const node = h(
    "section",
    { class: "card change" },
    h(
      "div",
      { class: "top" },
      h("h2", {}, title),
      h("span", { class: `tag ${tone}` }, change.outcome ? words(change.outcome) : words(change.state)),
      change.way ? h("span", { class: "dim" }, change.way) : null,
      h("span", { class: "grow" }),
      h("span", { class: "dim" }, `begun ${stamp(change.at)} by ${clean(change.by)}`),
    ),
    h("div", {}, change.reason),
    change.problem ? h("div", { class: "banner" }, change.problem) : null,
    isOpen ? h("p", {}, h("b", {}, `${words(change.state)} for ${lasted(change.since, Date.now())}. `), about(change.kind, change.state), change.until ? h("span", { class: "dim" }, ` Until ${stamp(change.until)}.`) : null) : null,
    change.table.length
      ? h(
          "ol",
          { class: "path", "aria-label": "States" },
          change.table.map((one) =>
            h("li", { class: one.now ? "now" : one.at ? "done" : "", "aria-current": one.now ? "step" : null, title: about(change.kind, one.state) }, one.at ? "✓ " : "", words(one.state), one.at ? h("small", {}, clock(one.at).slice(6)) : null),
          ),
        )
      : null,
    change.lags?.length ? distances(change.lags) : null,
    isOpen && change.verbs?.length ? h("p", {}, h("span", { class: "dim" }, "You can: "), change.verbs.map((verb) => page.actButton(`${change.kind}.${verb}`, words(verb)))) : null,
    change.next?.length ? h("details", {}, h("summary", {}, "Possible next states"), table(["Event", "Then"], change.next.map((one) => [h("td", {}, words(one.event)), h("td", {}, words(one.to))]))) : null,
    change.replay || change.rollback ? h("p", { class: "dim" }, change.rollback, " ", change.replay) : null,
    change.migration?.length
      ? h(
          "details",
          { open: isOpen },
          h("summary", {}, "Migration of the state"),
          table(
            ["Query", "Operator", "Column", "Becomes", "Initial value"],
            change.migration.map((one) => [one.query, one.operator, one.column, words(one.becomes), one.initial].map((text) => h("td", {}, `${text}`))),
          ),
        )
      : null,
    change.checks?.length
      ? table(
          ["Check", "Result", "Observation", "Figures"],
          change.checks.map((check) => [
            h("td", {}, check.name),
            h("td", {}, h("span", { class: `tag ${check.result === "pass" ? "well" : check.result === "fail" ? "down" : "warn"}` }, check.result)),
            h("td", {}, check.reason),
            h("td", {}, Object.entries(check.figures).map(([name, value]) => h("div", {}, h("span", { class: "dim" }, `${words(name)} `), figure(value)))),
          ]),
        )
      : null,
    change.steps.length
      ? h("details", { open: !isOpen && isFirst }, h("summary", {}, `${change.steps.length} steps`), table(["When", "State", "Why", "Who"], change.steps.map(step)))
      : null,
  );
  if (isOpen && change.kind === "cutover") node.append(sides(change, data, page));
  return node;
}

/** How far green's queries are behind blue's. */
function distances(lags) {
  return table(
    ["Query of green", "Distance to blue"],
    lags.map((lag) => [h("td", {}, lag.query, h("div", { class: "dim" }, lag.lane)), h("td", {}, lag.text)]),
  );
}

function step(one) {
  return [
    h("td", { class: "when" }, stamp(one.at)),
    h("td", { class: "what" }, words(one.state), one.event ? h("div", { class: "dim" }, words(one.event)) : null),
    h("td", {}, one.reason),
    h("td", { class: "dim" }, one.by),
  ];
}

/** Both lanes' charts side by side, on the page's cursor. */
function sides(change, data, page) {
  const wanted = MAIN.filter((chart) => ["rates", "backlog", "watermark"].includes(chart.id));
  const lanes = [change.blue, change.green];
  const sources = data.queries[0]?.sources.map((one) => one.name) ?? [];
  const charts = wanted.map((chart) => lanes.map(() => page.own(new Chart(chart, { zoom: page.zoom }))));
  const drawn = lanes.map(async (lane, side) => {
    try {
      const found = await get(`${base(data)}/series?seconds=7200&lane=${encodeURIComponent(lane)}`);
      const series = found.series.find((one) => one.query === firstToShow(found.series));
      charts.forEach((pair) => ((pair[side].names = { sources }), pair[side].draw(series, found, [], [])));
    } catch (error) {
      charts.forEach((pair) => put(pair[side].box, h("div", { class: "none" }, error.message)));
    }
  });
  // A chart of one lane is drawn for both, so that both stay side by side.
  Promise.all(drawn).then(() => charts.forEach((pair) => pair.some((one) => !one.node.hidden) && pair.forEach((one) => (one.node.hidden = false))));
  const names = [`Blue: ${change.blue}`, `Green: ${change.green}`];
  return h("div", { class: "sides" }, names.map((name, side) => h("div", { class: "side" }, h("h2", {}, name), charts.map((pair) => pair[side].node))));
}

function figure(value) {
  return /^\d{5,}$/.test(value) ? Number(value).toLocaleString("en-US") : value;
}

function deployments(box, data) {
  load(box, `${base(data)}/deployments`, ({ deployments: found }) => {
    put(
      box,
      table(
        ["", "When", "Spark", "Application", "What changed"],
        found.map((one, index) => [
          h("td", {}, h("b", {}, `#${one.number}`), index === 0 ? h("div", {}, h("span", { class: "tag busy" }, "current")) : null),
          h("td", { class: "when" }, stamp(one.at), h("div", { class: "dim" }, one.by)),
          h("td", {}, one.spark, h("div", { class: "dim" }, one.runtime)),
          h("td", {}, one.application, h("div", { class: "dim mono" }, `sha256 ${one.sha256} …`)),
          h("td", {}, one.changes.length ? one.changes.map((change) => h("div", {}, h("span", { class: "dim" }, `${change.what}: `), h("del", {}, change.from || "(none)"), " → ", h("ins", {}, change.to || "(none)"))) : h("span", { class: "dim" }, "first one shown")),
        ]),
      ),
    );
  });
}

function backups(box, data, page) {
  const canRestore = data.can_edit && Boolean(data.dags?.restore);
  load(box, `${base(data)}/backups`, ({ backups: found, problem }) => {
    if (!found.length) {
      return put(box, problem ? h("p", { class: "dim" }, problem) : null, nothing(data.dags?.backup ? "No backup yet. \"Act ▾, Back up now\" takes one." : "No backup yet, and no dag takes them. stream_dags(...) makes one."));
    }
    put(
      box,
      table(
        ["Backup", "Origin", "Verified", "Batches", "Size", "Added", canRestore ? "Act" : ""],
        found.map((one) => [
          h("td", {}, h("div", { title: stamp(one.at) }, one.at ? stamp(one.at) : ""), h("div", { class: "dim mono" }, one.id)),
          h("td", {}, words(one.origin), h("div", { class: "dim" }, one.note || one.by)),
          h("td", {}, one.problem ? h("span", { class: "tag down" }, "damaged") : one.verified ? h("span", { class: "tag well" }, words(one.level)) : h("span", { class: "tag warn" }, "not verified"), h("div", { class: "dim" }, one.problem || (one.verified_at ? ago(one.verified_at, Date.now()) : ""))),
          h("td", {}, Object.entries(one.batches ?? {}).map(([name, batch]) => h("div", {}, `${clean(name)}: ${batch}`))),
          h("td", { class: "num" }, bytes(one.size), h("div", { class: "dim" }, files(one.files))),
          h("td", { class: "num" }, bytes(one.added)),
          canRestore
            ? h("td", { class: "acts" }, h("button", { class: "button", onclick: () => askVerify(data, one, page.refresh) }, "Verify …"), one.at ? h("button", { class: "button danger", onclick: () => askRestore(data, one, page.refresh) }, "Restore …") : null)
            : h("td"),
        ]),
      ),
    );
  });
}

function reports(box, data) {
  load(box, `${base(data)}/reports`, ({ reports: found }) => {
    if (!found.length) return put(box, nothing("No gate, rehearsal or preflight of this stream's dags has left a report."));
    const page = h("div", { class: "card" });
    const open = async (one) => {
      put(page, skeleton());
      try {
        const told = await get(`api/reports/${at(one.dag, one.run, one.task)}`);
        put(page, markdown(told.text));
      } catch (error) {
        put(page, failure(error));
      }
    };
    put(
      box,
      table(
        ["When", "Report", "Run"],
        found.map((one) => [
          h("td", { class: "when" }, stamp(one.at)),
          h("td", {}, h("button", { class: "button", onclick: () => open(one) }, `${clean(one.dag)} · ${clean(one.task)}`)),
          h("td", { class: "dim" }, one.run),
        ]),
      ),
      h("div", { class: "panel" }, page),
    );
    open(found[0]);
  });
}

export function table(heads, rows) {
  // On a narrow page figures have no heads above them.
  rows.forEach((cells) => cells.forEach((cell, index) => cell.setAttribute("data-name", heads[index] ?? "")));
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "list" },
      heads.some(Boolean) ? h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))) : null,
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells))),
    ),
  );
}

export function nothing(text) {
  return h("div", { class: "blank" }, h("p", {}, text));
}

