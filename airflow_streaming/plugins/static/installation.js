// The check of the installation as the API server sees it, for users who administer Airflow.

import { get } from "./api.js";
import { go } from "./app.js";
import { h, pill, put } from "./dom.js";
import { failure, skeleton } from "./fleet.js";
import { table } from "./panels.js";

const LEVELS = { problem: "bad", warning: "warn", unknown: "warn", note: "off", ok: "well" };

export function installation(root) {
  document.title = "Installation · Streams";
  const box = h("div", {}, skeleton());
  root.append(
    h("nav", { class: "crumb", "aria-label": "Breadcrumb" }, h("a", { href: "?", onclick: back }, "Streams"), " / ", "Installation"),
    h("header", { class: "top" }, h("h1", {}, "Installation")),
    h("p", { class: "dim" }, "As this API server sees it. Hosts of drivers are checked by CheckInstallationOperator and ", h("span", { class: "mono" }, "airflow-streaming check"), "."),
    box,
  );
  load();

  async function load() {
    try {
      const found = await get("api/installation");
      put(box, table(["Outcome", "Check", "Seen", "Expected", "Next step"], found.checks.map(row)));
    } catch (error) {
      put(box, failure(error, load));
    }
  }

  function back(event) {
    event.preventDefault();
    go({ view: "" });
  }

  return { end() {} };
}

function row(line) {
  return [
    h("td", {}, pill(LEVELS[line.outcome], line.outcome)),
    h("td", {}, h("b", {}, line.check)),
    h("td", {}, line.seen),
    h("td", {}, line.expected),
    h("td", {}, line.next),
  ];
}
