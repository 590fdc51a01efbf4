"""
Reading a query's plan: from what the script said and from Spark's analysed plan to ``QueryPlan``.

It is done in two parts. ``take`` keeps what a script may change after it has started the query, in
a few milliseconds; ``read_plan`` asks the JVM for the rest, whenever there is time. What a Spark
tells otherwise than expected becomes a note in the plan; reading never fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from airflow_streaming.core.conf import mask_password, redact
from airflow_streaming.core.plan.plan import (
    Column,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StepPlan,
    WatermarkPlan,
)
from airflow_streaming.core.plan.types import columns_of
from airflow_streaming.driver.faults import logger
from airflow_streaming.driver.plan.conf import read_conf
from airflow_streaming.driver.plan.joins import with_kept_columns
from airflow_streaming.driver.plan.names import Names
from airflow_streaming.driver.plan.operators import Reader
from airflow_streaming.driver.plan.said import Said, said_on
from airflow_streaming.driver.plan.sources import sources_of
from airflow_streaming.driver.plan.steps import Visit, step_of, window_times
from airflow_streaming.driver.plan.tree import Node, read_tree

_NOT_FILES: Final = frozenset({"foreach", "foreachbatch", "console", "memory", "noop", "kafka"})
_FILES: Final = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
_KNOWN_ELSEWHERE: Final = frozenset({"checkpointlocation", "path", "topic", "queryname"})
_DEFAULT_FORMAT: Final = "spark.sql.sources.default"


class Taken(NamedTuple):
    """
    A query as the script is about to start it.

    :param analysed: Its analysed plan, in the JVM; it never changes.
    """

    query: str
    checkpoint: str
    said: Said
    frame: Any
    gateway: Any
    spark: str
    conf: Mapping[str, str]
    default_format: str


def take(writer: Any, given: Mapping[str, Any], *, query: str, checkpoint: str) -> Taken:
    """
    Take what has to be known of a query now.

    :param writer: The ``DataStreamWriter`` that starts it.
    :param given: What ``start`` or ``toTable`` was given, by name.
    """
    session = writer._spark
    return Taken(
        query=query,
        checkpoint=checkpoint,
        said=said_on(writer).begun(given),
        frame=writer._df._jdf,
        gateway=session.sparkContext._gateway,
        spark=str(session.version),
        conf=read_conf(session),
        default_format=str(session.conf.get(_DEFAULT_FORMAT, "parquet")),
    )


def read_plan(taken: Taken, variables: Mapping[str, str] | None = None) -> QueryPlan:
    """
    Return the plan of a query.

    :param variables: State of each ``transformWithState`` by the id of its function, where known.
    """
    notes: list[str] = []
    mode = taken.said.output_mode.lower() or "append"
    parts = _Parts()
    try:
        parts = _read_parts(taken, mode, variables or {}, notes)
    except Exception as err:  # noqa: BLE001 - whatever a Spark tells otherwise, the query goes on
        logger.warning("The plan of query %r could not be read: %r", taken.query, err)
        notes.append(f"The plan could not be read: {type(err).__name__}.")
    return QueryPlan(
        query=taken.query,
        spark=taken.spark,
        output_mode=mode,
        sink=_sink(taken, notes),
        processing_trigger=taken.said.processing_trigger,
        checkpoint=mask_password(taken.checkpoint),
        sources=parts.sources,
        operators=parts.operators,
        watermarks=parts.watermarks,
        steps=parts.steps,
        conf=taken.conf,
        notes=tuple(notes),
    )


class _Parts(NamedTuple):
    sources: tuple[SourcePlan, ...] = ()
    operators: tuple[OperatorPlan, ...] = ()
    watermarks: tuple[WatermarkPlan, ...] = ()
    steps: tuple[StepPlan, ...] = ()


def _read_parts(taken: Taken, mode: str, variables: Mapping[str, str], notes: list[str]) -> _Parts:
    plan = taken.frame.queryExecution().analyzed()
    tree = read_tree(plan.toJSON())
    names = Names(tree)
    reader = Reader(plan, names, output_mode=mode, variables=variables)
    times = window_times(tree)
    operators, steps = [], []
    for node, below in _visits(tree, reader):
        if isinstance(below, OperatorPlan):
            operators.append(below)
        elif (step := step_of(Visit(node, below), names, times)) is not None:
            steps.append(step)
    return _Parts(
        sources=sources_of(tree, plan, notes),
        operators=with_kept_columns(operators, taken.frame, plan, notes),
        watermarks=tuple(_watermarks(tree, plan, taken.gateway)),
        steps=tuple(steps),
    )


def _visits(tree: Node, reader: Reader) -> Iterator[tuple[Node, int | OperatorPlan]]:
    """Go from the sink to the sources; each node is an operator, or a step below so many."""
    common = {
        node.fields.get("id"): node.children[0]
        for node in tree.walk()
        if node.name == "CTERelationDef" and node.children
    }
    waiting = [Visit(tree, 0)]
    while waiting:
        node, below = waiting.pop()
        if node.name == "WithCTE":
            waiting.append(Visit(_main(node), below))
        elif node.name == "CTERelationRef" and node.fields.get("cteId") in common:
            waiting.append(Visit(common[node.fields["cteId"]], below))
        else:
            operator = reader.read(node)
            yield node, below if operator is None else operator
            inner = below + (operator is not None)
            waiting.extend(Visit(child, inner) for child in reversed(node.children))


def _main(node: Node) -> Node:
    definitions = [child for child in node.children if child.name != "CTERelationDef"]
    return definitions[-1]


def _watermarks(tree: Node, plan: Any, gateway: Any) -> Iterator[WatermarkPlan]:
    marks = [node for node in tree.walk() if node.name == "EventTimeWatermark"]
    if not marks:
        return
    delays = gateway.jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    for node in marks:
        column = node.expression("eventTime")
        delay = delays.getDelayMs(plan.apply(node.index).delay())
        name = "?" if column is None else str(column.fields.get("name", "?"))
        yield WatermarkPlan(column=name, delay_ms=int(delay))


def _sink(taken: Taken, notes: list[str]) -> SinkPlan:
    said = taken.said
    form = (said.format or taken.default_format).lower()
    options = dict(redact(said.options))
    target = said.table or said.path or said.options.get("path", "")
    sink = "table" if said.table else form if form in _NOT_FILES else "file"
    if sink == "file" and form not in _FILES:
        sink = said.format if "." in said.format else form
    if sink == "kafka":
        target = said.options.get("topic", "")
    elif said.function:
        target = said.function
    schema: tuple[Column, ...] = ()
    try:
        schema = columns_of(json.loads(taken.frame.schema().json()))
    except Exception as err:  # noqa: BLE001 - as above
        notes.append(
            f"The columns that arrive at the sink could not be read: {type(err).__name__}."
        )
    return SinkPlan(
        sink=sink,
        format=form if sink in ("file", "table") else "",
        target=mask_password(target),
        partitioned_by=said.partitioned_by,
        schema=schema,
        options={key: value for key, value in options.items() if key not in _KNOWN_ELSEWHERE},
    )
