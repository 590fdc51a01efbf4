"""What ``airflow-streaming plan`` does, and where a gate's plans come from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.program import runtime_named, script_of
from airflow_streaming.cli.table import NOTHING, columns, printable
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.core.plan.foreign import without_secrets
from airflow_streaming.core.plan.plan import Column, OperatorPlan, QueryPlan, ScriptPlan
from airflow_streaming.core.wire import parse_json
from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.upgrade.plan_mode import plan_script

OK: Final = 0
PROBLEM: Final = 1


def run(arguments: argparse.Namespace) -> int:
    """
    Print a script's plan; exit code 1 when the script came to no end or starts no query.

    :raises StreamingError: the script cannot be read, or Spark not be started.
    """
    planned = planned_script(arguments, arguments.script)
    if arguments.json:
        print(json.dumps(planned.to_dict(), indent=2))
    else:
        print("\n".join(printable(line) for line in _lines(planned)))
    return OK if planned.queries and not planned.problem else PROBLEM


def planned_script(arguments: argparse.Namespace, script: str) -> ScriptPlan:
    """
    Return the plan of a script.

    :raises SpecError: no runtime was named.
    """
    if arguments.runtime is None:
        raise SpecError("Which Spark plans the script? Give --runtime, or --plan with a plan.")
    program = script_of(arguments, script)
    return plan_script(program, runtime_named(arguments.runtime), progress=Told())


def read_planned(path: Path) -> ScriptPlan:
    """
    Read a plan that ``plan --json`` has printed, or one query's of a home.

    :raises SpecError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        why = err.strerror or type(err).__name__
        raise SpecError(f"{path} cannot be read: {why}. Make a plan with `plan --json`.") from err
    try:
        told = parse_json(data)
        if told.get("kind") != QueryPlan.KIND:
            planned = ScriptPlan.from_dict(told)
        else:
            query = QueryPlan.from_dict(told)
            planned = ScriptPlan(application=str(path), spark=query.spark, queries=(query,))
    except RecordError as err:
        why = str(err).rstrip(".")
        raise SpecError(f"{path} is not a plan: {why}. Make one with `plan --json`.") from err
    queries = tuple(map(without_secrets, planned.queries))
    return replace(planned, queries=queries, problem=presentable(planned.problem))


def _lines(planned: ScriptPlan) -> Iterator[str]:
    number = len(planned.queries)
    count = "1 query" if number == 1 else f"{number or 'no'} queries"
    yield f"{planned.application} on Spark {planned.spark}: {count}"
    if not number and not planned.problem:
        yield "  The script starts no query. It may do so for other arguments than it was given."
    if planned.problem:
        yield f"  The script came to no end: {planned.problem}"
    for query in planned.queries:
        yield ""
        yield f"{query.query}"
        yield from (f"  {line}" for line in columns(_facts(query), gap=3))


def _facts(query: QueryPlan) -> Iterator[tuple[str, str]]:
    sink = query.sink
    yield "writes", " ".join(filter(None, [sink.sink, sink.format, sink.target]))
    yield "output mode", query.output_mode
    yield "processing trigger", query.processing_trigger or NOTHING
    yield "columns", _columns(sink.schema)
    for number, source in enumerate(query.sources):
        told = [source.source, source.name, source.format, *source.paths]
        yield f"source {number}", " ".join(filter(None, told))
    for number, operator in enumerate(query.operators):
        yield f"operator {number}", _operator(operator)
    for mark in query.watermarks:
        yield "watermark", f"{mark.column}, {mark.delay_ms} ms late"
    for note in query.notes:
        yield "note", note


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
    return ", ".join(f"{column.name} {column.type}" for column in schema) or NOTHING
