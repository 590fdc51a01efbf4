// Reports as elements: headings, tables, lists, code and bold. Whatever else a text holds stays text.

import { h } from "./dom.js";

export function markdown(text) {
  const root = h("article", { class: "report" });
  const lines = String(text).slice(0, 200000).split("\n");
  for (let at = 0; at < lines.length; ) at = block(root, lines, at);
  return root;
}

function block(root, lines, at) {
  const line = lines[at];
  const heading = /^(#{1,4})\s+(.*)$/.exec(line);
  if (heading) {
    root.append(h(`h${Math.min(3, heading[1].length)}`, {}, inline(heading[2])));
    return at + 1;
  }
  if (line.startsWith("```")) {
    const end = lines.findIndex((one, index) => index > at && one.startsWith("```"));
    const stop = end < 0 ? lines.length : end;
    root.append(h("pre", {}, h("code", {}, lines.slice(at + 1, stop).join("\n"))));
    return stop + 1;
  }
  if (line.startsWith("|")) return table(root, lines, at);
  if (/^\s*[-*]\s/.test(line)) return list(root, lines, at);
  if (!line.trim()) return at + 1;
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !/^(#|\||```|\s*[-*]\s)/.test(lines[end])) end++;
  root.append(h("p", {}, inline(lines.slice(at, end).join(" "))));
  return end;
}

function table(root, lines, at) {
  let end = at;
  while (end < lines.length && lines[end].startsWith("|")) end++;
  const rows = lines.slice(at, end).map(cells);
  const isHead = rows[1]?.every((cell) => /^:?-+:?$/.test(cell));
  const body = h("tbody");
  rows.forEach((row, index) => {
    if (isHead && index === 1) return;
    const tag = isHead && index === 0 ? "th" : "td";
    body.append(h("tr", {}, row.map((cell) => h(tag, {}, inline(cell)))));
  });
  root.append(h("table", {}, body));
  return end;
}

function cells(line) {
  return line
    .replace(/^\||\|\s*$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replace(/\\([|`*_#<>\\-])/g, "$1"));
}

function list(root, lines, at) {
  const items = h("ul");
  let end = at;
  while (end < lines.length && /^\s*[-*]\s/.test(lines[end])) {
    items.append(h("li", {}, inline(lines[end].replace(/^\s*[-*]\s+/, ""))));
    end++;
  }
  root.append(items);
  return end;
}

function inline(text) {
  return text
    .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
    .filter(Boolean)
    .map((part) => {
      if (part.startsWith("`") && part.endsWith("`") && part.length > 1) return h("code", {}, part.slice(1, -1));
      if (part.startsWith("**") && part.endsWith("**") && part.length > 4) return h("b", {}, inline(part.slice(2, -2)));
      return part.replace(/\\([|`*_#<>\\-])/g, "$1");
    });
}
