"""
Columns because of which a comparison of two outputs fails, known from the plans before green starts.

Formats without a schema of their own, such as JSON, are left out: their columns depend on the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan

COMPARED_COLUMNS: Final = rule_named("cutover.compared_columns")
_WITH_SCHEMA: Final = frozenset({"parquet", "orc", "avro", "delta", "iceberg"})
_NONE: Final = "missing"


def judge_compared(
    old: Sequence[QueryPlan], new: Sequence[QueryPlan], terms: Sequence[CompareTerms]
) -> Iterator[GateFinding]:
    """
    Yield the columns that differ between blue's and green's output and that the terms do not ignore.

    :param terms: Comparisons of this stream.
    """
    for one in terms:
        blue, green = _only_sink(old, one.format), _only_sink(new, one.format)
        if blue is None or green is None:
            continue
        before, after = _types(blue), _types(green)
        names = [
            name
            for name in {**before, **after}
            if name not in one.ignore and before.get(name) != after.get(name)
        ]
        if names:
            ignored = ", ".join(repr(name) for name in (*one.ignore, *names))
            yield COMPARED_COLUMNS.found(
                old=_shown(before, names),
                new=_shown(after, names),
                remedy=f"If the difference is intended, set ignore=({ignored},) in the CompareTerms of the DAG.",
            )


def _only_sink(plans: Sequence[QueryPlan], format_: str) -> SinkPlan | None:
    """Return the only sink with that format and a known schema, because a comparison reads one output."""
    name = format_.lower()
    found = [
        plan.sink
        for plan in plans
        if name in (plan.sink.format.lower(), plan.sink.sink) and plan.sink.schema
    ]
    return found[0] if len(found) == 1 and name in _WITH_SCHEMA else None


def _types(sink: SinkPlan) -> dict[str, str]:
    """Return the type of each column; a reader infers the types of partition columns from folder names."""
    return {
        column.name: "" if column.name in sink.partitioned_by else column.type
        for column in sink.schema
    }


def _shown(types: dict[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {types.get(name, _NONE)}".rstrip() for name in names)
