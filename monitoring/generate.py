"""
Writes the Grafana dashboards and the Prometheus rules in this folder from the provider's own tables.

The rules are those of ``HealthRules.recommended``; run ``python -m monitoring.generate`` after these,
or the metrics of the drivers, have changed. A test compares the files with what this writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.sinks.figures import PREFIX
from airflow_streaming.model.health_rules import Comparison, HealthRule, HealthRules, Metric

HERE: Final = Path(__file__).parent
BY_QUERY: Final = "stream, query"


def metric(name: str) -> str:
    """Return the Prometheus name of a figure."""
    return f"{PREFIX}_{name}"


def _mean(name: str, seconds: float) -> str:
    return f"avg_over_time({metric(name)}[{_span(seconds)}])" if seconds else metric(name)


def _span(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole // 60}m" if whole % 60 == 0 else f"{whole}s"


def expression(rule: HealthRule) -> str | None:
    """Return the figure of a rule in PromQL; ``None`` where drivers send none that gives it."""
    over = rule.mean_over.total_seconds()
    window = _span(over or 60)
    rows = metric("input_rows_total")
    match rule.metric:
        case Metric.INPUT_RATE:
            return f"rate({rows}[{window}])"
        case Metric.PROCESSING_SHARE:
            out, into = metric("processed_rows_per_second"), metric("input_rows_per_second")
            return f"avg_over_time({out}[{window}]) / (avg_over_time({into}[{window}]) > 0)"
        case Metric.BACKLOG_SECONDS:
            backlog = f"sum by ({BY_QUERY}) ({_mean('source_backlog_records', over)})"
            rate = f"avg by ({BY_QUERY}) ({_mean('processed_rows_per_second', over)})"
            return f"{backlog} / ({rate} > 0)"
        case Metric.COMMIT_AGE_SECONDS:
            return f"time() - {metric('batch_start_timestamp_seconds')}"
        case Metric.DROPPED_ROWS:
            return f"increase({metric('dropped_rows_total')}[5m])"
        case Metric.FAILED_TASKS:
            return f"increase({metric('failed_tasks_total')}[5m])"
    name = _GAUGES.get(rule.metric)
    return None if name is None else _mean(name, over)


_GAUGES: Final[Mapping[Metric, str]] = {
    Metric.BATCH_SECONDS: "batch_duration_seconds",
    Metric.WATERMARK_DELAY_SECONDS: "watermark_delay_seconds",
    Metric.STATE_ROWS: "state_rows",
    Metric.STATE_BYTES: "state_memory_bytes",
    Metric.BACKLOG_RECORDS: "source_backlog_records",
    Metric.BACKLOG_BYTES: "source_backlog_bytes",
    Metric.BACKLOG_FILES: "source_backlog_files",
    Metric.STATE_COMMIT_SECONDS: "state_commit_duration_seconds",
    Metric.CACHE_MISS_SHARE: "state_cache_miss_ratio",
    Metric.MISSING_EXECUTORS: "missing_executors",
    Metric.LOST_EXECUTORS: "lost_executors",
}


def alert(rule: HealthRule) -> dict[str, Any] | None:
    """Return the alert of one rule; ``None`` where Prometheus cannot tell it."""
    found = expression(rule)
    if found is None:
        return None
    sign = ">" if rule.comparison is Comparison.ABOVE else "<"
    made: dict[str, Any] = {
        "alert": f"Streaming_{rule.name}",
        "expr": f"{found} {sign} {rule.bound:.12g}",
        "labels": {"severity": rule.severity.value, "rule": rule.name},
        "annotations": {
            "summary": f"{{{{ $labels.stream }}}}/{{{{ $labels.query }}}}: {rule.name} ({{{{ $value }}}})"
        },
    }
    if rule.sustained_for:
        made["for"] = _span(rule.sustained_for.total_seconds())
    if rule.clear_for:
        made["keep_firing_for"] = _span(rule.clear_for.total_seconds())
    return made


def alerts() -> dict[str, Any]:
    """Return the rule file."""
    found = [one for rule in HealthRules.recommended().rules if (one := alert(rule)) is not None]
    return {"groups": [{"name": "airflow-streaming", "interval": "15s", "rules": found}]}


def panel(
    number: int,
    title: str,
    targets: Sequence[tuple[str, str]],
    unit: str = "short",
    *,
    width: int = 12,
) -> dict[str, Any]:
    """Return one time series."""
    per_row = 24 // width
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"fillOpacity": 8}}, "overrides": []},
        "gridPos": {"h": 8, "w": width, "x": number % per_row * width, "y": number // per_row * 8},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list"}},
        "targets": [
            {"expr": query, "legendFormat": legend, "refId": chr(65 + at)}
            for at, (query, legend) in enumerate(targets)
        ],
    }


def dashboard(
    uid: str, title: str, panels: Sequence[tuple[Any, ...]], *, one: bool
) -> dict[str, Any]:
    """Return a dashboard; with a choice of the stream when it is about one."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    stream = {
        "name": "stream",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({metric('batch_id')}, stream)",
        "refresh": 2,
        "includeAll": not one,
        "multi": not one,
    }
    return {
        "uid": uid,
        "title": title,
        "tags": ["airflow-streaming"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, stream]},
        "panels": [panel(number, *args) for number, args in enumerate(panels)],
    }


def dashboards() -> dict[str, dict[str, Any]]:
    """Return every dashboard by the name of its file."""
    chosen = '{stream=~"$stream"}'

    def m(name: str) -> str:
        return metric(name) + chosen

    who = "{{stream}}/{{query}}"
    fleet = [
        ("Input", [(m("input_rows_per_second"), who)], "rowsps"),
        (
            "Processing as a share of input",
            [(f"{m('processed_rows_per_second')} / {m('input_rows_per_second')}", who)],
            "percentunit",
        ),
        ("Backlog", [(f"sum by (stream) ({m('source_backlog_records')})", "{{stream}}")]),
        ("Watermark delay", [(m("watermark_delay_seconds"), who)], "s"),
        ("Batch duration", [(m("batch_duration_seconds"), who)], "s"),
        (
            "Time since the last batch began",
            [(f"time() - {m('batch_start_timestamp_seconds')}", who)],
            "s",
        ),
        ("Restarts in 24 h", [(f"changes({m('query_info')}[24h])", who)]),
        ("State memory", [(m("state_memory_bytes"), who)], "bytes"),
    ]
    stream = [
        (
            "Rows per second",
            [
                (m("input_rows_per_second"), "input {{query}}"),
                (m("processed_rows_per_second"), "processing {{query}}"),
            ],
            "rowsps",
        ),
        (
            "Batch duration by phase",
            [(m("batch_phase_duration_seconds"), "{{query}} {{phase}}")],
            "s",
        ),
        ("Backlog by source", [(m("source_backlog_records"), "{{query}} {{description}}")]),
        ("Watermark delay", [(m("watermark_delay_seconds"), "{{query}}")], "s"),
        ("State rows", [(m("state_rows"), "{{query}}")]),
        ("State memory", [(m("state_memory_bytes"), "{{query}}")], "bytes"),
        ("State commit", [(m("state_commit_duration_seconds"), "{{query}}")], "s"),
        ("RocksDB", [(m("state_store_metric"), "{{query}} {{metric}}")]),
        ("Observed metrics", [(m("observed"), "{{query}} {{metric}}")]),
        ("Executors", [(m("executors"), "{{query}}")]),
    ]
    pair = '{stream=~"$stream(\\\\.green)?"}'
    changes = [
        ("Input of both lanes", [(metric("input_rows_per_second") + pair, who)], "rowsps"),
        (
            "Rows read of both lanes",
            [(f"sum by (stream) ({metric('input_rows_total')}{pair})", "{{stream}}")],
        ),
        (
            "Backlog of both lanes",
            [(f"sum by (stream) ({metric('source_backlog_records')}{pair})", "{{stream}}")],
        ),
        ("Watermark delay of both lanes", [(metric("watermark_delay_seconds") + pair, who)], "s"),
        (
            "Deployment and epoch",
            [
                (
                    f"count by (stream, deployment, epoch) ({metric('query_info')}{pair})",
                    "{{stream}} deployment {{deployment}} epoch {{epoch}}",
                )
            ],
        ),
        ("Batch duration of both lanes", [(metric("batch_duration_seconds") + pair, who)], "s"),
    ]
    return {
        "fleet.json": dashboard("streams-fleet", "Streams: fleet", fleet, one=False),
        "stream.json": dashboard("streams-stream", "Streams: one stream", stream, one=True),
        "changes.json": dashboard("streams-changes", "Streams: changes", changes, one=True),
    }


def files() -> dict[str, str]:
    """Return every file with its content; JSON is YAML as well, so the rules are written as JSON."""
    found = {f"grafana/{name}": made for name, made in dashboards().items()}
    found["prometheus/alerts.yaml"] = alerts()
    return {name: json.dumps(made, indent=2, sort_keys=True) + "\n" for name, made in found.items()}


def main() -> None:
    """Write the files."""
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
