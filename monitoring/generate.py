"""
Writes the Grafana dashboards and the Prometheus rules of the package from its own tables.

Run ``python -m monitoring.generate`` after the metrics of the drivers have changed. A test compares the
files with this module's output.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import airflow_streaming
from airflow_streaming.driver.sinks.figures import PREFIX

FILES: Final = Path(airflow_streaming.__file__).parent / "monitoring"
BY_RULE: Final = "stream, rule, query"
RULE_FIRING: Final = "airflow_streaming_rule_firing"
"""The gauge as Airflow's metrics name it, with the usual prefix."""
HOLD: Final = "2m"
"""While a task sends the alert of a rule no trigger looks: that took up to a minute."""


def metric(name: str) -> str:
    """Return the Prometheus name of a figure."""
    return f"{PREFIX}_{name}"


def alerts() -> dict[str, Any]:
    """
    Return the rule file.

    The trigger of a stream exports the state of each rule, with its means, its times and its bound to
    clear. A second evaluation by Prometheus would differ: drivers send figures of batches only, and a
    stream without data has no batch.
    """
    firing = f"max by ({BY_RULE}) (max_over_time({RULE_FIRING}[{HOLD}]))"
    rule = {
        "alert": "StreamingRuleFires",
        "expr": f"{firing} > 0",
        "labels": {"severity": "alert"},
        "annotations": {
            "summary": "{{ $labels.stream }}/{{ $labels.query }}: {{ $labels.rule }} fires"
        },
    }
    return {"groups": [{"name": "airflow-streaming", "interval": "15s", "rules": [rule]}]}


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
    fires = f"max by ({BY_RULE}) ({RULE_FIRING}{chosen}) > 0"
    rules = ("Rules that fire", [(fires, "{{stream}}/{{query}} {{rule}}")])
    fleet = [
        rules,
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
        ("Driver starts in 24 h", [(f"changes({m('query_info')}[24h])", who)]),
        ("State memory", [(m("state_memory_bytes"), who)], "bytes"),
    ]
    stream = [
        rules,
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
        (FILES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
