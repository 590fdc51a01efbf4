"""
Reading a query's plan from Spark: configuration, sources, steps and operators together.

It works in two parts. ``take`` copies values that a script may change after the start, in a few
milliseconds; ``read_plan`` asks the JVM for the rest later. An unexpected form of a Spark release
becomes a note in the plan; reading never fails.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.output_places.sink_target import default_fs, resolved
from airflow_streaming.driver.plan.checks import FILES, refusal_of
from airflow_streaming.driver.plan.columns import Names, window_times
from airflow_streaming.driver.plan.expressions import Wording
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.driver.plan.operators import Reader, Variables
from airflow_streaming.driver.plan.optimized import (
    Optimized,
    optimized_plan,
    with_kept_columns,
    with_pushed_filters,
)
from airflow_streaming.driver.plan.session_world import merged, reads_in_session, reads_of_source
from airflow_streaming.driver.plan.sources import sources_of
from airflow_streaming.driver.plan.steps import Visit, node_of, step_of
from airflow_streaming.driver.plan.writer_settings import WriterSettings, said_on
from airflow_streaming.model.jobs.drill import is_kept_back
from airflow_streaming.model.plan.core_settings import recorded_core
from airflow_streaming.model.plan.schema import Column, columns_of
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.plan import (
    CAPTURE,
    OPAQUE,
    NodePlan,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StepPlan,
    WatermarkPlan,
)
from airflow_streaming.model.spark.releases import recorded_settings
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import mask_password

_STREAMING: Final = "spark.sql.streaming."
_ANSI: Final = "spark.sql.ansi.enabled"
_ZONE: Final = "spark.sql.session.timeZone"
_FIELD, _PAIR = "\x1e", " -> "
_UNREGISTERED: Final = f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled"
"""The state store reads it itself; without a value Spark does not know it."""

_OF_SQL: Final = "spark.sql."

_NOT_FILES: Final = frozenset({"foreach", "foreachbatch", "console", "memory", "noop", "kafka"})
_KNOWN_ELSEWHERE: Final = frozenset({"checkpointlocation", "path", "queryname"})
_DEFAULT_FORMAT: Final = "spark.sql.sources.default"


def read_settings(session: Any) -> dict[str, str]:
    """
    Return the session's settings other than Spark's defaults, without the result of ``read_conf``.

    A setting that Spark does not define has no default and is returned as it is. Settings that a
    short job withholds or sets itself are left out: plan mode and a driver would always differ in
    them.
    """
    version = parse_spark_version(str(session.version))[:2]
    known = {*recorded_settings(version), _UNREGISTERED}
    java = session._jsparkSession.sessionState().conf().getAllConfs()
    text = str(java.mkString(_FIELD))
    pairs = dict(pair.split(_PAIR, 1) for pair in text.split(_FIELD) if _PAIR in pair)
    internal = session._jvm.org.apache.spark.sql.internal
    entries = getattr(getattr(internal, "SQLConf$"), "MODULE$")
    found = {}
    for key in sorted(pairs):
        if not key.startswith(_OF_SQL) or key in known or is_kept_back(key):
            continue
        entry = None
        with contextlib.suppress(Exception):  # a key that this Spark does not define
            entry = entries.getConfigEntry(key)
        if entry is None or str(entry.defaultValueString()) != pairs[key]:
            found[key] = pairs[key]
    return redact(found)


def read_core(session: Any) -> dict[str, str]:
    """Return the settings of Spark's core that are set, without those of a deployment and those of short jobs."""
    pairs = session.sparkContext.getConf().getAll()
    return redact({key: value for key, value in recorded_core(pairs) if not is_kept_back(key)})


def read_conf(session: Any) -> dict[str, str]:
    """Return the session's values, defaults included; what cannot be read is left out."""
    conf, found = session._jsparkSession.conf(), {}
    for key in recorded_settings(parse_spark_version(str(session.version))[:2]):
        with contextlib.suppress(Exception):  # a vendor's Spark may have dropped it
            found[key] = str(conf.get(key))
    with contextlib.suppress(Exception):
        found[_UNREGISTERED] = str(conf.get(_UNREGISTERED, "false"))
    return redact(found)


class Taken(NamedTuple):
    """
    A query as the script is about to start it.

    :param analyzed: Its analyzed plan, in the JVM; it never changes.
    """

    query: str
    checkpoint: str
    said: WriterSettings
    frame: Any
    gateway: Any
    spark: str
    conf: Mapping[str, str]
    default_format: str
    settings: Mapping[str, str] = MappingProxyType({})
    core: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    default_fs: str = "file:///"
    reads: Mapping[str, str] = MappingProxyType({})


def default_format(session: Any) -> str:
    """Return the format of a reader or writer that names none."""
    return str(session.conf.get(_DEFAULT_FORMAT, "parquet"))


def take(writer: Any, given: Mapping[str, Any], *, query: str, checkpoint: str) -> Taken:
    """
    Copy a query's volatile values now.

    :param writer: The ``DataStreamWriter`` that starts it.
    :param given: The arguments of ``start`` or ``toTable``, by name.
    """
    session = writer._spark
    settings: Mapping[str, str] = {}
    core: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    try:
        settings, core = read_settings(session), read_core(session)
    except Exception as err:  # noqa: BLE001 - a Spark that keeps them elsewhere
        notes = (f"The session's settings could not be read: {type(err).__name__}.",)
    writer_settings = said_on(writer).begun(given)
    return Taken(
        query=query,
        checkpoint=checkpoint,
        said=writer_settings,
        frame=writer._df._jdf,
        gateway=session.sparkContext._gateway,
        spark=str(session.version),
        conf=read_conf(session),
        default_format=default_format(session),
        settings=settings,
        core=core,
        notes=notes,
        default_fs=default_fs(session.sparkContext),
        reads=_reads_of_sink(session, writer_settings),
    )


def read_plan(taken: Taken, variables: Variables | None = None) -> QueryPlan:
    """
    Return the plan of a query.

    :param variables: State of each ``transformWithState`` by the id of its function, where known.
    """
    notes = [*taken.notes]
    mode = taken.said.output_mode.lower() or "append"
    parts = _Parts()
    try:
        parts = _read_parts(taken, mode, variables or {}, notes)
    except Exception as err:  # noqa: BLE001 - the query continues after any error
        logger.warning("The plan of query %r could not be read: %r", taken.query, err)
        notes.append(f"The plan could not be read: {type(err).__name__}.")
    sink = _sink(taken, notes)
    refusal = _refusal(taken, mode, sink, notes)
    return QueryPlan(
        query=taken.query,
        spark=taken.spark,
        output_mode=mode,
        sink=sink,
        processing_trigger=taken.said.processing_trigger,
        checkpoint=mask_password(taken.checkpoint),
        sources=parts.sources,
        operators=parts.operators,
        watermarks=parts.watermarks,
        steps=parts.steps,
        conf=taken.conf,
        notes=tuple(notes),
        capture=CAPTURE,
        nodes=parts.nodes,
        settings=taken.settings,
        core=taken.core,
        refusal=refusal,
        reads=parts.reads,
    )


def sink_of(settings: WriterSettings, usual_format: str) -> SinkPlan:
    """
    Return where a writer writes, without the columns that arrive there.

    :param usual_format: See ``default_format``.
    """
    form = (settings.format or usual_format).lower()
    target = settings.table or settings.path or settings.options.get("path", "")
    sink = "table" if settings.table else form if form in _NOT_FILES else "file"
    if sink == "file" and form not in FILES:
        sink = settings.format if "." in settings.format else form
    if sink == "kafka":
        target = settings.options.get("topic", "")
    elif sink == "memory":
        target = settings.name
    elif settings.function:
        target = settings.function
    # A sink of any other format names its topic, e.g. a Python data source, by an option of its own.
    elsewhere = _KNOWN_ELSEWHERE | ({"topic"} if sink == "kafka" else set())
    options = dict(redact(settings.options))
    return SinkPlan(
        sink=sink,
        format=form if sink in ("file", "table") else "",
        target=mask_password(target),
        partitioned_by=settings.partitioned_by,
        code=settings.closure.code,
        name=settings.sink_name,
        options={key: value for key, value in options.items() if key not in elsewhere},
    )


def sink_of_writer(writer: Any, settings: WriterSettings) -> SinkPlan:
    """
    Return where a writer writes, without the columns that arrive there.

    A place that cannot be resolved stays as the script spells it.
    """
    session = writer._spark
    sink = sink_of(settings, default_format(session))
    with contextlib.suppress(Exception):
        return resolved(sink, writer._df._jdf, default_fs(session.sparkContext))
    return sink


def _reads_of_sink(session: Any, settings: WriterSettings) -> dict[str, str]:
    if not settings.closure.code:
        return merged(dict(reads_of_source(settings.format)))
    try:
        return merged(settings.closure.pieces, dict(reads_in_session(session, settings.closure)))
    except Exception as err:  # noqa: BLE001 - a Spark that keeps its catalog elsewhere
        return merged(settings.closure.pieces, {"session": f"{OPAQUE} {type(err).__name__}"})


def _refusal(taken: Taken, mode: str, sink: SinkPlan, notes: list[str]) -> str:
    try:
        return refusal_of(
            taken.frame,
            taken.gateway,
            mode=mode,
            sink=sink.sink,
            form=sink.format,
            partitioned_by=sink.partitioned_by,
            trigger=taken.said.processing_trigger,
            options=taken.said.options,
            notes=notes,
        )
    except Exception as err:  # noqa: BLE001 - as above
        notes.append(f"Spark's own checks could not be made: {type(err).__name__}.")
        return ""


class _Parts(NamedTuple):
    sources: tuple[SourcePlan, ...] = ()
    operators: tuple[OperatorPlan, ...] = ()
    watermarks: tuple[WatermarkPlan, ...] = ()
    steps: tuple[StepPlan, ...] = ()
    nodes: tuple[NodePlan, ...] = ()
    reads: Mapping[str, str] = MappingProxyType({})


def _read_parts(taken: Taken, mode: str, variables: Variables, notes: list[str]) -> _Parts:
    plan = taken.frame.queryExecution().analyzed()
    tree = read_tree(plan.toJSON())
    ansi = {"true": True, "false": False}.get(taken.conf.get(_ANSI, ""))
    hidden = Hidden(plan, taken.gateway, ansi).placed(tree)
    wording = Wording(hidden=hidden, ansi=ansi, zone=taken.conf.get(_ZONE, ""))
    names = Names(tree, wording)
    reader = Reader(hidden, names, output_mode=mode, variables=variables)
    times = window_times(tree)
    operators, steps, nodes = [], [], []
    for visit, operator in _visits(tree, reader):
        if operator is not None:
            operators.append(operator)
        elif (step := step_of(visit, names, times)) is not None:
            steps.append(step)
        if (node := node_of(visit, names, times)) is not None:
            nodes.append(node)
    optimized = _optimized(taken, plan, wording, notes) if operators else None
    kept = with_kept_columns(operators, optimized, notes)
    sources = sources_of(tree, plan, notes)
    return _Parts(
        sources=sources,
        operators=with_pushed_filters(kept, optimized, mode, notes),
        watermarks=tuple(_watermarks(tree, hidden, names, taken.gateway)),
        steps=tuple(steps),
        reads=merged(hidden.reads, *(dict(reads_of_source(one.source)) for one in sources)),
        nodes=tuple(nodes),
    )


def _optimized(taken: Taken, plan: Any, wording: Wording, notes: list[str]) -> Optimized | None:
    try:
        return optimized_plan(taken.frame, plan, taken.gateway, wording)
    except Exception as err:  # noqa: BLE001 - an optimizer of a vendor's may want more than a plan
        notes.append(f"The optimized plan could not be read: {type(err).__name__}.")
        return None


def _visits(tree: Node, reader: Reader) -> Iterator[tuple[Visit, OperatorPlan | None]]:
    """Go from the sink to the sources; each node is an operator, or a step below so many."""
    common = {
        node.fields.get("id"): node.children[0]
        for node in tree.walk()
        if node.name == "CTERelationDef" and node.children
    }
    waiting = [Visit(tree, 0)]
    while waiting:
        visit = waiting.pop()
        node, below, branch = visit
        if node.name == "WithCTE":
            waiting.append(visit._replace(node=_main(node)))
        elif node.name == "CTERelationRef" and node.fields.get("cteId") in common:
            waiting.append(visit._replace(node=common[node.fields["cteId"]]))
        else:
            operator = reader.read(node)
            yield visit, operator
            inner = below + (operator is not None)
            # Branches are counted from the operator on, so that one more join behind it moves nothing.
            branch = branch if operator is None else ""
            several = len(node.children) > 1
            places = reversed([*enumerate(node.children)])
            waiting.extend(
                Visit(child, inner, f"{branch}.{place}" if several else branch)
                for place, child in places
            )


def _main(node: Node) -> Node:
    definitions = [child for child in node.children if child.name != "CTERelationDef"]
    return definitions[-1]


def _watermarks(tree: Node, plan: Hidden, names: Names, gateway: Any) -> Iterator[WatermarkPlan]:
    marks = [node for node in tree.walk() if node.name == "EventTimeWatermark"]
    if not marks:
        return
    delays = gateway.jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    for node in marks:
        column = node.expression("eventTime")
        delay = delays.getDelayMs(plan.at(node).delay())
        name = "?" if column is None else str(column.fields.get("name", "?"))
        time = None if column is None else names.computed(column, node.children[0])
        yield WatermarkPlan(column=name, delay_ms=int(delay), time=time)


def _sink(taken: Taken, notes: list[str]) -> SinkPlan:
    schema: tuple[Column, ...] = ()
    try:
        schema = columns_of(json.loads(taken.frame.schema().json()))
    except Exception as err:  # noqa: BLE001 - as above
        notes.append(
            f"The columns that arrive at the sink could not be read: {type(err).__name__}."
        )
    sink = replace(sink_of(taken.said, taken.default_format), schema=schema, reads=taken.reads)
    try:
        return resolved(sink, taken.frame, taken.default_fs)
    except Exception as err:  # noqa: BLE001 - as above
        notes.append(f"The place of the sink could not be resolved: {type(err).__name__}.")
        return sink
