"""
The plan of a query: its inputs, state and outputs, as Spark understands it.

It is taken from the analyzed plan, before any optimization, so that it matches the author's code.
Numbers that Spark assigns in every run (``#123``, random ids) are removed from every text; two runs
of the same code on the same Spark give equal plans. It holds no secrets: options that may hold one
are marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.tree import Expr, Tree
from airflow_streaming.model.plan.variables import StateVariable
from airflow_streaming.model.wire import Record

CAPTURE: Final = 4
"""How plans are recorded now: with trees. Plans recorded in two ways cannot be compared."""
KAFKA: Final = "kafka"
"""The format of Spark's Kafka connector, as source and sink."""
UNREAD_STEP: Final = Expr("?")
"""Of a step in a plan that was recorded as text."""
OPAQUE: Final = "opaque:"
"""Marks a detail that could not be read; it never counts as equal."""
_OWN_VARIABLES: Final = ("$procTimers", "$eventTimers", "$rowCounter_", "$ttl_", "$min_", "$count_")
"""Beginnings of names that Spark 4.3 has as constants (``TimerStateUtils``,
``StateStoreColumnFamilySchemaUtils``, ``TransformWithStateVariableUtils``)."""

# Spark plans a batch by offsets, records them, and reads. After a kill the next driver reads the same offsets
# again. Of Spark's own sources only the socket and the memory of a dead driver cannot return to them.
_REPLAYS: Final = frozenset(
    {"file", "kafka", "rate", "rate-micro-batch", "statestore", "delta", "iceberg", "hudi"}
    | {"kinesis", "aws-kinesis", "pulsar", "eventhubs"}
)
_CANNOT: Final = frozenset({"socket", "textsocket", "memory"})
# The broker hands out records and keeps which ones were acknowledged. An offset in a checkpoint is a count then,
# not a place to read from (KIP-932, SPARK-54321).
_QUEUES: Final = frozenset({"kafka-share"})
_SHARE_GROUP: Final = "share.group"
"""In the name of an option, in small letters, as ``kafka.share.group.id``."""

STEP_KINDS: Final = {
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
"""The kind of step of a node in Spark's plan; the driver describes other nodes in more detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """
    A streaming source, in the order of the plan, which is the order of the offset log.

    :param source: Its name in ``format(...)``, in small letters: ``file``, ``kafka``, ``rate``,
        ``socket``; or the class of any other.
    :param name: The author's name for it (Spark 4.2 and newer); empty without one.
    :param format: Of a file source, the format of the files: ``json``, ``parquet``.
    :param paths: Of a file source, its paths; of Kafka the topics or the pattern.
    :param options: Options with keys in small letters, secrets marked.
    :param inferred: Of a file source, Spark inferred the columns from the existing files, because
        the script has no schema.
    """

    source: str
    name: str = ""
    format: str = ""
    paths: tuple[str, ...] = ()
    schema: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    inferred: bool = False


class SourceReplay(StrEnum):
    """Whether a source can send the rows of a planned batch again."""

    REPLAYS = "replays"
    CANNOT = "cannot"
    QUEUE = "queue"
    """It has no positions: the broker remembers which records were delivered, and the checkpoint does not."""
    UNKNOWN = "unknown"
    """The source is not part of Spark, and neither its plan nor its class says so."""


def replay_of(source: SourcePlan) -> SourceReplay:
    """Return whether a source can send the rows of a planned batch again."""
    if source.source in _QUEUES or any(_SHARE_GROUP in option for option in source.options):
        return SourceReplay.QUEUE
    if source.source in _REPLAYS:
        return SourceReplay.REPLAYS
    return SourceReplay.CANNOT if source.source in _CANNOT else SourceReplay.UNKNOWN


class OperatorKind(StrEnum):
    """The kind of a stateful operator."""

    AGGREGATE = "aggregate"
    SESSION_WINDOW = "session_window"
    DEDUPLICATE = "deduplicate"
    DEDUPLICATE_WITHIN_WATERMARK = "deduplicate_within_watermark"
    JOIN = "join"
    """Of two streams. A join with a table keeps no state and is a step."""
    LIMIT = "limit"
    GROUPS_WITH_STATE = "groups_with_state"
    """``applyInPandasWithState``, ``mapGroupsWithState`` and ``flatMapGroupsWithState``."""
    TRANSFORM_WITH_STATE = "transform_with_state"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """
    A stateful operator; fields of other kinds are empty.

    :param keys: Grouping keys, deduplicated columns, or the left keys of a join.
    :param key_expressions: How each key is computed, e.g. ``window(ts)`` with its length.
    :param values: Aggregates in their order, e.g. ``sum(v)``.
    :param value_types: Type of each aggregate's result.
    :param output_names: Names under which each aggregate continues; a later projection that drops
        them makes Spark drop it from the state, too.
    :param window_us: Length, slide and start of the time window, in microseconds.
    :param gap: Gap of a session window.
    :param join_type: ``inner``, ``left_outer`` and so on.
    :param left: Columns of the left side; ``right`` of the right one.
    :param state_columns: Columns of the state of groups.
    :param variables: Variables of ``transformWithState``, by name, where they are known.
    :param output_columns: Columns of the result of the user's function.
    :param timeout: Timeout of groups with state; ``time_mode`` of ``transformWithState``.
    :param function: Name of the user's function.
    :param code: Fingerprint of the user's function and all that it reaches.
    :param results: The output of an aggregation, e.g. ``(sum(v) + 1) AS total``.
    :param ends: Whether the watermark ends every part of the state, as Spark plans it.
    :param pushed: Filters that the optimized plan applies in front of the state, from any place in
        the script.
    :param run_as: Of a join, its type in the optimized plan.
    """

    sort: OperatorKind
    keys: tuple[Column, ...] = ()
    key_expressions: tuple[Tree, ...] = ()
    values: tuple[Tree, ...] = ()
    value_types: tuple[str, ...] = ()
    output_names: tuple[tuple[str, ...], ...] = ()
    window_us: tuple[int, ...] = ()
    gap: Tree | None = None
    join_type: str = ""
    condition: Tree | None = None
    left: tuple[Column, ...] = ()
    right: tuple[Column, ...] = ()
    state_columns: tuple[Column, ...] = ()
    variables: tuple[StateVariable, ...] = ()
    output_columns: tuple[Column, ...] = ()
    timeout: str = ""
    time_mode: str = ""
    function: str = ""
    code: str = ""
    results: tuple[Tree, ...] = ()
    ends: bool = False
    pushed: tuple[Tree, ...] = ()
    run_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkPlan:
    """
    A watermark.

    :param delay_ms: Milliseconds of lateness that are waited for.
    :param time: How the column is computed, with the number of its source where names are shared.
    """

    column: str
    delay_ms: int
    time: Tree | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """
    A step without state.

    :param step: ``project``, ``filter``, ``generate``, ``map`` (a user's function), ``join``,
        ``table`` (the table in a join with a stream), ``union`` or ``other``.
    :param tree: Its node in Spark's plan with the expressions in it.
    :param below: How many stateful operators are between it and the sink: 0 for a step after all of
        them. The state of an operator depends on the steps below it.
    """

    step: str
    tree: Tree = UNREAD_STEP
    below: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """
    The sink of a query.

    :param sink: ``file``, ``kafka``, ``foreachbatch``, ``foreach``, ``console``, ``memory``,
        ``noop``, ``table``, or the name of any other.
    :param format: Of a file sink, the format of its files.
    :param target: Its path, topic or table, or the name of the called function; empty without one.
    :param options: Options with keys in small letters, secrets marked.
    :param schema: Schema of the rows at the sink.
    :param code: Fingerprint of the function of ``foreach`` or ``foreachBatch``.
    :param reads: Values that this function reads beside its code, as in ``QueryPlan``.
    :param name: The author's name for it in the commits (sink evolution); empty without one.
    :param real_path: Its path resolved through symbolic links or the default file system; empty
        where it equals ``target``.
    :param topics: Of Kafka without the option ``topic``: every topic that the column ``topic`` can
        name by the plan; empty where a row can have any topic.
    """

    sink: str
    format: str = ""
    target: str = ""
    partitioned_by: tuple[str, ...] = ()
    schema: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    real_path: str = ""
    topics: tuple[str, ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    @property
    def possible_topics(self) -> tuple[str, ...]:
        """Return the topics that a Kafka sink can write, by its option or column; empty where unknown."""
        return (self.target,) if self.target else self.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """
    A node of Spark's plan, whole.

    :param node: Its class, e.g. ``Filter``.
    :param below: As of ``StepPlan``; of an operator its own number.
    :param branch: The child at each node with several children, from the sink on, e.g. ``0.1``.
    :param digest: Of the node's whole text, without details of a single run.
    """

    node: str
    below: int = 0
    branch: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan(Record):
    """
    A query of a script.

    :param query: Its name; the folder of its checkpoint where it has none.
    :param spark: Version of the Spark that analyzed it.
    :param output_mode: ``append``, ``update`` or ``complete``.
    :param processing_trigger: As text: ``10 seconds``, ``available now``, ``once``; empty for
        Spark's default, which is as soon as possible.
    :param checkpoint: Location that the script chose; empty without one.
    :param operators: Stateful operators; the first is the one nearest to the sink, which is
        operator 0 of the checkpoint.
    :param steps: Steps without state, the first nearest to the sink.
    :param conf: Configuration that Spark pins in the checkpoint, and that the version gate checks.
    :param notes: Parts of the plan that could not be read. Gates treat them as different.
    :param capture: How the plan was recorded; ``CAPTURE`` now.
    :param nodes: Every node of Spark's plan, in the order from the sink to the sources.
    :param settings: The session's other settings, besides ``conf``, that differ from Spark's
        default.
    :param core: Settings of Spark's core that are set, without those of a deployment; ``None`` in a plan that was
        recorded before they were read.
    :param refusal: Why Spark would refuse to start the query; empty where it would not.
    :param reads: What the Python code in the plan reads beside its text, with a digest each, by a name such
        as ``file rates.json``, ``package numpy`` or ``environment REGION``.
    :param writes: Sinks that its ``foreachBatch`` function has written with Spark's own writers in
        this epoch.
    """

    KIND: ClassVar[str] = "query_plan"

    query: str
    spark: str
    output_mode: str
    sink: SinkPlan
    processing_trigger: str = ""
    checkpoint: str = ""
    sources: tuple[SourcePlan, ...] = ()
    operators: tuple[OperatorPlan, ...] = ()
    watermarks: tuple[WatermarkPlan, ...] = ()
    steps: tuple[StepPlan, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    capture: int = CAPTURE
    nodes: tuple[NodePlan, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    core: Mapping[str, str] | None = None
    refusal: str = ""
    writes: tuple[SinkPlan, ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_stateful(self) -> bool:
        """Tell whether the query keeps state."""
        return bool(self.operators)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSource:
    """
    A source that Spark did not open for the script.

    :param source: The options that the script set; the columns are not known.
    """

    source: SourcePlan
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPlan(Record):
    """
    Every query of a script, in the order in which it starts them.

    :param application: The script, as its author knows it.
    :param spark: Version of the Spark that analyzed it.
    :param problem: Why the script did not finish; earlier queries are in ``queries``.
    :param refused: Sources that Spark did not open, in the order of the script.
    """

    KIND: ClassVar[str] = "script_plan"

    application: str
    spark: str
    queries: tuple[QueryPlan, ...] = ()
    problem: str = ""
    refused: tuple[RefusedSource, ...] = ()

    def query(self, name: str) -> QueryPlan | None:
        return next((plan for plan in self.queries if plan.query == name), None)


def is_of_spark(variable: str) -> bool:
    """
    Tell whether a state variable is one of Spark's own: timers, counters of lists, expiries.

    Any other name with a dollar counts as the user's, so that no variable escapes the gates.
    """
    return variable.startswith(_OWN_VARIABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder(Record):
    """
    The order to plan a script's queries.

    :param result: File for the ``ScriptPlan``; rewritten with every query.
    :param application: Path of the script as its author knows it.
    :param output: Place of the deployment for ``{output}``; ``checkpoint`` likewise.
    """

    KIND: ClassVar[str] = "plan-order"

    result: str
    seconds: float
    application: str
    source: str
    arguments: tuple[str, ...] = ()
    output: str = ""
    checkpoint: str = ""
    held: str = ""
    scratch: str = ""
