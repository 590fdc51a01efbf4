// Elements from values. Text is always inserted as text and never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "x", onclick: f}, "text", child, [more]) */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : plain(child));
  }
}

// Marks that change the direction of what follows would let one name rearrange a whole row.
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function plain(value) {
  return document.createTextNode(String(value).replace(STEERS, "\ufffd"));
}

export function clean(value) {
  return String(value ?? "").replace(STEERS, "\ufffd");
}

/** Put children into a node instead of what is there. */
export function put(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Text of a node, changed only if it is another, so that a selection survives. */
export function say(node, text) {
  const told = clean(text);
  if (node.textContent !== told) node.textContent = told;
}

const GLYPHS = {
  down: "M8 1.500 15 14.500H1Z",
  bad: "M8 1 15 8 8 15 1 8Z",
  warn: "M8 2.500 14.500 13.500H1.500Z",
  busy: "M8 2a6 6 0 1 0 6 6h-2.200A3.800 3.800 0 1 1 8 4.200Z",
  well: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11Z",
  off: "M3 3h10v10H3Z",
};

/** The sign of a level: a shape of its own, so that colors are not the only sign. */
export function glyph(level) {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", class: `glyph ${level}`, "aria-hidden": "true", width: 12, height: 12 },
    svg("path", { d: GLYPHS[level] ?? GLYPHS.off }),
  );
}

export function pill(level, text, title) {
  return h("span", { class: `pill ${level}`, title }, glyph(level), h("span", {}, text));
}
