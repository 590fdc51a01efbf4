// What may be done to a stream: asked once, and twice where something may be lost.

import { Refused, at, open, post, triggerRun } from "./api.js";
import { h, put } from "./dom.js";

export function menu(data, done) {
  const items = [];
  for (const act of data.acts ?? []) {
    items.push(item(act.label, act.danger, () => ask(data, act, done)));
  }
  const dags = data.dags ?? {};
  if (data.can_edit) {
    if (dags.backup) items.push(item("Back up now", false, () => askRun(dags.backup, {}, "Back up now", "Takes a backup of the running stream and verifies it. The stream is not stopped.", done)));
    items.push(
      item("Apply the dag's edited spec", true, () =>
        askRun(data.dag, { restart: true }, "Apply the dag's edited spec", "Stops the driver at a batch boundary, deploys what the dag file says now, and starts it on the same checkpoint. No gate and no way back: the upgrade dag has both. If the dag says nothing new, only the run is replaced.", done),
      ),
    );
  }
  const links = [
    [dags.upgrade, "Upgrade or roll back …"],
    [dags.blue_green, "Blue-green cutover …"],
    [dags.rescale, "Rescale …"],
    [data.dag, "Open the dag"],
  ].filter(([dag]) => dag);
  for (const [dag, label] of links) items.push(item(label, false, () => open(`dags/${encodeURIComponent(dag)}`)));
  return items;
}

function item(label, danger, act) {
  return { label, danger, act };
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
            class: one.danger ? "danger" : null,
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
    name: act.danger ? data.stream : "",
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

function askRun(dag, conf, title, says, done) {
  dialog({
    title,
    says: `${says} This triggers a run of dag ${dag}, in your name.`,
    name: conf.restart ? dag : "",
    button: "Trigger",
    noReason: true,
    send: () => triggerRun(dag, conf).then((reply) => `Run ${reply.dag_run_id} of ${dag} is triggered.`),
    done,
  });
}

function dialog({ title, says, name, button, noReason, send, done }) {
  let isSecond = false;
  const reason = h("input", { name: "reason", required: true, maxlength: 500, autocomplete: "off" });
  const typed = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false" });
  const problem = h("div", { class: "warns", role: "alert", hidden: true });
  const second = h("div", { hidden: true }, h("label", {}, h("span", {}, "Type ", h("b", {}, name), " to confirm"), typed));
  const go = h("button", { class: `button ${name ? "danger" : "main"}`, type: "submit" }, name ? "Continue …" : button);
  const box = h(
    "dialog",
    { "aria-label": title },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, title),
      h("p", { class: name ? "warns" : "says" }, says),
      noReason ? null : h("label", {}, "Reason, for the timeline", reason),
      second,
      problem,
      h("div", { class: "buttons" }, h("button", { class: "button", type: "button", onclick: () => box.close() }, "Cancel"), go),
    ),
  );
  box.addEventListener("close", () => box.remove());
  box.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (name && !isSecond) {
      isSecond = true;
      second.hidden = false;
      go.className = "button sure";
      put(go, button);
      go.disabled = true;
      typed.addEventListener("input", () => (go.disabled = typed.value !== name));
      typed.focus();
      return;
    }
    go.disabled = true;
    problem.hidden = true;
    try {
      const told = await send(reason.value.trim(), typed.value);
      box.close();
      toast(told);
      done();
    } catch (error) {
      problem.hidden = false;
      put(problem, error instanceof Refused ? error.message : String(error));
      go.disabled = false;
    }
  });
  document.body.append(box);
  box.showModal();
  (noReason ? go : reason).focus();
}

export function toast(text) {
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}
