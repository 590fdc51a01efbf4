"""
Reading a query's plan from Spark: configuration, sources, and steps that keep no state.

It is done in two parts. ``take`` keeps what a script may change after it has started the query, in
a few milliseconds; ``read_plan`` asks the JVM for the rest, whenever there is time. What a Spark
tells otherwise than expected becomes a note in the plan; reading never fails.

What may change after the start is taken before it, in a few milliseconds. The rest is read and
written by a thread of its own, because the first question to a cold JVM can take a second. Nothing
of it ever disturbs the script: a fault is logged, and the plan is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.plan.checks import refusal_of
from airflow_streaming.driver.plan.expressions import (
    Names,
    Node,
    Origin,
    Wording,
    expressions_in,
    is_window,
    node_fields,
    quoted,
    read_tree,
    short_text,
    time_column,
)
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.operators import (
    Optimised,
    Reader,
    optimised_plan,
    with_kept_columns,
    with_pushed_filters,
)
from airflow_streaming.driver.plan.sources import SOURCES, sources_of
from airflow_streaming.driver.plan.writer_settings import WriterSettings, said_on
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.model.jobs.drill import is_kept_back
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.conf import (
    mask_password,
    parse_spark_version,
    redact,
)
from airflow_streaming.model.spark.plan import (
    CAPTURE,
    Column,
    NodePlan,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StepPlan,
    WatermarkPlan,
    columns_of,
)
from airflow_streaming.model.spark.releases import recorded_settings
from airflow_streaming.model.storage import Store

_STREAMING: Final = "spark.sql.streaming."
_ANSI: Final = "spark.sql.ansi.enabled"
_ZONE: Final = "spark.sql.session.timeZone"
_FIELD, _PAIR = "\x1e", " -> "
_UNREGISTERED: Final = f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled"
"""The state store reads it by itself; without a value Spark does not know it."""


_OF_SQL: Final = "spark.sql."


def read_settings(session: Any) -> dict[str, str]:
    """
    Return what the session sets other than Spark's default, without what ``read_conf`` returns.

    Of a setting that Spark does not define there is no default; it is told as it is. What a short job
    keeps back or sets itself is left out: plan mode and a driver would always differ in it.
    """
    version = parse_spark_version(str(session.version))[:2]
    known = {*recorded_settings(version), _UNREGISTERED}
    java = session._jsparkSession.sessionState().conf().getAllConfs()
    told = str(java.mkString(_FIELD))
    pairs = dict(pair.split(_PAIR, 1) for pair in told.split(_FIELD) if _PAIR in pair)
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


def read_conf(session: Any) -> dict[str, str]:
    """Return the session's values, defaults included; what cannot be read is left out."""
    conf, found = session._jsparkSession.conf(), {}
    for key in recorded_settings(parse_spark_version(str(session.version))[:2]):
        with contextlib.suppress(Exception):  # a vendor's Spark may have dropped it
            found[key] = str(conf.get(key))
    with contextlib.suppress(Exception):
        found[_UNREGISTERED] = str(conf.get(_UNREGISTERED, "false"))
    return redact(found)


_SILENT: Final = frozenset(
    {
        *SOURCES,
        "SubqueryAlias",
        "View",
        "EventTimeWatermark",
        "UpdateEventTimeWatermarkColumn",
        "LocalLimit",
        "CTERelationDef",
        "ResolvedHint",
    }
)
"""Nodes that change no row, or that are told elsewhere: as source, watermark or operator."""
_BY_OTHER_WAYS: Final = frozenset({*SOURCES, "SubqueryAlias", "View", "ResolvedHint"})
"""Nodes that no list of nodes needs: sources are compared by themselves, names change no row."""
_STEPS: Final = {
    "Filter": "filter",
    "Generate": "generate",
    "MapInPandas": "map",
    "MapInArrow": "map",
    "PythonMapInArrow": "map",
    "FlatMapGroupsInPandas": "map",
    "FlatMapGroupsInArrow": "map",
    "MapElements": "map",
    "Join": "join",
    "Union": "union",
}


class Visit(NamedTuple):
    """
    A node of a plan on the way from the sink to the sources.

    :param below: How many stateful operators lie between it and the sink.
    :param branch: Which child was taken at each node of several.
    """

    node: Node
    below: int
    branch: str = ""


def window_times(tree: Node) -> frozenset[str]:
    """Return the ids of the columns that windows are made of."""
    columns = (
        time_column(one)
        for node in tree.walk()
        if node.name in ("Project", "Expand")
        for one in node.all_expressions()
        if is_window(one)
    )
    return frozenset(column.expression_id for column in columns if column is not None)


def step_of(visit: Visit, names: Names, times: frozenset[str]) -> StepPlan | None:
    """
    Return the step that a node without state is, ``None`` of one that says nothing.

    :param times: As ``window_times`` tells them.
    """
    node = visit.node
    if node.name in _SILENT:
        return None
    if node.name == "Project":
        return _projection(visit, names)
    if _belongs_to_window(node, times):
        return None
    said = [names.text(expression) for expression in _telling(node)]
    sort = _STEPS.get(node.name, "other" if node.children else "table")
    if node.name == "Join":
        said.insert(0, node.object("joinType") or "?")
    elif node.name not in _STEPS:
        said.insert(0, node.name)
    text = (", ".join(said) or node.name) + quoted(node_fields(node, names.wording))
    return StepPlan(step=sort, text=short_text(text), below=visit.below)


def node_of(visit: Visit, names: Names, times: frozenset[str]) -> NodePlan | None:
    """
    Return a node whole, ``None`` of one that says nothing by itself.

    What Spark makes for a window is left out: the operator says what the window is.
    """
    node = visit.node
    if node.name in _BY_OTHER_WAYS or _is_of_window(node, times):
        return None
    told = [names.text(one) for one in node.all_expressions()]
    text = "\x1e".join([*told, *node_fields(node, names.wording)])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return NodePlan(node=node.name, below=visit.below, branch=visit.branch, digest=digest)


def _is_of_window(node: Node, times: frozenset[str]) -> bool:
    if node.name == "Project":
        return any(map(is_window, node.expressions("projectList")))
    return _belongs_to_window(node, times)


def _projection(visit: Visit, names: Names) -> StepPlan | None:
    made = visit.node.expressions("projectList")
    # The column of a time window and what stands beside it are of Spark's own making.
    if any(is_window(one) for one in made):
        return None
    text = short_text(", ".join(map(names.text, made)))
    return StepPlan(step="project", text=text, below=visit.below)


def _telling(node: Node) -> Iterator[Node]:
    for field, told in node.fields.items():
        if field not in ("output", "outputAttrs", "generatorOutput"):
            yield from expressions_in(told, Origin(node, field))


def _belongs_to_window(node: Node, times: frozenset[str]) -> bool:
    """Tell whether Spark made it for a window: the rows' copies, or a check of their times."""
    if node.name == "Expand":
        return any(map(is_window, node.all_expressions()))
    condition = node.expression("condition") if node.name == "Filter" else None
    if condition is None:
        return False
    if condition.name == "IsNotNull":
        return condition.children[0].expression_id in times
    return any(one.name == "PreciseTimestampConversion" for one in condition.walk())


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
    said: WriterSettings
    frame: Any
    gateway: Any
    spark: str
    conf: Mapping[str, str]
    default_format: str
    settings: Mapping[str, str] = MappingProxyType({})
    notes: tuple[str, ...] = ()


def take(writer: Any, given: Mapping[str, Any], *, query: str, checkpoint: str) -> Taken:
    """
    Take what has to be known of a query now.

    :param writer: The ``DataStreamWriter`` that starts it.
    :param given: What ``start`` or ``toTable`` was given, by name.
    """
    session = writer._spark
    settings: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    try:
        settings = read_settings(session)
    except Exception as err:  # noqa: BLE001 - a Spark that keeps them elsewhere
        notes = (f"The session's settings could not be read: {type(err).__name__}.",)
    return Taken(
        query=query,
        checkpoint=checkpoint,
        said=said_on(writer).begun(given),
        frame=writer._df._jdf,
        gateway=session.sparkContext._gateway,
        spark=str(session.version),
        conf=read_conf(session),
        default_format=str(session.conf.get(_DEFAULT_FORMAT, "parquet")),
        settings=settings,
        notes=notes,
    )


def read_plan(taken: Taken, variables: Mapping[str, str] | None = None) -> QueryPlan:
    """
    Return the plan of a query.

    :param variables: State of each ``transformWithState`` by the id of its function, where known.
    """
    notes = [*taken.notes]
    mode = taken.said.output_mode.lower() or "append"
    parts = _Parts()
    try:
        parts = _read_parts(taken, mode, variables or {}, notes)
    except Exception as err:  # noqa: BLE001 - whatever a Spark tells otherwise, the query goes on
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
        refusal=refusal,
    )


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


def _read_parts(taken: Taken, mode: str, variables: Mapping[str, str], notes: list[str]) -> _Parts:
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
    optimised = _optimised(taken, plan, wording, notes) if operators else None
    kept = with_kept_columns(operators, optimised, notes)
    return _Parts(
        sources=sources_of(tree, plan, notes),
        operators=with_pushed_filters(kept, optimised, mode, notes),
        watermarks=tuple(_watermarks(tree, hidden, names, taken.gateway)),
        steps=tuple(steps),
        nodes=tuple(nodes),
    )


def _optimised(taken: Taken, plan: Any, wording: Wording, notes: list[str]) -> Optimised | None:
    try:
        return optimised_plan(taken.frame, plan, taken.gateway, wording)
    except Exception as err:  # noqa: BLE001 - an optimiser of a vendor's may want more than a plan
        notes.append(f"The optimised plan could not be read: {type(err).__name__}.")
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
        time = "?" if column is None else names.computed(column, node.children[0])
        yield WatermarkPlan(column=name, delay_ms=int(delay), time=time)


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
        code=said.code,
        options={key: value for key, value in options.items() if key not in _KNOWN_ELSEWHERE},
    )


RETRY_SECONDS: Final = 10.0
"""Rest between two tries to reach a home that is away."""


class PlanKeeper:
    """
    Records the plans of one epoch's queries.

    :param read: Makes a plan of what was taken; asks the JVM.
    :param retry: Seconds to rest when the home is away.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        read: Callable[[Taken], QueryPlan] = read_plan,
        retry: float = RETRY_SECONDS,
    ) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self._read, self._retry = read, retry
        self._faults = ErrorBoundary()
        self._lock = threading.Lock()
        self._waiting: deque[Taken] = deque()
        self._thread: threading.Thread | None = None
        self._finishing = threading.Event()

    def move(self, epoch: int) -> None:
        """Record plans of another epoch from now on."""
        self._epoch = epoch

    @contextlib.contextmanager
    def around(
        self, writer: Any, given: Mapping[str, Any], *, query: str, checkpoint: str
    ) -> Iterator[None]:
        """
        Keep the plan of the query that is started inside, once it has started.

        :param writer: The ``DataStreamWriter``.
        :param given: What ``start`` or ``toTable`` was given, by name.
        :param checkpoint: Location that the script chose; empty when it chose none.
        """
        taken: Taken | None = None
        with self._faults.contained(f"Looking at the plan of query {query!r}"):
            taken = take(writer, given, query=query, checkpoint=checkpoint)
        yield
        if taken is not None:
            self.keep(taken)

    def keep(self, taken: Taken) -> None:
        """Have a plan read and recorded, soon."""
        with self._lock:
            self._waiting.append(taken)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="airflow-streaming-plans", daemon=True
                )
                self._thread.start()

    def finish(self) -> None:
        """Wait until all plans are recorded; a home that is away is tried once more only."""
        self._finishing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            with self._faults.contained(f"Recording the plan of query {taken.query!r}"):
                self._write(self._read(taken))

    def _next(self) -> Taken | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    def _write(self, plan: QueryPlan) -> None:
        path, data = (
            self._layout.place(QueryPlan, epoch=self._epoch, query=plan.query),
            _as_bytes(plan),
        )
        while True:
            try:
                self._store.replace(path, data)
            except HomeUnavailable:
                if self._finishing.is_set():
                    raise
                self._finishing.wait(self._retry)
            else:
                return


def _as_bytes(plan: QueryPlan) -> bytes:
    try:
        return plan.to_bytes()
    except RecordError:
        note = f"Its {len(plan.steps)} steps are too much for a record."
        return replace(plan, steps=(), nodes=(), notes=(*plan.notes, note)).to_bytes()
