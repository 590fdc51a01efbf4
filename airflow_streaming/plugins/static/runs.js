// The newest runs of the dags that change a stream, by Airflow's public API, and the reason for their wait.

import { airflow, at, fetchFrom, open, post } from "./api.js";
import { clean, h, put } from "./dom.js";
import { ago, stamp, words } from "./format.js";

const MOST = 5;
const EVERY = 5000;
const TONES = { success: "well", failed: "down", running: "busy", queued: "busy" };

/** Draw the runs into a box, again and again while it is on the page. */
export function runs(box, data) {
  const dags = ["upgrade", "blue_green", "rescale", "restore"].map((act) => data.dags?.[act]).filter(Boolean);
  if (!dags.length) return;
  const look = async () => {
    if (!document.hidden) await draw(box, dags);
    if (box.isConnected) setTimeout(look, EVERY);
  };
  look();
}

async function draw(box, dags) {
  try {
    const list = airflow("api/v2/dags/~/dagRuns/list");
    const asking = airflow("api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false&state=deferred&state=awaiting_input&limit=50");
    const [told, questions] = await Promise.all([
      post(list, { dag_ids: dags, page_limit: MOST, order_by: "-run_after" }, {}),
      fetchFrom(asking).catch(() => ({ hitl_details: [] })),
    ]);
    const print = JSON.stringify([told.dag_runs.map((run) => [run.dag_id, run.dag_run_id, run.state]), questions.hitl_details.map((one) => one.task_instance.id)]);
    if (box.dataset.print === print) return;
    box.dataset.print = print;
    put(box, told.dag_runs.length ? card(told.dag_runs, questions.hitl_details.map((one) => ({ ...one.task_instance, subject: one.subject }))) : null);
  } catch {
    // Who may not see runs, or sees none now: the changes below need none of them.
    put(box);
  }
}

function card(found, questions) {
  const row = (run) => {
    const asked = questions.filter((one) => one.dag_id === run.dag_id && one.dag_run_id === run.dag_run_id && run.state === "running");
    return h(
      "tr",
      {},
      h("td", { class: "when", title: stamp(run.run_after) }, ago(run.run_after, Date.now())),
      h("td", { class: "what" }, h("span", { class: `tag ${asked.length ? "warn" : (TONES[run.state] ?? "")}` }, asked.length ? "waits for an answer" : words(run.state))),
      h("td", {}, clean(run.dag_id), asked.map((one) => h("div", {}, clean(one.subject)))),
      h("td", { class: "acts" }, asked.map((one) => h("button", { class: "button", onclick: () => open(`dags/${at(one.dag_id)}/runs/${at(one.dag_run_id)}/tasks/${at(one.task_id)}/required_actions`) }, "Answer …")), h("button", { class: "button", onclick: () => open(`dags/${at(run.dag_id)}/runs/${at(run.dag_run_id)}`) }, "Open")),
    );
  };
  return h("section", { class: "card runs" }, h("header", {}, h("h2", {}, "Runs in Airflow")), h("div", { class: "scroll" }, h("table", { class: "list" }, h("tbody", {}, found.map(row)))));
}
