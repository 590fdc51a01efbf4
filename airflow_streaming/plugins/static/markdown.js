// Reports as elements: headings, tables, lists, code and bold. All other markup stays text.

import { h } from "./dom.js";

/** An item of a list: its indentation, its mark and its text. */
const ITEM = /^(\s*)([-*]|\d{1,9}[.)])\s+(.*)$/;
const DEEPEST = 4; // lists in lists; deeper lists stay at this level
const MOST = 10000; // elements of a report; a browser takes seconds for more

export function markdown(text) {
  const root = h("article", { class: "report" });
  const lines = String(text).slice(0, 200000).split("\n");
  const left = { elements: MOST };
  let at = 0;
  while (at < lines.length && left.elements > 0) at = block(root, lines, at, left);
  if (at < lines.length) root.append(h("pre", {}, lines.slice(at).join("\n")));
  return root;
}

function block(root, lines, at, left) {
  const line = lines[at];
  left.elements--;
  const heading = /^(#{1,4})\s+(.*)$/.exec(line);
  if (heading) {
    root.append(h(`h${Math.min(3, heading[1].length)}`, {}, inline(heading[2], left)));
    return at + 1;
  }
  if (line.startsWith("```")) {
    const end = lines.findIndex((one, index) => index > at && one.startsWith("```"));
    const stop = end < 0 ? lines.length : end;
    root.append(h("pre", {}, h("code", {}, lines.slice(at + 1, stop).join("\n"))));
    return stop + 1;
  }
  if (line.startsWith("|")) return table(root, lines, at, left);
  if (ITEM.test(line)) return list(root, lines, at, left, 0);
  if (!line.trim()) return at + 1;
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !/^(#|\||```)/.test(lines[end]) && !ITEM.test(lines[end])) end++;
  root.append(h("p", {}, inline(lines.slice(at, end).join(" "), left)));
  return end;
}

function table(root, lines, at, left) {
  let end = at;
  const body = h("tbody");
  const isHead = lines[at + 1]?.startsWith("|") && cells(lines[at + 1]).every((cell) => /^:?-+:?$/.test(cell));
  for (; end < lines.length && lines[end].startsWith("|") && left.elements > 0; end++) {
    if (isHead && end === at + 1) continue;
    const tag = isHead && end === at ? "th" : "td";
    const row = cells(lines[end]).slice(0, Math.max(0, left.elements));
    left.elements -= row.length + 1;
    body.append(h("tr", {}, row.map((cell) => h(tag, {}, inline(cell, left)))));
  }
  root.append(h("table", {}, body));
  return end;
}

function cells(line) {
  return line
    .trimEnd()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function list(root, lines, at, left, depth) {
  const [, margin, mark] = ITEM.exec(lines[at]);
  const items = h(/^\d/.test(mark) ? "ol" : "ul");
  let item = items;
  let end = at;
  while (end < lines.length && left.elements > 0) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length < margin.length) break;
    if (found[1].length > margin.length && depth < DEEPEST) {
      end = list(item, lines, end, left, depth + 1);
      continue;
    }
    left.elements--;
    item = h("li", {}, inline(found[3], left));
    items.append(item);
    end++;
  }
  root.append(items);
  return end;
}

function inline(text, left) {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*)/);
  if (parts.length > Math.max(1, left.elements)) return [text];
  left.elements -= parts.length - 1;
  // Every second part is a match of the pattern.
  return parts.map((part, index) => (index % 2 ? marked(part, left) : plain(part)));
}

function marked(part, left) {
  if (part.startsWith("`")) return h("code", {}, part.slice(1, -1));
  return h("b", {}, inline(part.slice(2, -2), left));
}

function plain(text) {
  return text.replace(/\\([\\`*_~[\]<>|#&.)+=-])/g, "$1");
}
