"""The report of a script's plan: every query that it would start."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_streaming.model.spark.plan import Column, OperatorPlan, QueryPlan, ScriptPlan
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Paragraph,
    Report,
    Words,
    counted,
    facts,
    report_of,
    value,
)


def plan_report(planned: ScriptPlan) -> Report:
    """Return the plan of a script."""
    return report_of(_blocks(planned))


def _blocks(planned: ScriptPlan) -> Iterator[Block]:
    number = len(planned.queries)
    queries = counted(number, "query", "queries") if number else "no queries"
    yield Paragraph((value(planned.application), f" on Spark {planned.spark}: {queries}"))
    if planned.problem:
        yield Paragraph(("The script did not finish: ", value(planned.problem)))
    elif not number:
        yield Paragraph(
            "The script starts no query. It may do so for other arguments than it was given."
        )
    for query in planned.queries:
        yield Heading(value(query.query))
        yield facts(_facts(query))


def _facts(query: QueryPlan) -> Iterator[tuple[Words, Words]]:
    sink = query.sink
    yield "writes", _values(sink.sink, sink.format, sink.target)
    yield "output mode", value(query.output_mode)
    yield "processing trigger", value(query.processing_trigger)
    yield "columns", value(_columns(sink.schema))
    for number, source in enumerate(query.sources):
        yield f"source {number}", _values(source.source, source.name, source.format, *source.paths)
    for number, operator in enumerate(query.operators):
        yield f"operator {number}", value(_operator(operator))
    for mark in query.watermarks:
        yield "watermark", value(f"{mark.column}, {mark.delay_ms} ms late")
    for note in query.notes:
        yield "note", note


def _values(*told: str) -> Words:
    return value(" ".join(filter(None, told)))


def _operator(operator: OperatorPlan) -> str:
    told = [
        operator.sort.value,
        operator.join_type,
        ", ".join(operator.key_expressions),
        ", ".join(operator.values),
        operator.state_schema,
    ]
    return "; ".join(filter(None, told))


def _columns(schema: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
