"""The findings of a rehearsal: what in it speaks against the upgrade, and what nobody can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from airflow_streaming.core.checkpoint.drill import INPUT_GONE
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding, report_of
from airflow_streaming.core.compatibility.version.measured import SCHEMA_CHECK
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.core.plan.plan import Column, QueryPlan
from airflow_streaming.core.rehearsal.order import Ending, RehearsalEvent, Seen
from airflow_streaming.core.rehearsal.rehearsed import RehearsedQuery

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rehearsal.query_failed": "A query failed on a copy of its checkpoint.",
        "rehearsal.script_failed": "The script failed, and not because one of its queries had.",
        "rehearsal.not_begun": "The rehearsal itself failed, or before the script had a session.",
        "rehearsal.spark_ended": "The Spark of the rehearsal ended before it was done.",
        "rehearsal.no_copy": "No copy of the checkpoints could be made.",
        "rehearsal.out_of_time": "No batch was committed in the time that was given.",
        "rehearsal.input_gone": "The input of the batch is no longer there.",
        "rehearsal.no_batch": "The query started, and there was nothing for it to run.",
        "rehearsal.not_started": "The script does not start a query that the checkpoints have.",
        "rehearsal.new_query": "The script starts a query that the checkpoints do not have.",
        "rehearsal.output_schema": "The output has other columns than the running version's.",
    }
)
"""Every rule of a rehearsal, in a sentence. The source of each is the rehearsal itself."""

VALUE_SCHEMA: Final = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"

_EVIDENCE: Final = "the rehearsal"


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
    found = [*_of_the_whole(queries, events, failure, is_late, in_our_code)]
    script_failed = any(event.seen is Seen.SCRIPT_FAILED for event in events)
    for query in queries:
        told = [event for event in events if event.query == query.query]
        found += _of_query(query, told, ended=not failure and not script_failed)
        found += _of_columns(query, queries, plans)
    return report_of(found).findings


def no_copy(why: str) -> GateFinding:
    """Return the finding of a rehearsal that never began."""
    return GateFinding(
        rule="rehearsal.no_copy",
        severity=GateDecision.UNKNOWN,
        message=f"Nothing was rehearsed, because no copy of the checkpoints could be made. {why}",
        evidence=_EVIDENCE,
        remedy="Rehearse on another backup, or repair what the message names.",
    )


def _of_the_whole(
    queries: Sequence[RehearsedQuery],
    events: Sequence[RehearsalEvent],
    failure: str,
    is_late: bool,
    in_our_code: bool,
) -> Iterator[GateFinding]:
    if failure and not is_late and (in_our_code or not _has_begun(events)):
        yield GateFinding(
            rule="rehearsal.not_begun",
            severity=GateDecision.UNKNOWN,
            message=presentable(f"Nothing is shown of the new version. {failure}"),
            evidence=_EVIDENCE,
            remedy="Look at the error: at the runtime, its memory and the place for scratch files. "
            "Then rehearse again.",
        )
    elif failure:
        yield GateFinding(
            rule="rehearsal.spark_ended",
            # What was too slow for its time has not failed.
            severity=GateDecision.UNKNOWN if is_late else GateDecision.NOT_ALLOWED,
            message=presentable(failure),
            evidence=_EVIDENCE,
            remedy="Give it more time."
            if is_late
            else "Look at the error; give it more memory if that is what it lacked.",
        )
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
                or "Correct the script. It can see that it is rehearsed by "
                "AIRFLOW_STREAMING_REHEARSAL=1.",
            )


def _of_query(
    query: RehearsedQuery, told: Sequence[RehearsalEvent], *, ended: bool
) -> Iterator[GateFinding]:
    shown = f"Query {query.query!r}" if query.query else "The query"
    if query.ending is Ending.FAILED:
        yield _failed(query, shown, told)
        return
    if query.ending is Ending.NOT_STARTED:
        if ended:
            yield _finding(
                "rehearsal.not_started",
                GateDecision.ALLOWED_WITH_CONSEQUENCE,
                query,
                f"{shown} has a checkpoint, and the script does not start it. It would run no more.",
                "Nothing, if it is to go; else start it under its old name or checkpoint.",
            )
        return
    if query.is_new:
        yield _finding(
            "rehearsal.new_query",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            query,
            f"{shown} has no checkpoint here. It begins anew, without state and position.",
            "Nothing, if it is new; else give it the name or the checkpoint it had.",
        )
    elif query.batches == 0:
        yield _nothing_run(query, shown)


def _nothing_run(query: RehearsedQuery, shown: str) -> GateFinding:
    if query.ending is Ending.OUT_OF_TIME:
        return _finding(
            "rehearsal.out_of_time",
            GateDecision.UNKNOWN,
            query,
            f"{shown} committed no batch in the time it had.",
            "Rehearse with more time or smaller batches.",
        )
    return _finding(
        "rehearsal.no_batch",
        GateDecision.UNKNOWN,
        query,
        f"{shown} started and ran no batch, because no batch could be run again and there was no "
        "new input. That it takes its state is not shown.",
        "Rehearse again when its source has new data.",
    )


def _failed(query: RehearsedQuery, shown: str, told: Sequence[RehearsalEvent]) -> GateFinding:
    event = next(event for event in told if event.seen is Seen.FAILED)
    good = f"{query.batches} good batch{'' if query.batches == 1 else 'es'}"
    when = f"after {good}" if query.batches else "in its first batch"
    if not query.started:
        when = "when it was started"
    if event.subject == INPUT_GONE:
        return _finding(
            "rehearsal.input_gone",
            GateDecision.UNKNOWN,
            query,
            f"{shown} found its input gone {when}: {event.text}",
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
    other = event.remedy or "Correct the script, or take another way for this change."
    if VALUE_SCHEMA not in event.text:
        return other
    # The error does not tell nullability from a changed column; the version gate does.
    return (
        "If Spark 3.5 wrote the checkpoint, the query joins two streams and its code is the same: "
        f"run it once with {SCHEMA_CHECK}=false, which was measured to work, and take that out "
        f"again. `gate version` tells whether it is that. Else: {other}"
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
            message="Whoever reads the output gets other columns from now on.",
            query=query.query,
            old=old,
            new=new,
            evidence=_EVIDENCE,
            remedy="Make sure that the sink and every reader of it take them.",
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
