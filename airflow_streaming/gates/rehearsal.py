"""
Results of a rehearsal, as findings of a gate.

It is a record, so that the rehearsing task can pass it to the approval task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of, worst
from airflow_streaming.gates.start_checks.judge import sink_refusals
from airflow_streaming.gates.version.release_rules import SCHEMA_CHECK
from airflow_streaming.model.arguments.accepted import UNPROVED
from airflow_streaming.model.jobs.drill import INPUT_GONE
from airflow_streaming.model.jobs.rehearsal import Ending, RehearsalEvent, Seen
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.failure_signs import Hint, hints
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.plan import KAFKA, QueryPlan, SinkPlan
from airflow_streaming.model.wire import Record

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rehearsal.query_failed": "A query failed on a copy of its checkpoint.",
        "rehearsal.script_failed": "The script failed, and not because one of its queries did.",
        "rehearsal.not_begun": "The rehearsal itself failed before the script had a session.",
        "rehearsal.spark_ended": "The rehearsal's Spark ended before it finished.",
        "rehearsal.no_copy": "No copy of the checkpoints could be made.",
        "rehearsal.out_of_time": "No batch was committed within the time limit.",
        "rehearsal.input_gone": "The input of the batch is no longer there.",
        "rehearsal.no_batch": "The query started, and had no input to process.",
        "rehearsal.no_rows": "The batch that ran again has input by its plan, and read no row.",
        "rehearsal.not_started": "The script does not start a query that has a checkpoint.",
        "rehearsal.new_query": "The script starts a query that has no checkpoint.",
        "rehearsal.sink_refused": "Spark would refuse the sink that the script chose.",
        "rehearsal.topic_missing": "The brokers do not have a topic of a Kafka sink.",
        "rehearsal.topics_unseen": "Each row of a Kafka sink names its topic, so no topic was looked up.",
        "rehearsal.output_schema": "The output has other columns than the running version's.",
        "rehearsal.same": "Over the same batches both versions did the same.",
        "rehearsal.not_revised": "New rows are the new version's; written ones are not revised.",
        "rehearsal.settles": "Rows right after the change mix both versions, later ones do not.",
        "rehearsal.wrong_for_good": "State that never expires mixes both versions.",
        "rehearsal.fails": "The new version failed where the old one got through.",
        "rehearsal.not_compared": "The parts unknown to the gates were not compared.",
        UNPROVED: "A run from scratch does not confirm the rows of a migrated state.",
        "rehearsal.undecided": "The comparison of both versions proves nothing.",
    }
)
"""Every rule of a rehearsal, in a sentence. The source of each is the rehearsal itself."""
_EVIDENCE: Final = "the rehearsal"
_LONGER: Final = (
    "Give more minutes in the form's field 'Rehearsal, minutes at most' (rehearsal_minutes), or in the DAG file: "
    "UpgradeOptions(rehearsal=RehearsalOptions(batches=1, time_limit=timedelta(minutes=30))). On the command line: "
    "'airflow-streaming rehearse --seconds 1800'."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """
    How fast a query runs: medians over batches that read something.

    :param batches: How many batches they were taken from.
    :param input_rows: Rows that a batch reads.
    :param rows_per_second: Rows processed in a second, as Spark tells it.
    :param duration_ms: Whole time of a batch.
    """

    batches: int
    input_rows: float
    rows_per_second: float | None
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedQuery:
    """
    The run of one query.

    :param query: Its name, or the folder of its checkpoint; else empty.
    :param is_new: The checkpoints do not have it; it started on an empty one.
    :param pinned: Newest committed batch of the copy; ``None`` for a new query.
    :param batches: Batches committed in the copy, from ``first_batch`` to ``last_batch``.
    :param replayed: The first of them had been run before, with the same input.
    :param plan_reads: The batch to run again has input by its plan.
    :param has_state: State was loaded and updated; ``state_rows`` is the number of rows.
    :param first_rows: Rows that the first of them read; ``None`` without a batch.
    :param output_rows: Rows that would have been written.
    :param dropped_rows: Rows behind the watermark; ``None`` if no operator counts them.
    :param pace: Its speed; ``live`` is the speed of the running deployment.
    :param columns: The columns at its sink.
    :param sample: Rows of output, values as text, cut and masked.
    :param observed: Numbers from ``df.observe`` of the last batch that had them.
    :param error: Why it failed, in one line.
    """

    query: str
    ending: Ending
    is_new: bool = False
    pinned: int | None = None
    started: bool = False
    batches: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    replayed: bool = False
    plan_reads: bool = False
    has_state: bool = False
    state_rows: int | None = None
    input_rows: int = 0
    first_rows: int | None = None
    output_rows: int = 0
    dropped_rows: int | None = None
    pace: Pace | None = None
    live: Pace | None = None
    columns: tuple[Column, ...] = ()
    sample: tuple[Mapping[str, str], ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed(Record):
    """
    The outcome of a rehearsal.

    :param application: The script, as its author knows it.
    :param spark: Version of the Spark it ran on; empty if it never started.
    :param subject: The checkpoints used, in words: a backup, or copies of live checkpoints.
    :param seconds: Duration, including copying and the start of Spark.
    :param findings: Worst first.
    :param leftovers: Files that could not be removed; usually empty.
    """

    KIND: ClassVar[str] = "rehearsed"

    application: str
    spark: str
    subject: str
    seconds: float
    queries: tuple[RehearsedQuery, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    leftovers: str = ""

    @property
    def decision(self) -> GateDecision:
        return worst(finding.severity for finding in self.findings)

    @property
    def report(self) -> GateReport:
        return report_of(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the decision for readers that know no rules."""
        # The class that slots make is another one than the one a bare super() would look for.
        return {"decision": self.decision.value, **Record.to_dict(self)}


def findings_of(
    queries: Sequence[RehearsedQuery],
    events: Sequence[RehearsalEvent],
    plans: Sequence[QueryPlan],
    *,
    failure: str,
    is_late: bool,
    in_our_code: bool = False,
) -> tuple[GateFinding, ...]:
    """Return all findings, the worst first; see ``judge_rehearsal``."""
    found = [*_of_spark(events, failure, is_late, in_our_code), *_of_script(queries, events)]
    script_failed = any(event.seen is Seen.SCRIPT_FAILED for event in events)
    for query in queries:
        of_query = [event for event in events if event.query == query.query]
        found += _of_query(query, of_query, ended=not failure and not script_failed)
        found += _of_sink(query, of_query, plans, _spark_of(events))
        found += _of_columns(query, queries, plans)
    return report_of(found).findings


def no_copy(why: str) -> GateFinding:
    """Return the finding of a rehearsal that never began."""
    return GateFinding(
        rule="rehearsal.no_copy",
        severity=GateDecision.UNKNOWN,
        message=f"Nothing was rehearsed, because no copy of the checkpoints could be made. {why}",
        evidence=_EVIDENCE,
        remedy="Rehearse on another backup, or repair the cause in the message.",
    )


def _of_spark(
    events: Sequence[RehearsalEvent], failure: str, is_late: bool, in_our_code: bool
) -> Iterator[GateFinding]:
    if failure and not is_late and (in_our_code or not _has_begun(events)):
        yield GateFinding(
            rule="rehearsal.not_begun",
            severity=GateDecision.UNKNOWN,
            message=presentable(f"The rehearsal proves nothing about the new version. {failure}"),
            evidence=_EVIDENCE,
            remedy="Check the error: the runtime, its memory and the scratch folder. Then "
            "rehearse again.",
        )
    elif failure:
        yield GateFinding(
            rule="rehearsal.spark_ended",
            # A query that was too slow has not failed.
            severity=GateDecision.UNKNOWN if is_late else GateDecision.NOT_ALLOWED,
            message=presentable(failure),
            evidence=_EVIDENCE,
            remedy=_LONGER if is_late else "Check the error; raise the memory if it ran out.",
        )


def _of_script(
    queries: Sequence[RehearsedQuery], events: Sequence[RehearsalEvent]
) -> Iterator[GateFinding]:
    # A script that waits for its query fails with it: that is one failure and not two.
    if any(query.ending is Ending.FAILED for query in queries):
        return
    for event in events:
        if event.seen is Seen.SCRIPT_FAILED:
            yield GateFinding(
                rule="rehearsal.script_failed",
                severity=GateDecision.NOT_ALLOWED,
                message=presentable(f"The script failed: {event.text}"),
                evidence=_EVIDENCE,
                remedy=event.remedy
                or (
                    "Fix the script. While rehearsed, it sees AIRFLOW_STREAMING_REHEARSAL=1 in "
                    "its environment."
                ),
            )


def _of_query(
    query: RehearsedQuery, events: Sequence[RehearsalEvent], *, ended: bool
) -> Iterator[GateFinding]:
    shown = f"Query {query.query!r}" if query.query else "The query"
    if query.ending is Ending.FAILED:
        yield _failed(query, shown, events)
        return
    if query.ending is Ending.NOT_STARTED:
        if ended:
            yield _finding(
                "rehearsal.not_started",
                GateDecision.ALLOWED_WITH_CONSEQUENCE,
                query,
                f"{shown} has a checkpoint, and the script does not start it. The deployment "
                "would remove this query.",
                "If the query is to be removed, nothing; else start it under its old name or "
                "checkpoint.",
            )
        return
    if query.is_new:
        yield _finding(
            "rehearsal.new_query",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            query,
            f"{shown} has no checkpoint here. It starts from scratch, without state and position.",
            "If the query is new, nothing; else use the name or the checkpoint that it had.",
        )
    elif query.batches == 0:
        yield _nothing_run(query, shown)
    elif query.plan_reads and query.input_rows == 0:
        yield _finding(
            "rehearsal.no_rows",
            GateDecision.UNKNOWN,
            query,
            f"{shown} read no row, although the plan of batch {query.first_batch} reads some. Spark's file source skips "
            "files that are gone, so the new code may have seen no data.",
            "Rehearse on a newer backup or on the live checkpoint, while its input is there.",
        )


def _spark_of(events: Sequence[RehearsalEvent]) -> str:
    return next((event.text for event in events if event.seen is Seen.SPARK), "")


def _of_sink(
    query: RehearsedQuery,
    events: Sequence[RehearsalEvent],
    plans: Sequence[QueryPlan],
    spark: str,
) -> Iterator[GateFinding]:
    event = next((one for one in events if one.seen is Seen.SINK), None)
    if event is None or event.sink is None or query.ending is Ending.FAILED:
        return
    shown = f"Query {query.query!r}" if query.query else "The query"
    new = QueryPlan(query=query.query, spark=spark, output_mode=event.output_mode, sink=event.sink)
    for refusal in sink_refusals(new, [plan for plan in plans if plan.query == query.query]):
        yield _finding(
            "rehearsal.sink_refused",
            GateDecision.NOT_ALLOWED,
            query,
            f"{shown} would fail at its sink. {refusal.check.says} It has: {refusal.found}.",
            f"Change the sink: {refusal.check.says}",
        )
    yield from _of_topics(query, shown, event.sink, event.subject)


def _of_topics(
    query: RehearsedQuery, shown: str, sink: SinkPlan, missing: str
) -> Iterator[GateFinding]:
    """Judge the topics of a Kafka sink by those that its brokers do not have."""
    if missing:
        named = ", ".join(repr(topic) for topic in missing.split(", "))
        several = "topics" if ", " in missing else "topic"
        yield _finding(
            "rehearsal.topic_missing",
            GateDecision.UNKNOWN,
            query,
            f"{shown} writes to {several} {named}, which its brokers do not have. It fails unless the "
            "brokers create topics automatically.",
            f"Create {several} {named} with partitions before the upgrade, or correct the name.",
        )
    elif _has_topic_column(sink) and not sink.possible_topics:
        yield _finding(
            "rehearsal.topics_unseen",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            query,
            f"{shown} writes each row to the topic of its column topic. Whether the brokers have all these "
            "topics was not checked.",
            "Check that the brokers have every topic that a row can name.",
        )


def _has_topic_column(sink: SinkPlan) -> bool:
    return sink.sink == KAFKA and any(one.name.lower() == "topic" for one in sink.schema)


def _nothing_run(query: RehearsedQuery, shown: str) -> GateFinding:
    if query.ending is Ending.OUT_OF_TIME:
        return _finding(
            "rehearsal.out_of_time",
            GateDecision.UNKNOWN,
            query,
            f"{shown} committed no batch within the time limit.",
            f"{_LONGER} Smaller batches help, too.",
        )
    return _finding(
        "rehearsal.no_batch",
        GateDecision.UNKNOWN,
        query,
        f"{shown} started and ran no batch, because no batch could be replayed and there was no "
        "new input. It is unknown whether it accepts its state.",
        "Rehearse again when its source has new data.",
    )


def _failed(query: RehearsedQuery, shown: str, events: Sequence[RehearsalEvent]) -> GateFinding:
    event = next(event for event in events if event.seen is Seen.FAILED)
    good = f"{query.batches} good batch{'' if query.batches == 1 else 'es'}"
    when = f"after {good}" if query.batches else "in its first batch"
    if not query.started:
        when = "when it was started"
    if event.subject == INPUT_GONE:
        return _finding(
            "rehearsal.input_gone",
            GateDecision.UNKNOWN,
            query,
            f"{shown} lost its input {when}: {event.text}",
            "Rehearse on a newer backup or on the live checkpoint.",
        )
    return _finding(
        "rehearsal.query_failed",
        GateDecision.NOT_ALLOWED,
        query,
        f"{shown} failed {when}: {event.text}",
        _remedy(event),
    )


def _has_begun(events: Sequence[RehearsalEvent]) -> bool:
    return any(event.seen is Seen.SPARK for event in events)


def _remedy(event: RehearsalEvent) -> str:
    other = event.remedy or "Fix the script, or use another method for this change."
    if not hints(event.text, Hint.VALUE_SCHEMA):
        return other
    # The error does not tell nullability from a changed column; the version gate does.
    return (
        "If Spark 3.5 wrote the checkpoint, the query joins two streams and its code is "
        f"unchanged: run it once with {SCHEMA_CHECK}=false, which was measured to work, "
        "and remove the setting after that. `gate version` reports whether this applies. "
        f"Else: {other}"
    )


def _of_columns(
    query: RehearsedQuery, queries: Sequence[RehearsedQuery], plans: Sequence[QueryPlan]
) -> Iterator[GateFinding]:
    plan = next((plan for plan in plans if plan.query == query.query), None)
    if plan is None and len(plans) == 1 and len(queries) == 1 and not query.query:
        plan = plans[0]
    if plan is None or not plan.sink.schema or not query.columns:
        return
    old, new = _shown(plan.sink.schema), _shown(query.columns)
    if old != new:
        yield GateFinding(
            rule="rehearsal.output_schema",
            severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
            message="Readers of the output get other columns from now on.",
            query=query.query,
            old=old,
            new=new,
            evidence=_EVIDENCE,
            remedy="Check that the sink and every reader of it accept them.",
        )


def _shown(columns: Sequence[Column]) -> str:
    # Whether a column may be null changes with Spark's version and means nothing to most sinks.
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _finding(
    rule: str, severity: GateDecision, query: RehearsedQuery, message: str, remedy: str
) -> GateFinding:
    return GateFinding(
        rule=rule,
        severity=severity,
        message=presentable(message),
        query=query.query,
        evidence=_EVIDENCE,
        remedy=remedy,
    )
