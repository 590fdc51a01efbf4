"""A soak judges by what the new deployment does, never by its having started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.changes.judging.soak import (
    SoakBaseline,
    SoakFigures,
    SoakVerdict,
    judge_soak,
)
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.health_rules import Finding, HealthRules, RuleState, Severity
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.progress import SourceProgress
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_batch,
    a_query,
    a_status,
    an_exit,
    minutes,
    observed,
)

TERMS: Final = SoakTerms(batches=3, at_least=minutes(2), at_most=minutes(15))
SHORT, ENOUGH, LONG = minutes(1), minutes(3), minutes(16)


def status(*queries: Any, **changes: Any) -> Any:
    return a_status(queries=queries or (a_query(batches=5),), **changes)


def backlogs(*amounts: float, unit: str = "records") -> tuple[Any, ...]:
    """Return batches of 100 rows after each of which so much was left."""
    return tuple(
        a_batch(
            input_rows=100,
            sources=(SourceProgress(source="orders", **{f"backlog_{unit}": amount}),),
        )
        for amount in amounts
    )


def rows(*read: int, wrote: int | None = None, offsets: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Return batches that read and wrote so many rows each."""
    ends = offsets or ("1",) * len(read)
    return tuple(
        a_batch(
            input_rows=count,
            output_rows=wrote,
            sources=(SourceProgress(source="orders", end_offset=end),),
        )
        for count, end in zip(read, ends, strict=True)
    )


def late(severity: Severity) -> Finding:
    return Finding(
        rule="late",
        state=RuleState.FIRING,
        severity=severity,
        query="revenue",
        reason="It is late.",
        figure=1.0,
        bound=0.5,
        since=NOW,
    )


WELL: Final = observed(status=status())
FEW: Final = observed(status=status(a_query(batches=2)))
IDLE_QUERY: Final = a_query(
    name="refunds", batches=0, processing=False, data_available=False, committed_ago_s=60.0
)
IDLE: Final = observed(status=status(IDLE_QUERY))
QUIET: Final = observed(
    status=status(a_query(batches=1, processing=False, data_available=False, committed_ago_s=60.0))
)
BREATHES: Final = observed(
    status=status(a_query(batches=2, processing=False, data_available=False, committed_ago_s=1.0))
)
LATE: Final = observed(status=status(), findings=(late(Severity.ALERT),))

TABLE: Final[dict[str, tuple[Observation | None, timedelta, dict[str, Any], str]]] = {
    "it worked long enough": (WELL, ENOUGH, {}, "good"),
    "it worked well, but not for long": (WELL, SHORT, {}, "undecided"),
    "by its own clock it has not worked for long": (
        observed(status=status(started_at=NOW - SHORT, first_progress_at=None)),
        ENOUGH,
        {},
        "undecided",
    ),
    "its first batch took most of the time": (
        observed(status=status(first_progress_at=NOW - SHORT)),
        ENOUGH,
        {},
        "undecided",
    ),
    "too few batches": (FEW, ENOUGH, {}, "undecided"),
    "too few batches to the end": (FEW, LONG, {}, "bad"),
    "nothing to read": (IDLE, ENOUGH, {}, "undecided"),
    "nothing to read to the end": (IDLE, LONG, {}, "unproved"),
    "batches without a row": (WELL, ENOUGH, {"batches": rows(0, 0)}, "undecided"),
    "batches without a row to the end": (WELL, LONG, {"batches": rows(0, 0)}, "unproved"),
    "batches whose source moves and counts no rows": (
        WELL,
        ENOUGH,
        {"batches": rows(0, 0, offsets=("1", "2"))},
        "good",
    ),
    "rows of timers alone": (WELL, ENOUGH, {"batches": rows(0, 0, wrote=3)}, "good"),
    "it writes, as before": (
        WELL,
        ENOUGH,
        {"batches": rows(9, 9, wrote=3), "wrote": {"revenue": 7}},
        "good",
    ),
    "it drops each row": (
        WELL,
        ENOUGH,
        {"batches": rows(9, 9, wrote=0), "wrote": {"revenue": 7}},
        "undecided",
    ),
    "it drops each row to the end": (
        WELL,
        LONG,
        {"batches": rows(9, 9, wrote=0), "wrote": {"revenue": 7}},
        "unproved",
    ),
    "nothing was written before either": (
        WELL,
        ENOUGH,
        {"batches": rows(9, 9, wrote=0), "wrote": {"revenue": 0}},
        "good",
    ),
    "what it writes is unknown": (
        WELL,
        ENOUGH,
        {"batches": rows(9, 9), "wrote": {"revenue": 7}},
        "good",
    ),
    "nothing more to read": (QUIET, ENOUGH, {}, "good"),
    "one of two queries has nothing to read": (
        observed(status=status(a_query(batches=5), IDLE_QUERY)),
        ENOUGH,
        {},
        "undecided",
    ),
    "a moment between two batches is not idle": (BREATHES, ENOUGH, {}, "undecided"),
    "no sign of life": (observed(status=None), ENOUGH, {}, "undecided"),
    "no sign of life to the end": (observed(status=None), LONG, {}, "bad"),
    "no query was started": (observed(status=a_status(queries=())), LONG, {}, "bad"),
    "one of two queries was not started": (
        WELL,
        LONG,
        {"terms": SoakTerms(queries=("revenue", "refunds"))},
        "bad",
    ),
    "it failed": (observed(ProcessState.GONE, exit=an_exit()), SHORT, {}, "bad"),
    "it was killed": (observed(ProcessState.GONE), SHORT, {}, "bad"),
    "it hangs": (observed(silent_for=minutes(1)), SHORT, {}, "bad"),
    "its query failed and the driver lives on": (
        observed(status=status(a_query(active=False, error="a bad row"))),
        SHORT,
        {},
        "bad",
    ),
    "its query ended": (observed(status=status(a_query(active=False))), LONG, {}, "bad"),
    "a rule asks for a restart": (
        observed(status=status(), findings=(late(Severity.RESTART),)),
        SHORT,
        {},
        "bad",
    ),
    "a rule fires that did not fire before": (LATE, LONG, {}, "bad"),
    "a rule fires as it did before": (LATE, ENOUGH, {"firing": {"late/revenue"}}, "good"),
    "somebody else's epoch": (WELL, ENOUGH, {"epoch": EPOCH - 1}, "bad"),
    "nothing was begun": (None, ENOUGH, {}, "bad"),
    "it cannot be seen": (observed(ProcessState.UNSEEN, status=status()), LONG, {}, "bad"),
    "it is heard though not seen": (
        observed(ProcessState.UNSEEN, status=status(), beating=True),
        ENOUGH,
        {},
        "good",
    ),
    "the backlog shrinks": (WELL, ENOUGH, {"batches": backlogs(9000, 4000)}, "good"),
    "the backlog grows a little": (WELL, ENOUGH, {"batches": backlogs(1000, 1400)}, "good"),
    "the backlog grows": (WELL, ENOUGH, {"batches": backlogs(1000, 1600)}, "undecided"),
    "the backlog grows to the end": (WELL, LONG, {"batches": backlogs(1000, 1600)}, "bad"),
    "one batch of backlog is none": (WELL, ENOUGH, {"batches": backlogs(0, 140)}, "good"),
    "two batches of backlog are one": (WELL, LONG, {"batches": backlogs(0, 160)}, "bad"),
    "few files are no backlog": (
        WELL,
        ENOUGH,
        {"batches": backlogs(0, 12, unit="files")},
        "good",
    ),
    "many files are one": (WELL, LONG, {"batches": backlogs(0, 16, unit="files")}, "bad"),
    "a source that tells nothing": (WELL, ENOUGH, {"batches": (a_batch(),)}, "good"),
}


def judged(seen: Observation | None, age: timedelta, asked: dict[str, Any]) -> SoakVerdict:
    baseline = SoakBaseline(
        launched_at=NOW - age,
        epoch=asked.get("epoch", EPOCH),
        firing=frozenset(asked.get("firing", ())),
        wrote=asked.get("wrote", {}),
    )
    batches = asked.get("batches", ())
    if batches and seen is not None and seen.status is not None:
        # The status tells of the newest batch.
        query = a_query(batches=5, progress=batches[-1])
        seen = observed(status=status(query))
    figures = SoakFigures(seen=seen, rules=HealthRules(), batches=batches)
    return judge_soak(baseline, figures, asked.get("terms", TERMS), NOW)


@pytest.mark.parametrize(("seen", "age", "asked", "result"), TABLE.values(), ids=TABLE.keys())
def test_what_is_seen_has_its_verdict(
    seen: Observation | None, age: timedelta, asked: dict[str, Any], result: str
) -> None:
    verdict = judged(seen, age, asked)
    assert (verdict.result.value, bool(verdict.reason)) == (result, True)


def test_a_soak_in_which_nothing_came_says_that_no_batch_was_tried() -> None:
    verdict = judged(IDLE, LONG, {})
    assert "No input arrived for query 'refunds', so no batch of it was tried." in verdict.reason


def test_a_soak_that_drops_each_row_says_what_was_written_before() -> None:
    verdict = judged(WELL, LONG, {"batches": rows(9, 9, wrote=0), "wrote": {"revenue": 7000}})
    assert (
        "Query 'revenue' has read 18 rows and written none; the old deployment wrote 7,000."
        in verdict.reason
    )


@pytest.mark.parametrize(
    ("wrote", "says"),
    [
        ({"sales": 7000}, "written none; the old deployment wrote 7,000."),
        ({"sales": 7000, "revenue": 0}, ""),
        ({"sales": 0}, ""),
    ],
)
def test_a_query_under_a_new_name_that_drops_each_row_is_not_proved(
    wrote: dict[str, int], says: str
) -> None:
    verdict = judged(WELL, LONG, {"batches": rows(9, 9, wrote=0), "wrote": wrote})

    assert (verdict.result.value == "unproved") is bool(says), verdict.reason
    assert says in verdict.reason


def test_the_verdict_comes_with_its_figures() -> None:
    verdict = judged(WELL, ENOUGH, {"batches": backlogs(900, 40)})
    assert verdict.figures == {
        "revenue": "5 batches, read 200 rows, rows written not reported, backlog 40 records"
    }
    verdict = judged(WELL, ENOUGH, {"batches": rows(900, 40, wrote=2500)})
    assert verdict.figures == {"revenue": "5 batches, read 940 rows, wrote 5,000 rows"}


def test_what_counts_against_it_is_said() -> None:
    verdict = judged(WELL, LONG, {"batches": backlogs(1000, 1600)})
    assert "grown from 1000 to 1600 records, and 1500 were allowed" in verdict.reason
    assert judged(FEW, LONG, {}).reason.endswith("has committed 2 of 3 batches.")
