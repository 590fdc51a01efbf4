"""The report of a disaster drill: recovery point and recovery time of each stream, the worst first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.recovery import (
    DisasterDrill,
    RecoveryVerdict,
    StreamRecovery,
    recovery_point_seconds,
    worst_first,
)
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Report,
    Tone,
    Verdict,
    Words,
    code,
    counted,
    facts,
    report_of,
    table,
    value,
)

_TONES: Final = {
    RecoveryVerdict.LOST: Tone.BAD,
    RecoveryVerdict.UNPROVEN: Tone.WARNING,
    RecoveryVerdict.RECOVERED: Tone.GOOD,
}


def worst_verdict(found: Sequence[StreamRecovery]) -> RecoveryVerdict:
    """Return the verdict of the whole drill."""
    verdicts = (one.result.verdict for one in found)
    return min(verdicts, key=list(RecoveryVerdict).index, default=RecoveryVerdict.RECOVERED)


def drill_facts(drill: DisasterDrill, found: Sequence[StreamRecovery]) -> dict[str, Any]:
    """Return a drill as JSON, the worst stream first."""
    return {
        "drill": encode(drill),
        "finished": len(found) == len(drill.streams),
        "verdict": worst_verdict(found).value,
        "streams": [
            {
                **encode(one),
                "verdict": one.result.verdict.value,
                "recovery_point_seconds": recovery_point_seconds(drill, one),
                "recovery_seconds": round(one.recovery_seconds, 1),
            }
            for one in worst_first(list(found))
        ],
    }


def drill_report(drill: DisasterDrill, found: Sequence[StreamRecovery]) -> Report:
    """Return a drill for people, the worst stream first."""
    return report_of(_blocks(drill, worst_first(list(found))))


def _blocks(drill: DisasterDrill, found: Sequence[StreamRecovery]) -> Iterator[Block]:
    counts = Counter(one.result.verdict for one in found)
    missing = len(drill.streams) - len(found)
    words = [f"{counts[one]} {one}" for one in RecoveryVerdict if counts[one]]
    verdict = worst_verdict(found)
    yield Heading(f"Disaster drill {drill.number}", 2)
    yield Verdict(
        word=verdict.value if not missing else "unfinished",
        tone=_TONES[verdict] if not missing else Tone.NEUTRAL,
        reason=", ".join([*words, *([f"{missing} not drilled yet"] if missing else [])]),
    )
    yield facts(
        [
            ("Live home", value(drill.home)),
            ("Selector", value(drill.selector)),
            ("Begun", (f"{format_time(drill.at)} by ", value(drill.by))),
        ]
    )
    yield table(
        (
            "stream",
            "verdict",
            "recovery point",
            "recovery time",
            "restore",
            "run",
            "rows",
            "backup",
        ),
        (_row(drill, one) for one in found),
        numbers="recovery point, recovery time, restore, run, rows",
    )
    notes = [note for one in found for note in _notes(one)]
    if notes:
        yield Items(items=tuple(notes))


def _row(drill: DisasterDrill, one: StreamRecovery) -> tuple[Words, ...]:
    age = recovery_point_seconds(drill, one)
    times = (one.recovery_seconds, one.restore_seconds, one.run_seconds)
    return (
        value(one.name),
        one.result.verdict.value,
        "" if age is None else f"{duration_text(age)} before",
        *(duration_text(seconds) if seconds else "" for seconds in times),
        f"{one.rows:,}" if one.batches else "",
        value(one.backup),
    )


def _notes(one: StreamRecovery) -> Iterator[Words]:
    if one.reason:
        what = one.result.value.replace("_", " ")
        yield value(one.name), f": {what}. ", value(one.reason)
    for remark in one.remarks:
        yield value(one.name), ": ", value(remark)
    if one.kept:
        size = counted(one.size, "byte")
        yield value(one.name), f": {size} kept in ", code(one.kept)
