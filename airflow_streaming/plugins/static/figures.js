// Figures of queries as lines of a chart. Pure: no document, no clock.

/** The choice of all queries: each chart has a line for each query. */
export const ALL = "*";
/** Lines of a chart; more cannot be told apart. */
const MOST = 8;

/** Lines of a chart in one series: [{name, label}], in a fixed order. */
export function linesOf(chart, figures) {
  if (chart.lines) return chart.lines.filter(([name]) => figures[name]).map(([name, label]) => ({ name, label }));
  const prefix = chart.stack ?? chart.each;
  return Object.keys(figures)
    .filter((name) => name.startsWith(prefix) && !(chart.but ?? []).includes(name.slice(prefix.length)))
    .sort((one, other) => sum(figures[other].last) - sum(figures[one].last))
    .slice(0, MOST)
    .map((name) => ({ name, label: name.slice(prefix.length) }));
}

export function sum(values) {
  return values.reduce((all, value) => all + (value ?? 0), 0);
}

/** Times and columns with an empty point in every gap, so that nothing is drawn over a pause. */
export function gapped(at, columns, bucket) {
  const steps = at.slice(1).map((moment, index) => moment - at[index]).sort((one, other) => one - other);
  const usual = Math.max(bucket, steps[Math.floor(steps.length * 0.8)] ?? 0);
  const times = [];
  const found = columns.map(() => []);
  at.forEach((moment, index) => {
    if (index && moment - at[index - 1] > usual * 3.5) {
      times.push(at[index - 1] + usual);
      found.forEach((column) => column.push(null));
    }
    times.push(moment);
    columns.forEach((column, which) => found[which].push(column[index]));
  });
  return [times, found];
}

/** The query that a page opens on: the first with rows in the range, else the first with a figure. */
export function firstToShow(series) {
  const has = (one, name) => (one.figures[name]?.max ?? one.figures[name]?.last ?? []).some((value) => value > 0);
  const found = series.find((one) => has(one, "input_rate")) ?? series.find((one) => Object.keys(one.figures).length);
  return (found ?? series[0])?.query ?? "";
}

/** Charts that a range has no figures for, in one line; empty where all are drawn. */
export function missing(charts, hasBatches) {
  const missed = charts.filter((one) => one.isMissed).map((one) => one.chart.title.toLowerCase());
  if (!missed.length) return "";
  if (hasBatches && missed.length === charts.length) return "Spark reports no figures of this kind for the query.";
  return hasBatches ? `Not reported by Spark: ${missed.join(", ")}.` : "No batch in this range.";
}

/**
 * Bounds that the charts of a query draw: those of its health rules, and the freshness objective as a bound of the
 * watermark's delay. `data` is the stream's status, `query` a name or `ALL`.
 */
export function boundsOf(data, query) {
  const objective = data?.freshness;
  const own = objective ? [{ metric: "watermark_delay_seconds", bound: objective.within_s, query: objective.query }] : [];
  return [...(data?.rules ?? []), ...own].filter((one) => !one.query || query === ALL || one.query === query);
}

/** Watermark of the query that is furthest behind, to which the delay of the stream belongs; null without one. */
export function slowestWatermark(queries) {
  const known = queries.filter((one) => one.watermark_delay_s !== null);
  return known.sort((one, other) => other.watermark_delay_s - one.watermark_delay_s)[0]?.watermark ?? null;
}

/**
 * A chart with a line for each query: its first figure, or the sum of its parts. Points of other queries
 * are undefined, over which a line is drawn; a pause of the query is null, over which no line is drawn.
 */
export function together(chart, series, bucket) {
  const found = series.map((one) => [one.query, one.at, figureOf(chart, one.figures)]).filter(([, , values]) => values).slice(0, MOST);
  const own = found.map(([, at, values]) => gapped(at, [values], bucket));
  const at = [...new Set(own.flatMap(([times]) => times))].sort((one, other) => one - other);
  const figures = {};
  found.forEach(([query], which) => {
    const [times, [values]] = own[which];
    const known = new Map(times.map((moment, index) => [moment, values[index]]));
    figures[query] = { last: swept(at.map((moment) => known.get(moment))) };
  });
  const lines = found.map(([query]) => [query, query]);
  // A query has its color in every chart, also where others have no figure.
  const places = Object.fromEntries(series.map((one, index) => [one.query, index]));
  const first = chart.lines?.length > 1 ? `: ${chart.lines[0][1]}` : "";
  return {
    chart: { ...chart, title: `${chart.together ?? chart.title}${first}`, lines, places, stack: undefined, each: undefined, band: false },
    series: found.length ? { query: ALL, at, figures } : undefined,
  };
}

/** One column for a chart: its first figure, or the sum of its parts; null where the query has none. */
function figureOf(chart, figures) {
  const lines = linesOf(chart, figures);
  if (!lines.length || (chart.lines && lines[0].name !== chart.lines[0][0])) return null;
  const columns = (chart.lines ? lines.slice(0, 1) : lines).map((line) => figures[line.name].last);
  return columns[0].map((_, index) => (columns.every((column) => column[index] === null) ? null : sum(columns.map((column) => column[index]))));
}

/** A run without values that holds a null is a pause as a whole. */
function swept(column) {
  const found = [...column];
  for (let begin = 0; begin < found.length; begin++) {
    if (isValue(found[begin])) continue;
    let end = begin;
    while (end < found.length && !isValue(found[end])) end++;
    if (found.slice(begin, end).includes(null)) found.fill(null, begin, end);
    begin = end;
  }
  return found;
}

function isValue(value) {
  return value !== null && value !== undefined;
}
