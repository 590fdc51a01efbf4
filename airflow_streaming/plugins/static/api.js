// Requests to the page's own routes, and polling that rests while nobody looks.

const ROOT = new URL("../", document.baseURI);

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Fetch JSON below /streaming/; throws Refused with the reason the server gives. */
export function get(path, cache) {
  return fetchFrom(new URL(path, ROOT), cache);
}

export async function fetchFrom(url, cache = "no-cache") {
  let reply;
  try {
    reply = await fetch(url, { headers: { Accept: "application/json" }, cache });
  } catch {
    throw new Refused(0, "The API server does not answer.");
  }
  return read(reply);
}

/** Do something: the header is what no form of another site can send. */
export async function post(path, body, headers = { "X-Streaming-Act": "1" }, method = "POST") {
  let reply;
  try {
    reply = await fetch(new URL(path, ROOT), {
      method,
      headers: { "Content-Type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The API server does not answer. Nothing is known to be done.");
  }
  return read(reply);
}

async function read(reply) {
  let data = null;
  try {
    data = await reply.json();
  } catch {
    // Told below by the status alone.
  }
  if (!reply.ok) throw new Refused(reply.status, reason(data, reply.status));
  return data;
}

function reason(data, status) {
  if (typeof data?.detail === "string") return data.detail;
  if (Array.isArray(data?.detail)) return data.detail.map((one) => one?.msg ?? "").join(" ");
  if (status === 401) return "You are not signed in, or your session has ended. Sign in to Airflow.";
  if (status === 403) return "You have no right to see this. Ask for access to its dag.";
  return `The API server answered ${status}.`;
}

export function at(...parts) {
  return parts.map((part) => encodeURIComponent(part)).join("/");
}

/** Call `act` now and again after it has ended, but not while the page is hidden. */
export class Poll {
  constructor(act, seconds) {
    this.act = act;
    this.seconds = seconds;
    this.stopped = false;
    this.timer = 0;
    this.turn = 0;
    this.seen = () => {
      if (!document.hidden && !this.stopped && !this.timer && !this.busy) this.run();
    };
    document.addEventListener("visibilitychange", this.seen);
    this.run();
  }

  /** Call now; a call that is under way leaves the next one to this. */
  async run() {
    const turn = ++this.turn;
    clearTimeout(this.timer);
    this.timer = 0;
    this.busy = true;
    const next = await this.act();
    if (turn !== this.turn) return;
    this.busy = false;
    if (this.stopped || document.hidden) return;
    this.timer = setTimeout(() => this.run(), 1000 * (next || this.seconds));
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }
}

/** Airflow's own address of a path. */
export function airflow(path) {
  return new URL(`../${path}`, ROOT).href;
}

/** Open a page of Airflow. Inside Airflow this page may not navigate; an anchor of Airflow's own may. */
export function open(path) {
  const url = airflow(path);
  try {
    if (window.parent !== window) {
      const anchor = window.parent.document.createElement("a");
      anchor.href = url;
      window.parent.document.body.append(anchor);
      anchor.click();
      anchor.remove();
      return;
    }
  } catch {
    // Framed by another origin, which the policy forbids anyway.
  }
  window.location.href = url;
}

/** Trigger a run through Airflow's public API, as the user who is signed in; a paused dag is unpaused first. */
export async function triggerRun(dag, conf, { isPaused }) {
  const path = airflow(`api/v2/dags/${encodeURIComponent(dag)}`);
  if (isPaused) await post(`${path}?update_mask=is_paused`, { is_paused: false }, {}, "PATCH");
  return post(`${path}/dagRuns`, { logical_date: null, conf }, {});
}
