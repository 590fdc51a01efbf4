"""Judging green: passed and failed are proved, everything else is inconclusive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.changes.judging.green import (
    fold_errors,
    judge_after,
    judge_catching_up,
    judge_ready,
    judge_reports,
    trouble,
)
from airflow_streaming.changes.judging.lane_figures import (
    LaneFigures,
    QueryFigures,
    Since,
    figures_of,
)
from airflow_streaming.changes.judging.soak import Backlog, SoakResult, SoakVerdict
from airflow_streaming.model.arguments.terms import ReadyTerms
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult, SideFound
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.progress import SourceProgress
from airflow_streaming.model.records.cutover import Result
from airflow_streaming.model.records.cutover_table import CutoverEvent
from tests.unit.changes.cutover.judging_model import disagreement
from tests.unit.supervision.builders import (
    BEGUN,
    NOW,
    a_batch,
    a_query,
    a_status,
    observed,
    seconds,
)

TERMS = ReadyTerms(well_for=seconds(60), batches=3, measuring_errors=3)
SINCE = Since(deployment=4, epoch=9, at=NOW - seconds(90), seen_at=NOW - seconds(90))


def files(amount: float) -> Backlog:
    return Backlog(unit="files", amount=amount)


def a_figure(**changes: Any) -> QueryFigures:
    fields: dict[str, Any] = {"name": "sales", "batches": 5, "read": 90, "largest": 30, "newest": 7}
    return QueryFigures(**fields | changes)


def a_lane(*queries: QueryFigures, **changes: Any) -> LaneFigures:
    fields: dict[str, Any] = {"deployment": 4, "epoch": 9, "at": NOW, "started_at": BEGUN}
    return LaneFigures(**fields | {"queries": queries or (a_figure(),)} | changes)


BLUE = a_lane(a_figure(batches=500), deployment=3, epoch=2)


@pytest.mark.parametrize(
    ("green", "says"),
    [
        pytest.param(None, "not given a sign of life", id="nothing-heard"),
        pytest.param(a_lane(trouble="It is starting."), "It is starting.", id="starting"),
        pytest.param(a_lane(a_figure(name="other")), "Not started yet: sales", id="query-lacking"),
        pytest.param(a_lane(a_figure(active=False)), "not active", id="query-ended"),
        pytest.param(a_lane(a_figure(error="no space")), "failed: no space", id="query-failed"),
        pytest.param(a_lane(a_figure(newest=31)), "still reads 31 rows", id="large-batches"),
        pytest.param(a_lane(a_figure(batches=2)), "2 of 3 batches", id="few-batches"),
    ],
)
def test_a_green_that_is_not_there_yet_is_waited_for(green: LaneFigures | None, says: str) -> None:
    said = judge_catching_up(green, BLUE, TERMS, now=NOW)

    assert (said.result, said.event) == (Result.INCONCLUSIVE, None)
    assert says in said.reason


@pytest.mark.parametrize(
    ("mine", "blues", "has_caught_up"),
    [
        pytest.param(files(12), files(2), True, id="one-batch-more"),
        pytest.param(files(13), files(2), False, id="more-than-a-batch-more"),
        pytest.param(files(900), files(900), True, id="blue-is-behind-too"),
        pytest.param(files(900), None, True, id="of-blue-nothing-is-told"),
        pytest.param(None, None, True, id="no-backlog-is-told"),
        pytest.param(files(900), Backlog(unit="records", amount=1), True, id="in-other-units"),
    ],
)
def test_green_has_caught_up_with_at_most_a_batch_more_to_read_than_blue(
    mine: Backlog | None, blues: Backlog | None, *, has_caught_up: bool
) -> None:
    blue = a_lane(a_figure(backlog=blues))
    # Its newest batch is as large as the largest of blue's.
    green = a_lane(a_figure(backlog=mine, newest=30))

    said = judge_catching_up(green, blue, TERMS, now=NOW)

    assert (said.event is CutoverEvent.GREEN_CAUGHT_UP) is has_caught_up, said.reason


@pytest.mark.parametrize(
    ("covers", "event"),
    [
        pytest.param(True, CutoverEvent.GREEN_CAUGHT_UP, id="covered"),
        pytest.param(False, None, id="not-covered"),
    ],
)
def test_where_positions_can_be_compared_they_decide(
    covers: bool, event: CutoverEvent | None
) -> None:
    green = a_lane(a_figure(batches=1, newest=400))

    assert judge_catching_up(green, BLUE, TERMS, covers={"sales": covers}, now=NOW).event is event


@pytest.mark.parametrize(
    ("mine", "blues", "batches", "has_caught_up"),
    [
        pytest.param(files(0), files(0), 1, True, id="nothing-left"),
        pytest.param(files(2), files(2), 1, True, id="no-more-left-than-blue"),
        pytest.param(files(3), files(2), 1, False, id="one-file-more-than-blue"),
        pytest.param(files(0), None, 1, True, id="nothing-left-and-of-blue-nothing-is-told"),
        pytest.param(files(1), None, 1, False, id="of-blue-nothing-is-told"),
        pytest.param(files(0), files(0), 0, False, id="no-batch-yet"),
        pytest.param(Backlog(unit="records", amount=0), None, 1, False, id="no-files"),
        pytest.param(None, files(0), 1, False, id="nothing-is-told"),
    ],
)
def test_green_does_not_wait_for_files_that_have_left_the_input(
    mine: Backlog | None, blues: Backlog | None, batches: int, *, has_caught_up: bool
) -> None:
    green = a_lane(a_figure(backlog=mine, batches=batches))
    blue = a_lane(a_figure(backlog=blues))

    said = judge_catching_up(green, blue, TERMS, covers={"sales": False}, now=NOW)

    assert (said.event is CutoverEvent.GREEN_CAUGHT_UP) is has_caught_up, said.reason


def test_the_driver_that_had_caught_up_is_kept_with_the_step() -> None:
    said = judge_catching_up(a_lane(), BLUE, TERMS, now=NOW)

    assert Since.from_facts(said.figures) == replace(SINCE, at=NOW, seen_at=NOW)


def test_a_step_that_does_not_tell_the_driver_counts_for_nobody() -> None:
    assert Since.from_facts({"green_epoch": "9"}) is None
    assert judge_ready(a_lane(), BLUE, TERMS, None, now=NOW).event is CutoverEvent.GREEN_CHANGED


RENAMED = a_lane(a_figure(name="revenue"))


def test_a_green_whose_version_has_other_queries_than_blues_catches_up_and_is_well() -> None:
    named = {"queries": ("revenue",), "now": NOW}

    assert judge_catching_up(RENAMED, BLUE, TERMS, **named).event is CutoverEvent.GREEN_CAUGHT_UP
    assert judge_ready(RENAMED, BLUE, TERMS, SINCE, **named).event is CutoverEvent.GREEN_WELL


def test_a_green_waits_for_the_queries_of_its_own_version() -> None:
    said = judge_catching_up(a_lane(), BLUE, TERMS, queries=("sales", "refunds"), now=NOW)

    assert (said.event, said.reason) == (None, "Not started yet: refunds.")


def test_a_rule_that_fires_for_the_query_under_both_of_its_names_is_no_trouble() -> None:
    green = replace(RENAMED, findings={"late/revenue": "Late."})
    blue = replace(BLUE, findings={"late/sales": "Late."})

    assert not [*trouble(green, blue)]
    assert [*trouble(green, replace(blue, findings={"size/sales": "Large."}))] == ["Late."]
    assert [*trouble(green, None)] == ["Late."]


@pytest.mark.parametrize(
    ("green", "blue", "written"),
    [
        pytest.param({"wrote": 0}, [{"wrote": 80}], False, id="nothing"),
        pytest.param({"wrote": None}, [{"wrote": 80}], True, id="not-counted"),
        pytest.param({"wrote": 3}, [{"wrote": 80}], True, id="less"),
        pytest.param({"wrote": 0}, [{"wrote": 0}], True, id="blue-wrote-none"),
        pytest.param({"wrote": 0}, [{"wrote": None}], True, id="blue-not-counted"),
        pytest.param({"wrote": 0, "name": "new"}, [{"wrote": 80}], False, id="renamed"),
        pytest.param(
            {"wrote": 0},
            [{"wrote": 0}, {"wrote": 80, "name": "gone"}],
            True,
            id="another-query-is-gone",
        ),
    ],
)
def test_a_green_that_has_written_nothing_where_blue_has_is_held(
    green: dict[str, Any], blue: list[dict[str, Any]], written: bool
) -> None:
    lanes = a_lane(a_figure(**green)), replace(BLUE, queries=tuple(a_figure(**one) for one in blue))
    name = green.get("name", "sales")

    said = judge_ready(*lanes, TERMS, SINCE, queries=(name,), compared=True, now=NOW)
    waits = judge_ready(*lanes, TERMS, SINCE, queries=(name,), now=NOW)

    assert said.event is CutoverEvent.GREEN_WELL
    assert said.unwritten == (
        ""
        if written
        else f"Query {name!r} of green has read 90 rows and written none; query 'sales' of blue has read 90 "
        "and written 80."
    )
    assert (waits.event is CutoverEvent.GREEN_WELL) is written


IDLE = a_figure(batches=0, read=0, idle=True, newest=None)
LONG_AGO = Since(deployment=4, epoch=9, at=NOW - seconds(180), seen_at=NOW - seconds(180))


@pytest.mark.parametrize(
    ("green", "blue", "since", "event"),
    [
        pytest.param(a_lane(), BLUE, SINCE, CutoverEvent.GREEN_WELL, id="well"),
        pytest.param(
            a_lane(), BLUE, replace(SINCE, at=NOW - seconds(59)), None, id="too-short-by-its-clock"
        ),
        pytest.param(
            a_lane(),
            BLUE,
            replace(SINCE, seen_at=NOW - seconds(59)),
            None,
            id="a-clock-that-jumped",
        ),
        pytest.param(
            a_lane(), BLUE, replace(SINCE, epoch=8), CutoverEvent.GREEN_CHANGED, id="restarted"
        ),
        pytest.param(
            a_lane(), BLUE, replace(SINCE, deployment=3), CutoverEvent.GREEN_CHANGED, id="revised"
        ),
        pytest.param(
            a_lane(trouble="Stuck."), BLUE, SINCE, CutoverEvent.GREEN_FELL_BEHIND, id="trouble"
        ),
        pytest.param(
            a_lane(findings={"late/sales": "Late."}),
            BLUE,
            SINCE,
            CutoverEvent.GREEN_FELL_BEHIND,
            id="a-rule-fires",
        ),
        pytest.param(
            a_lane(findings={"late/sales": "Late."}),
            replace(BLUE, findings={"late/sales": "Late."}),
            SINCE,
            CutoverEvent.GREEN_WELL,
            id="a-rule-fires-for-both",
        ),
        pytest.param(a_lane(a_figure(batches=2)), BLUE, SINCE, None, id="few-batches"),
        pytest.param(
            a_lane(a_figure(batches=2)),
            BLUE,
            LONG_AGO,
            CutoverEvent.INCONCLUSIVE,
            id="few-for-long",
        ),
        pytest.param(
            a_lane(a_figure(batches=1, idle=True)), BLUE, SINCE, CutoverEvent.GREEN_WELL, id="idle"
        ),
        pytest.param(a_lane(IDLE), a_lane(IDLE), SINCE, None, id="no-data"),
        pytest.param(
            a_lane(IDLE), a_lane(IDLE), LONG_AGO, CutoverEvent.INCONCLUSIVE, id="no-data-for-long"
        ),
        pytest.param(
            a_lane(IDLE, a_figure(name="counts")),
            a_lane(IDLE, a_figure(name="counts")),
            SINCE,
            CutoverEvent.GREEN_WELL,
            id="one-source-has-no-data",
        ),
        pytest.param(a_lane(), None, SINCE, None, id="blue-is-not-seen"),
        pytest.param(
            a_lane(a_figure(backlog=Backlog(unit="records", amount=6))),
            a_lane(a_figure(backlog=Backlog(unit="records", amount=900))),
            SINCE,
            CutoverEvent.GREEN_FELL_BEHIND,
            id="over-the-bound",
        ),
    ],
)
def test_readiness_is_what_this_driver_has_shown_without_a_break(
    green: LaneFigures, blue: LaneFigures | None, since: Since, event: CutoverEvent | None
) -> None:
    said = judge_ready(green, blue, replace(TERMS, backlog_records=5), since, now=NOW)

    assert said.event is event, said.reason


@pytest.mark.parametrize(
    ("query", "compared", "event"),
    [
        pytest.param(a_figure(read=0), True, CutoverEvent.GREEN_WELL, id="its-output-is-compared"),
        pytest.param(a_figure(read=0), False, CutoverEvent.INCONCLUSIVE, id="nothing-tells"),
        pytest.param(IDLE, True, CutoverEvent.INCONCLUSIVE, id="it-has-not-run"),
    ],
)
def test_a_green_that_lets_all_rows_go_is_left_to_the_comparison(
    query: QueryFigures, compared: bool, event: CutoverEvent
) -> None:
    said = judge_ready(a_lane(query), BLUE, TERMS, LONG_AGO, compared=compared, now=NOW)

    assert said.event is event, said.reason


def test_errors_of_measuring_are_counted_in_a_row_and_are_never_a_failure() -> None:
    looks = [judge_ready(None, BLUE, TERMS, SINCE, now=NOW)]
    for _ in range(2):
        looks.append(judge_ready(None, BLUE, TERMS, SINCE, errors=looks[-1].errors, now=NOW))

    assert [look.event for look in looks] == [None, None, CutoverEvent.INCONCLUSIVE]
    assert {look.result for look in looks} == {Result.INCONCLUSIVE}
    assert "3 times in a row" in looks[-1].reason


def test_a_look_that_succeeds_forgets_the_errors_before() -> None:
    assert fold_errors(1, TERMS, "The store is away.").errors == 2
    well = judge_ready(a_lane(), BLUE, TERMS, replace(SINCE, at=NOW), errors=2, now=NOW)
    assert well.errors == 0


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_a_second_opinion_that_remembers_everything_says_the_same(seed: int) -> None:
    assert disagreement(seed) is None


@pytest.mark.parametrize(
    ("soak", "event"),
    [
        (SoakResult.GOOD, CutoverEvent.SOAK_PASSED),
        (SoakResult.BAD, CutoverEvent.SOAK_FAILED),
        (SoakResult.UNDECIDED, None),
    ],
)
def test_the_soak_says_what_follows_the_switch(
    soak: SoakResult, event: CutoverEvent | None
) -> None:
    assert judge_after(SoakVerdict(result=soak, reason="So it is.")).event is event


def a_report(result: CompareResult, stream: str = "orders") -> CompareReport:
    side = SideFound(uri="/out")
    reason = f"It {result.value}."
    return CompareReport(stream=stream, result=result, reason=reason, at=NOW, blue=side, green=side)


SAME, DIFFERS, INCONCLUSIVE = CompareResult


@pytest.mark.parametrize(
    ("results", "event"),
    [
        pytest.param((), CutoverEvent.OUTPUT_SAME, id="nothing-asked"),
        pytest.param((SAME, SAME), CutoverEvent.OUTPUT_SAME, id="all-the-same"),
        pytest.param((SAME, INCONCLUSIVE), CutoverEvent.INCONCLUSIVE, id="one-unknown"),
        pytest.param((INCONCLUSIVE, DIFFERS), CutoverEvent.OUTPUT_DIFFERS, id="one-differs"),
    ],
)
def test_all_outputs_have_to_be_the_same(
    results: tuple[CompareResult, ...], event: CutoverEvent
) -> None:
    reports = [a_report(result, f"s{number}") for number, result in enumerate(results)]

    assert judge_reports(reports).event is event


def test_figures_are_taken_from_the_heartbeat_and_the_last_batches() -> None:
    query = a_query(progress=a_batch(batch_id=41, input_rows=3))
    seen = observed(status=a_status(queries=(query,)))
    batches = [a_batch(batch_id=40, input_rows=9), a_batch(batch_id=41, input_rows=3)]

    found = figures_of(seen, HealthRules(), batches)

    assert found is not None
    assert (found.epoch, found.deployment, found.trouble) == (17, 3, "")
    (figure,) = found.queries
    assert (figure.read, figure.largest, figure.newest, figure.idle) == (12, 9, 3, False)


@pytest.mark.parametrize(
    ("changes", "idle"),
    [
        ({}, True),
        ({"processing": True}, False),
        ({"data_available": True}, False),
        ({"committed_ago_s": 5.0}, False),
    ],
)
def test_a_query_that_works_or_has_committed_just_now_is_not_idle(
    changes: dict[str, Any], idle: bool
) -> None:
    quiet = {"committed_ago_s": 60.0, "processing": False, "data_available": False}
    query = replace(a_query(progress=a_batch(batch_id=41)), **quiet | changes)
    source = SourceProgress(source="files", backlog_files=7)

    found = figures_of(
        observed(status=a_status(queries=(query,))),
        HealthRules(),
        [replace(a_batch(batch_id=41), sources=(source,))],
    )

    assert found is not None
    (figure,) = found.queries
    assert (figure.idle, figure.backlog) == (idle, files(7))


def test_a_green_without_input_says_that_it_had_none() -> None:
    said = judge_ready(a_lane(IDLE), a_lane(IDLE), TERMS, SINCE, now=NOW)
    waits = judge_ready(a_lane(), BLUE, TERMS, replace(SINCE, at=NOW), now=NOW)

    assert said.reason == "Green has had nothing to read."
    assert waits.reason.startswith("Green has been well for 0 s of")


def test_a_driver_that_cannot_be_seen_has_no_figures() -> None:
    silent = observed(ProcessState.UNSEEN, silent_for=seconds(3600))

    assert figures_of(silent, HealthRules()) is None
    assert figures_of(None, HealthRules()) is None
