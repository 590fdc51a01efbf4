// An external stream: what its checkpoint tells. Nothing can be done to it from here.

import { Poll, at, get } from "./api.js";
import { go } from "./app.js";
import { clean, glyph, h, pill, put, say } from "./dom.js";
import { failure, skeleton } from "./fleet.js";
import { NOTHING, ago, lasted, stamp, words } from "./format.js";
import { table } from "./panels.js";

export function stream(root, dag, name) {
  const title = name.split("@")[0];
  document.title = `${title} · Streams`;
  const top = h("div", { class: "top" }, h("h1", {}, title));
  const fresh = h("span", { class: "fresh", role: "status" });
  const banner = h("div", { class: "banner", hidden: true, role: "alert" });
  const box = h("div", {}, skeleton());
  root.append(
    h("nav", { class: "crumb", "aria-label": "Breadcrumb" }, h("a", { href: "?", onclick: back }, "Streams"), " / ", clean(title)),
    h("header", { class: "top" }, top, h("span", { class: "grow" }), fresh),
    banner,
    box,
  );
  let data = null;
  const poll = new Poll(load, 10);
  document.addEventListener("keydown", pressed);

  async function load() {
    try {
      data = await get(`api/external/${at(dag, name)}`);
      banner.hidden = true;
      paint();
    } catch (error) {
      if (!data) put(box, failure(error, () => poll.run()));
      banner.hidden = !data;
      put(banner, glyph("bad"), error.message);
    }
    return 0;
  }

  function paint() {
    const now = Date.now();
    say(fresh, data.seen_at ? `last commit ${ago(data.seen_at, now)}` : "no commit seen");
    put(top, h("h1", {}, title), pill(data.level, words(data.state)), data.since ? h("span", { class: "since", title: stamp(data.since) }, `for ${lasted(data.since, now)}`) : null, h("span", { class: "tag" }, "external"));
    put(
      box,
      h("p", { class: "reason" }, data.reason),
      h("p", { class: "dim" }, "This provider did not launch the stream: it is watched by its checkpoint, ", h("span", { class: "mono" }, data.home), `, which task ${clean(data.task)} of dag ${clean(data.dag)} names. It cannot be stopped or restarted from here.`),
      table(
        ["Query", "Committed", "Planned", "Last commit", "Watermark", "End offsets"],
        data.queries.map((query) => [
          h("td", {}, h("b", {}, query.name)),
          h("td", { class: "num" }, query.batch ?? NOTHING),
          h("td", { class: "num" }, query.planned ?? NOTHING),
          h("td", { title: stamp(query.committed_at) }, ago(query.committed_at, now)),
          h("td", { title: stamp(query.watermark) }, query.watermark ? `${ago(query.watermark, now)}` : "no watermark"),
          h("td", { class: "mono" }, query.offsets.map((one) => h("div", {}, one))),
        ]),
      ),
    );
  }

  function pressed(event) {
    if (event.key === "Escape" && !(event.target instanceof HTMLInputElement)) back(event);
  }

  function back(event) {
    event.preventDefault();
    go({ dag: "", stream: "" });
  }

  return {
    end() {
      poll.stop();
      document.removeEventListener("keydown", pressed);
    },
  };
}
