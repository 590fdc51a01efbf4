"""Judge the recovery of a stream by the rehearsal on its restored checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rehearsal import Rehearsed, RehearsedQuery
from airflow_streaming.model.jobs.recovery import RecoveryResult
from airflow_streaming.model.jobs.rehearsal import Ending

_RESULTS: Final[Mapping[str, RecoveryResult]] = {
    "rehearsal.input_gone": RecoveryResult.INPUT_GONE,
    "rehearsal.query_failed": RecoveryResult.FAILED,
    "rehearsal.script_failed": RecoveryResult.FAILED,
    "rehearsal.sink_refused": RecoveryResult.FAILED,
    "rehearsal.topic_missing": RecoveryResult.FAILED,
    "rehearsal.not_begun": RecoveryResult.NOT_TRIED,
    "rehearsal.no_copy": RecoveryResult.NOT_TRIED,
    "rehearsal.out_of_time": RecoveryResult.OUT_OF_TIME,
    "rehearsal.not_started": RecoveryResult.NOTHING_RAN,
    "rehearsal.no_batch": RecoveryResult.NOTHING_RAN,
    "rehearsal.no_rows": RecoveryResult.NO_ROWS,
}
"""The gravest one counts, in the order of ``RecoveryResult``."""
_ORDER: Final = tuple(RecoveryResult)
_SHOWN: Final = 3
"""Remarks of one stream; a report is a table of many."""


class Judgment(NamedTuple):
    """The result for a stream, its reason, and further remarks."""

    result: RecoveryResult
    reason: str = ""
    remarks: tuple[str, ...] = ()


def judge(found: Rehearsed, planned: Collection[str] = ()) -> Judgment:
    """
    Return whether the stream reached the present from its restored checkpoints.

    :param planned: Queries whose backup has a planned batch with input, which ran first.
    """
    empty = [one for one in found.queries if one.query in planned and one.first_rows == 0]
    findings = [*((_result(one), one) for one in found.findings), *map(_without_rows, empty)]
    late = [one for one in found.queries if one.ending is Ending.OUT_OF_TIME]
    results = [result for result, _ in findings] + [RecoveryResult.OUT_OF_TIME] * len(late)
    worst = min(results, key=_ORDER.index, default=RecoveryResult.RECOVERED)
    named = next((finding for result, finding in findings if result is worst), None)
    others = tuple(f.message for f in found.findings if f is not named or _is_good(worst))
    if _is_good(worst):
        return Judgment(worst, remarks=others[:_SHOWN])
    if named is not None:
        return Judgment(worst, named.message, others[:_SHOWN])
    names = ", ".join(repr(one.query) for one in late)
    reason = f"The time ended before query {names} had read everything. Give the drill more time."
    return Judgment(worst, reason, others[:_SHOWN])


def _without_rows(query: RehearsedQuery) -> tuple[RecoveryResult, GateFinding]:
    return RecoveryResult.NO_ROWS, GateFinding(
        rule="recovery.no_rows",
        severity=GateDecision.UNKNOWN,
        message=f"Batch {query.first_batch} of query {query.query!r} read no row, although its plan reads some. Its "
        "input may be gone. Compare the retention of the source with the age of the backups.",
        query=query.query,
    )


def _is_good(result: RecoveryResult) -> bool:
    return result is RecoveryResult.RECOVERED


def ran_nothing(found: Rehearsed) -> bool:
    """Tell whether an idle query is the only doubt: a repeated batch can prove its state."""
    idle = [one for one in found.findings if one.rule == "rehearsal.no_batch"]
    return bool(idle) and judge(found).result is RecoveryResult.NOTHING_RAN


def after_replay(found: Rehearsed, replayed: Rehearsed) -> Judgment:
    """Return the judgment of a stream with an idle query, whose newest batch was repeated in a second run."""
    second = judge(replayed)
    if second.result in (RecoveryResult.FAILED, RecoveryResult.RECOVERED):
        return second
    # The repeated batch is older than the backup, so its input need not be there any more.
    first = judge(found)
    return first._replace(remarks=(*first.remarks, second.reason)[:_SHOWN])


def _result(finding: GateFinding) -> RecoveryResult:
    if finding.rule == "rehearsal.spark_ended":
        is_late = finding.severity is GateDecision.UNKNOWN
        return RecoveryResult.OUT_OF_TIME if is_late else RecoveryResult.FAILED
    return _RESULTS.get(finding.rule, RecoveryResult.RECOVERED)
