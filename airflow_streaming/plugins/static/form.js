// A dag's own form, made of the parameters that Airflow's public API tells, and filled in.

import { airflow, fetchFrom } from "./api.js";
import { clean, h } from "./dom.js";

/** What Airflow says of a dag: its parameters, and whether it is paused. */
export function details(dag) {
  return fetchFrom(airflow(`api/v2/dags/${encodeURIComponent(dag)}/details`));
}

/** Fields of a form: `node` to be shown, `conf()` what differs from the dag's defaults. Throws on wrong input. */
export function fields(params, fill = {}) {
  const made = Object.entries(params ?? {}).map(([name, param]) => field(name, param ?? {}, fill));
  return {
    node: h("div", { class: "fields" }, made.map((one) => one.node)),
    conf() {
      const told = {};
      for (const one of made) {
        const value = one.read();
        if (JSON.stringify(value) !== JSON.stringify(one.usual)) told[one.name] = value;
      }
      return told;
    },
    value: (name) => made.find((one) => one.name === name)?.read(),
  };
}

function field(name, param, fill) {
  const schema = param.schema ?? {};
  const types = [schema.type ?? "string"].flat();
  const usual = param.value ?? null;
  const value = name in fill ? fill[name] : usual;
  const isFixed = "const" in schema;
  const { node, read } = input(name, schema, types, value, isFixed);
  const title = h("span", {}, clean(schema.title ?? name));
  const description = param.description ?? schema.description;
  const small = description ? h("small", {}, clean(String(description)).slice(0, 400)) : null;
  const label = node.type === "checkbox" ? h("label", { class: "check" }, node, h("span", {}, title, small)) : h("label", {}, title, node, small);
  return { name, usual, node: label, read: isFixed ? () => usual : read };
}

function input(name, schema, types, value, isFixed) {
  const shared = { name: `param.${name}`, disabled: isFixed };
  const nothing = types.includes("null") ? null : undefined;
  if (types.includes("boolean")) {
    const node = h("input", { ...shared, type: "checkbox", checked: value === true });
    return { node, read: () => node.checked };
  }
  if (Array.isArray(schema.enum)) {
    const shown = schema.values_display ?? {};
    const node = h("select", shared, schema.enum.map((one) => h("option", { value: String(one) }, clean(shown[one] ?? String(one)))));
    node.value = String(value);
    return { node, read: () => schema.enum.find((one) => String(one) === node.value) ?? null };
  }
  if (types.includes("integer") || types.includes("number")) {
    const node = h("input", { ...shared, type: "number", step: types.includes("integer") ? "1" : "any", min: schema.minimum, value: value ?? "" });
    return { node, read: () => (node.value === "" ? (nothing ?? null) : Number(node.value)) };
  }
  if (types.includes("object")) {
    const node = h("textarea", { ...shared, rows: 3, spellcheck: "false" });
    node.value = JSON.stringify(value ?? {}, null, 1);
    return { node, read: () => parsed(node.value, schema.title ?? name) };
  }
  if (types.includes("array")) {
    const node = h("textarea", { ...shared, rows: 2, spellcheck: "false" });
    node.value = (value ?? []).join("\n");
    return { node, read: () => node.value.split("\n").map((one) => one.trim()).filter(Boolean) };
  }
  const node = h("input", { ...shared, type: "text", autocomplete: "off", spellcheck: "false", value: value ?? "" });
  return { node, read: () => (node.value.trim() === "" ? (nothing === null ? null : "") : node.value.trim()) };
}

function parsed(text, title) {
  if (!text.trim()) return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`"${title}" is not JSON. Give an object, for example {"spark.executor.memory": "4g"}.`);
  }
}
