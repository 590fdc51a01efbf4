// The page: which view the address asks for, and moving between views.

import { get } from "./api.js";
import { put } from "./dom.js";
import { fleet } from "./fleet.js";
import { followTheme } from "./theme.js";

const main = document.getElementById("main");
let view = null;

export function params() {
  return new URLSearchParams(window.location.search);
}

/** Change the address; values that are empty leave it. `push` makes a step that "back" undoes. */
export function address(changes, { push = false } = {}) {
  const found = params();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") found.delete(name);
    else found.set(name, String(value));
  }
  const text = found.toString();
  const url = `${window.location.pathname}${text ? `?${text}` : ""}`;
  if (push) window.history.pushState(null, "", url);
  else window.history.replaceState(null, "", url);
}

export function tell(text) {
  document.getElementById("live").textContent = text;
}

export async function show() {
  view?.end();
  view = null;
  put(main);
  const found = params();
  if (found.get("view") === "installation") {
    const { installation } = await import("./installation.js");
    view = installation(main);
    return;
  }
  const only = found.get("stream") ? null : await onlyStream(found.get("dag"));
  if (only) address({ dag: only.dag, stream: only.stream, q: "", page: "" });
  if (only || found.get("stream")) {
    const now = params();
    // No stream of ours may have such a name.
    const isExternal = now.get("stream").includes("@");
    const { stream } = isExternal ? await import("./external.js") : await import("./stream.js");
    view = stream(main, now.get("dag") || now.get("stream"), now.get("stream"));
  } else {
    view = fleet(main);
  }
}

/** The stream of a dag that keeps just one: what its tab in Airflow shows. */
async function onlyStream(dag) {
  if (!dag) return null;
  try {
    const rows = (await get(`api/fleet?dag=${encodeURIComponent(dag)}`)).streams;
    return rows.length === 1 ? rows[0] : null;
  } catch {
    return null;
  }
}

export function go(changes) {
  address(changes, { push: true });
  window.scrollTo(0, 0);
  show();
}

window.addEventListener("popstate", show);
followTheme(() => view?.themed?.());
show();
