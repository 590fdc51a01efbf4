// Actions on a stream: one confirmation, and a second one if data may be lost.

import { at, open, post, triggerRun } from "./api.js";
import { go } from "./app.js";
import { clean, h, put } from "./dom.js";
import { details, fields } from "./form.js";
import { stamp } from "./format.js";

export function menu(data, done, showPanel) {
  const items = [];
  for (const act of data.acts ?? []) {
    items.push(item(act.label, act.red, () => ask(data, act, done)));
  }
  const dags = data.dags ?? {};
  if (data.can_edit && !data.gone) {
    if (dags.backup) items.push(item("Back up now", false, () => askRun(data, dags.backup, { title: "Back up now", says: "Takes a backup of the running stream and verifies it. The stream is not stopped.", done })));
    if (dags.restore) items.push(item("Verify or restore …", false, () => showPanel("backups")));
    items.push(
      item("Apply the dag's edited spec", true, () =>
        askRun(data, data.dag, { title: "Apply the dag's edited spec", says: `Stops the driver at a batch boundary, writes the DAG's values over the live ones, and starts the stream on the same checkpoint. Skips the gates and cannot be rolled back; use the upgrade DAG for both. ${data.dag_differs || "If the DAG names the live deployment, only the DAG run is replaced."}`, conf: { restart: true }, isSure: true, done }),
      ),
    );
    const forms = [
      [dags.upgrade, "Upgrade …", "Another Spark, script or configuration on the same checkpoint, with gates, backup, soak and rollback."],
      [dags.blue_green, "Blue-green cutover …", "Runs another version beside this one, compares both, and switches."],
      [dags.rescale, "Rescale …", "The same code with other resources, with a backup, a soak and a rollback."],
    ].filter(([dag]) => dag);
    const follow = () => (done(), showPanel("changes"));
    for (const [dag, label, says] of forms) items.push(item(label, false, () => askForm(data, dag, { title: label.replace(" …", ""), says, done: follow })));
  }
  if (data.can_remove) items.push(item("Remove …", true, () => askRemove(data)));
  items.push(item("Open the dag", false, () => open(`dags/${encodeURIComponent(data.dag)}`)));
  return items;
}

/** Remove a stream: a dry run first, which says what is in the way or what would go. */
async function askRemove(data) {
  const path = `api/streams/${at(data.dag, data.stream)}/removal`;
  const title = `Remove: ${data.stream}`;
  let found;
  try {
    found = await post(path, { dry_run: true });
  } catch (error) {
    return toast(error.message);
  }
  const list = (items) => h("ul", { class: "paths" }, items.map((one) => h("li", {}, one)));
  if (found.refusals.length) {
    return dialog({ title, says: "Dry run: the stream cannot be removed now. Nothing was changed.", body: list(found.refusals), name: "", button: "Look again", noReason: true, send: () => (askRemove(data), "Looking again."), done: () => null });
  }
  const keep = h("input", { type: "checkbox", name: "keep_output" });
  const rest = found.removed_total - found.removed.length;
  const body = h(
    "div",
    {},
    h("details", {}, h("summary", {}, `${found.removed_total} files and folders would go`), list([...found.removed, ...(rest > 0 ? [`and ${rest} more`] : [])])),
    found.kept.length ? h("details", {}, h("summary", {}, `${found.kept.length} would stay`), list(found.kept)) : null,
    h("label", { class: "check" }, keep, h("span", {}, "Keep the outputs in the home")),
  );
  dialog({
    title,
    says: "Backs up and verifies the checkpoints, then deletes records, checkpoints and outputs of the stream in the home. A record of the removal stays, so that no old task brings the stream back.",
    body,
    name: data.stream,
    isRed: true,
    button: "Remove",
    send: (reason, confirm) => post(path, { dry_run: false, reason, confirm, keep_output: keep.checked }).then((done) => `Stream ${done.stream} is removed; ${done.removed_total} files and folders went.`),
    done: () => go({ dag: "", stream: "", tab: "", range: "", from: "", to: "", query: "" }),
  });
}

/** Verify a backup: a run of the restore dag that only looks. */
export function askVerify(data, backup, done) {
  askForm(data, data.dags.restore, { title: "Verify backup", says: "Verifies the backup and reports the data that a restore of it would replay. No data is changed.", fill: { backup_id: backup.id, dry_run: true }, done });
}

/** Restore a backup: asked twice, with what runs again. */
export function askRestore(data, backup, done) {
  const isStopped = ["off", "stopped", "gave_up", "never_run", "completed"].includes(data.state);
  const says = [replays(data, backup), "The old checkpoint stays where it is and is backed up first. The stream stays stopped until you start it.", isStopped ? "" : "The stream is not stopped: stop it first, or the restore is refused."];
  askForm(data, data.dags.restore, { title: "Restore backup", says: says.filter(Boolean).join(" "), fill: { backup_id: backup.id, dry_run: false }, isRed: true, done });
}

/** What runs again after a restore, by the records: batches of each query, and since when. */
export function replays(data, backup) {
  const parts = Object.entries(backup.batches ?? {}).map(([folder, batch]) => {
    const query = data.queries.find((one) => one.name === folder) ?? (data.queries.length === 1 ? data.queries[0] : null);
    if (batch === null || query === null || query.batch === null) return `Query ${clean(folder)} goes back to batch ${batch ?? "none"}.`;
    const again = query.batch - batch;
    return again > 0 ? `Query ${clean(folder)} goes back from batch ${query.batch} to ${batch}: ${again} batches run again.` : `Query ${clean(folder)} stays at batch ${batch}.`;
  });
  return `${parts.join(" ")} The input since ${stamp(backup.at)} is read again; a sink that is not idempotent gets its rows twice.`;
}

function item(label, isRed, act) {
  return { label, isRed, act };
}

/** A button that opens the list of acts; the arrow keys move in it. */
export function menuButton(items) {
  const box = h("div", { role: "menu", hidden: true });
  const button = h("button", { class: "button", "aria-haspopup": "menu", "aria-expanded": "false" }, "Act ▾");
  const root = h("div", { class: "menu" }, button, box);
  const close = () => {
    box.hidden = true;
    button.setAttribute("aria-expanded", "false");
  };
  button.addEventListener("click", () => {
    if (!box.hidden) return close();
    put(
      box,
      items().map((one) =>
        h(
          "button",
          {
            role: "menuitem",
            class: one.isRed ? "danger" : null,
            onclick: () => {
              close();
              one.act();
            },
          },
          one.label,
        ),
      ),
    );
    box.hidden = false;
    button.setAttribute("aria-expanded", "true");
    box.querySelector("button")?.focus();
  });
  root.addEventListener("keydown", (event) => {
    const entries = [...box.querySelectorAll("button")];
    const here = entries.indexOf(document.activeElement);
    if (event.key === "Escape") {
      close();
      button.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      entries[(here + (event.key === "ArrowDown" ? 1 : -1) + entries.length) % entries.length]?.focus();
    }
  });
  document.addEventListener("click", (event) => root.contains(event.target) || close());
  return root;
}

function ask(data, act, done) {
  dialog({
    title: `${act.label}: ${data.stream}`,
    says: act.says,
    name: act.asks_name ? data.stream : "",
    isRed: act.red,
    button: act.label,
    send: (reason, confirm) =>
      post(`api/streams/${at(data.dag, data.stream)}/acts/${encodeURIComponent(act.act)}`, {
        reason,
        confirm,
        number: act.epoch ?? act.change ?? null,
      }).then((reply) => reply.done),
    done,
  });
}

async function askRun(data, dag, { title, says, conf = {}, isSure = false, done }) {
  const told = await known(dag);
  dialog({
    title: `${title}: ${data.stream}`,
    says: [says, `This triggers a run of dag ${dag}, in your name.`, paused(told)].filter(Boolean).join(" "),
    name: () => (isSure ? data.stream : ""),
    isRed: isSure,
    button: "Trigger",
    noReason: true,
    send: () => triggered(dag, conf, told),
    done,
  });
}

/** The dag's own form, filled in. Whatever turns the dry run off is asked twice. */
async function askForm(data, dag, { title, says, fill = {}, isRed = false, done }) {
  const told = await known(dag);
  const form = fields(told.params, fill);
  dialog({
    title: `${title}: ${data.stream}`,
    says: [says, `This triggers a run of dag ${dag}, in your name.`, paused(told)].filter(Boolean).join(" "),
    body: form.node,
    name: () => (form.value("dry_run") === true ? "" : data.stream),
    isRed,
    button: "Trigger",
    noReason: true,
    send: () => triggered(dag, form.conf(), told),
    done,
  });
}

async function known(dag) {
  try {
    return await details(dag);
  } catch (error) {
    toast(error.message);
    throw error;
  }
}

function paused(told) {
  return told.is_paused ? "The dag is paused and is unpaused first." : "";
}

function triggered(dag, conf, told) {
  return triggerRun(dag, conf, { isPaused: told.is_paused === true }).then((reply) => `Run ${reply.dag_run_id} of ${dag} is triggered.`);
}

/** `name`: the text that is typed to confirm, empty for none; `isRed`: something is stopped, undone or given up. */
function dialog({ title, says, name, isRed, button, noReason, body, send, done }) {
  let isSecond = false;
  const wanted = () => (typeof name === "function" ? name() : name);
  const reason = h("input", { name: "reason", required: true, maxlength: 500, autocomplete: "off" });
  const typed = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false", "aria-label": "Name of the stream, to confirm" });
  const problem = h("div", { class: "warns", role: "alert", hidden: true });
  const asked = h("b", {});
  const second = h("div", { hidden: true }, h("label", {}, h("span", {}, "Type ", asked, " to confirm"), typed));
  const go = h("button", { type: "submit" });
  const text = h("p", {}, says);
  const paint = () => {
    const isGrave = Boolean(wanted());
    const warns = isGrave && isRed;
    text.className = warns ? "warns" : "says";
    go.className = `button ${warns ? (isSecond ? "sure" : "danger") : "main"}`;
    put(go, isGrave && !isSecond ? "Continue …" : button);
    go.disabled = isGrave && isSecond && typed.value !== wanted();
    second.hidden = !(isGrave && isSecond);
  };
  const box = h(
    "dialog",
    { "aria-label": title, class: body ? "wide" : null },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, title),
      text,
      body,
      noReason ? null : h("label", {}, "Reason, for the timeline", reason),
      second,
      problem,
      h("div", { class: "buttons" }, h("button", { class: "button", type: "button", onclick: () => box.close() }, "Cancel"), go),
    ),
  );
  box.addEventListener("close", () => box.remove());
  box.addEventListener("input", paint);
  box.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (wanted() && !isSecond) {
      isSecond = true;
      put(asked, wanted());
      paint();
      typed.focus();
      return;
    }
    if (wanted() && typed.value !== wanted()) return;
    go.disabled = true;
    problem.hidden = true;
    try {
      const told = await send(reason.value.trim(), typed.value);
      box.close();
      toast(told);
      done();
    } catch (error) {
      problem.hidden = false;
      put(problem, error instanceof Error ? error.message : String(error));
      go.disabled = false;
    }
  });
  paint();
  document.body.append(box);
  box.showModal();
  (noReason ? (box.querySelector(".fields input, .fields select, .fields textarea") ?? go) : reason).focus();
}

export function toast(text) {
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}
