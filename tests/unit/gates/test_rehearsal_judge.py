"""What the events of a rehearsal amount to, and how it is shown to whoever approves."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal import RULES, Pace, Rehearsed, no_copy
from airflow_streaming.gates.rehearsal_judge import judge_rehearsal, pace_of
from airflow_streaming.model.jobs.drill import INPUT_GONE, DrilledQuery
from airflow_streaming.model.jobs.rehearsal import (
    Bounds,
    Ending,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
    read_told,
)
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.options import RehearsalOptions
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.rehearsal import rehearsal_report


def shown(found: Rehearsed) -> str:
    return markdown(rehearsal_report(found))


COLUMNS = (Column(name="k", type="string"), Column(name="n", type="bigint"))


def an_order(*folders: str) -> RehearsalOrder:
    queries = tuple(
        DrilledQuery(folder=folder, checkpoint=f"/ck/{folder}", copy="/c", batch=7, runs=7)
        for folder in folders or ("counts",)
    )
    return RehearsalOrder(
        events="/e",
        seconds=60.0,
        bounds=Bounds(),
        queries=queries,
        application="/app/job.py",
        source="/s",
        scratch="/scratch",
        held="/scratch/held",
    )


def a_batch(number: int, **changes: Any) -> BatchProgress:
    made = {
        "query": "counts",
        "batch_id": number,
        "at": "2026-01-05T12:00:00Z",
        "input_rows": 20,
        "input_rows_per_second": 5.0,
        "processed_rows_per_second": 40.0,
        "duration_ms": 500,
        "state_rows": 3,
        "dropped_rows": 1,
    }
    return BatchProgress(**{**made, **changes})


def seen(what: Seen, query: str = "counts", **fields: Any) -> RehearsalEvent:
    return RehearsalEvent(seen=what, query=query, **fields)


def batch(number: int, rows: int = 4, **changes: Any) -> RehearsalEvent:
    return seen(Seen.BATCH, batch=number, rows=rows, figures=a_batch(number, **changes))


SPARK = seen(Seen.SPARK, "", text="4.3.0")
STARTED = seen(Seen.STARTED, columns=COLUMNS)
CAUGHT_UP = seen(Seen.ENDED, ending=Ending.CAUGHT_UP)
FAILED = seen(Seen.FAILED, text="It broke.", remedy="Mend it.")
END = seen(Seen.END, "")
GOOD = [SPARK, STARTED, batch(7), batch(8), CAUGHT_UP, END]


def judged(*events: RehearsalEvent, order: RehearsalOrder | None = None, **given: Any) -> Rehearsed:
    return judge_rehearsal(order or an_order(), events, subject="backup b", seconds=9.0, **given)


def test_a_query_that_went_on_from_its_state_allows_the_upgrade() -> None:
    sample = seen(Seen.SAMPLE, batch=7, sample=({"k": "a", "n": "2"},))
    observed = batch(8, observed={"seen.rows": 20.0})

    found = judged(SPARK, STARTED, sample, batch(7), observed, CAUGHT_UP, END)

    assert found.decision is GateDecision.ALLOWED
    assert (found.spark, found.findings) == ("4.3.0", ())
    (query,) = found.queries
    assert (query.batches, query.first_batch, query.last_batch) == (2, 7, 8)
    assert (query.replayed, query.has_state, query.state_rows) == (True, True, 3)
    assert (query.input_rows, query.output_rows, query.dropped_rows) == (40, 8, 2)
    assert query.pace == Pace(batches=2, input_rows=20, rows_per_second=40.0, duration_ms=500)
    assert query.observed == {"seen.rows": 20.0}
    assert query.sample == ({"k": "a", "n": "2"},)


KAFKA = SinkPlan(
    sink="kafka",
    target="out",
    schema=(Column(name="value", type="string"),),
    options={"kafka.bootstrap.servers": "b:1"},
)


BY_ROW = replace(KAFKA, target="", schema=(*KAFKA.schema, Column(name="topic", type="string")))


def test_every_missing_topic_is_named() -> None:
    (found,) = judged(*with_sink(BY_ROW, "eu, us")).findings

    assert "writes to topics 'eu', 'us', which its brokers do not have" in found.message


def with_sink(sink: SinkPlan, missing: str = "") -> list[RehearsalEvent]:
    return [
        SPARK,
        seen(Seen.SINK, sink=sink, output_mode="append", subject=missing),
        *GOOD[1:],
    ]


@pytest.mark.parametrize(
    ("sink", "missing", "rules"),
    [
        (KAFKA, "", []),
        (replace(KAFKA, target=""), "", ["rehearsal.sink_refused"]),
        (replace(KAFKA, schema=COLUMNS), "", ["rehearsal.sink_refused"]),
        (replace(KAFKA, options={}), "", ["rehearsal.sink_refused"]),
        (KAFKA, "out", ["rehearsal.topic_missing"]),
        (replace(BY_ROW, topics=("out", "more")), "", []),
        (replace(BY_ROW, topics=("out", "more")), "more", ["rehearsal.topic_missing"]),
        (BY_ROW, "", ["rehearsal.topics_unseen"]),
    ],
    ids=[
        "good",
        "no topic",
        "no value",
        "no servers",
        "topic not there",
        "literals",
        "one not there",
        "any",
    ],
)
def test_the_sink_that_the_script_chose_is_judged_although_nothing_is_written_to_it(
    sink: SinkPlan, missing: str, rules: list[str]
) -> None:
    found = judged(*with_sink(sink, missing))

    assert [finding.rule for finding in found.findings] == rules
    expected = {
        "rehearsal.topic_missing": GateDecision.UNKNOWN,
        "rehearsal.topics_unseen": GateDecision.ALLOWED_WITH_CONSEQUENCE,
    }
    assert [f.severity for f in found.findings] == [
        expected.get(rule, GateDecision.NOT_ALLOWED) for rule in rules
    ]


def test_a_sink_that_the_running_query_has_is_accepted() -> None:
    odd = replace(KAFKA, options={})
    live = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=odd)

    found = judged(*with_sink(odd), plans=[live])

    assert "rehearsal.sink_refused" not in {finding.rule for finding in found.findings}


ALLOWED_WITH_CONSEQUENCE = GateDecision.ALLOWED_WITH_CONSEQUENCE
UNKNOWN, NOT_ALLOWED = GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED


@pytest.mark.parametrize(
    ("events", "rule", "severity", "message"),
    [
        pytest.param(
            [SPARK, FAILED, END],
            "query_failed",
            NOT_ALLOWED,
            "Query 'counts' failed when it was started: It broke.",
            id="fails at once",
        ),
        pytest.param(
            [
                SPARK,
                STARTED,
                FAILED,
                CAUGHT_UP,
                seen(Seen.SCRIPT_FAILED, "", text="It."),
                END,
            ],
            "query_failed",
            NOT_ALLOWED,
            "Query 'counts' failed in its first batch: It broke.",
            id="fails in its first batch, and the script with it",
        ),
        pytest.param(
            [SPARK, STARTED, batch(7), FAILED, END],
            "query_failed",
            NOT_ALLOWED,
            "Query 'counts' failed after 1 good batch: It broke.",
            id="fails later",
        ),
        pytest.param(
            [
                SPARK,
                STARTED,
                seen(Seen.FAILED, text="Gone.", subject=INPUT_GONE),
                END,
            ],
            "input_gone",
            UNKNOWN,
            "Query 'counts' lost its input in its first batch: Gone.",
            id="input is gone",
        ),
        pytest.param(
            [SPARK, seen(Seen.SCRIPT_FAILED, "", text="No such table."), END],
            "script_failed",
            NOT_ALLOWED,
            "The script failed: No such table.",
            id="the script fails",
        ),
        pytest.param(
            [SPARK, STARTED, CAUGHT_UP, END],
            "no_batch",
            UNKNOWN,
            "Query 'counts' started and ran no batch",
            id="nothing to run",
        ),
        pytest.param(
            [SPARK, STARTED, batch(7, input_rows=0), CAUGHT_UP, END],
            "no_rows",
            UNKNOWN,
            "Query 'counts' read no row, although the plan of batch 7 reads some.",
            id="files are gone",
        ),
        pytest.param(
            [SPARK, STARTED, seen(Seen.ENDED, ending=Ending.OUT_OF_TIME), END],
            "out_of_time",
            UNKNOWN,
            "Query 'counts' committed no batch within the time limit.",
            id="too slow",
        ),
        pytest.param(
            [SPARK, END],
            "not_started",
            ALLOWED_WITH_CONSEQUENCE,
            "Query 'counts' has a checkpoint, and the script does not start it.",
            id="not started",
        ),
    ],
)
def test_what_does_not_fit_is_one_finding(
    events: list[RehearsalEvent], rule: str, severity: GateDecision, message: str
) -> None:
    found = judged(*events)

    (finding,) = found.findings
    assert (finding.rule, finding.severity) == (f"rehearsal.{rule}", severity)
    assert message in finding.message
    assert finding.remedy
    assert found.decision is severity
    assert finding.rule in RULES


def test_a_bound_that_is_reached_is_no_finding() -> None:
    for ending in (Ending.ENOUGH_BATCHES, Ending.OUT_OF_TIME):
        ended = seen(Seen.ENDED, ending=ending)

        found = judged(SPARK, STARTED, batch(7), ended, END)

        assert (found.findings, found.queries[0].ending) == ((), ending)


@pytest.mark.parametrize(
    ("is_late", "severity"),
    [pytest.param(True, UNKNOWN, id="too slow"), pytest.param(False, NOT_ALLOWED, id="died")],
)
def test_a_spark_that_came_to_no_end_proves_nothing_good(
    is_late: bool, severity: GateDecision
) -> None:
    found = judged(SPARK, STARTED, batch(7), failure="It ended.", is_late=is_late)

    assert [(f.rule, f.severity) for f in found.findings] == [("rehearsal.spark_ended", severity)]
    assert found.queries[0].ending is Ending.OUT_OF_TIME


def test_a_new_query_is_told_with_its_consequence() -> None:
    new = [
        seen(Seen.NEW_QUERY, "late"),
        seen(Seen.STARTED, "late"),
        seen(Seen.ENDED, "late"),
    ]

    found = judged(*GOOD[:-1], *new, END)

    assert [(f.rule, f.query) for f in found.findings] == [("rehearsal.new_query", "late")]
    assert (found.queries[1].is_new, found.queries[1].pinned) == (True, None)


def a_plan(*columns: Column, query: str = "counts") -> QueryPlan:
    sink = SinkPlan(sink="file", schema=columns)
    return QueryPlan(query=query, spark="3.5.9", output_mode="append", sink=sink)


@pytest.mark.parametrize(
    ("columns", "differs"),
    [
        pytest.param(COLUMNS, False, id="the same"),
        pytest.param((COLUMNS[0], Column(name="n", type="int")), True, id="another type"),
        pytest.param(COLUMNS[:1], True, id="one more"),
        pytest.param(
            (Column(name="k", type="string", nullable=False), COLUMNS[1]), False, id="nullability"
        ),
    ],
)
def test_other_columns_than_the_running_version_has_are_told(
    columns: tuple[Column, ...], differs: bool
) -> None:
    found = judged(*GOOD, plans=[a_plan(*columns), a_plan(query="other")])

    assert bool(found.findings) is differs
    if differs:
        (finding,) = found.findings
        assert finding.rule == "rehearsal.output_schema"
        assert finding.new == "k string, n bigint"


def test_columns_of_a_query_that_the_running_version_does_not_have_are_not_compared() -> None:
    found = judged(*GOOD, plans=[a_plan(Column(name="other", type="int"), query="sums")])

    assert found.findings == ()


def test_a_pace_is_taken_from_batches_that_read_something() -> None:
    idle = a_batch(9, input_rows=0, duration_ms=9_000)
    slow = a_batch(10, duration_ms=700, processed_rows_per_second=None)

    pace = pace_of([a_batch(8), idle, slow])

    assert pace == Pace(batches=2, input_rows=20, rows_per_second=40.0, duration_ms=600)
    assert pace_of([idle]) is None


def test_the_pace_of_the_running_version_stands_beside() -> None:
    live = {"counts": Pace(batches=9, input_rows=1.0, rows_per_second=2.0, duration_ms=3.0)}

    assert judged(*GOOD, live=live).queries[0].live == live["counts"]
    assert judged(*GOOD, live={"other": live["counts"]}).queries[0].live is None


def test_a_function_that_was_not_called_is_noted() -> None:
    found = judged(SPARK, seen(Seen.NOT_CALLED, text="foreachBatch"), *GOOD[1:])

    assert "foreachBatch was not called" in found.queries[0].notes[0]


def test_events_are_read_up_to_the_line_that_is_being_written() -> None:
    data = SPARK.to_bytes() + END.to_bytes()[:20]

    assert read_told(data) == [SPARK]
    assert read_told(SPARK.to_bytes() + b"{}\n" + END.to_bytes()) == [SPARK]


@pytest.mark.parametrize(
    "wrong",
    [
        {"batches": 0},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"sample": 21},
        {"cores": 0},
        {"files_per_batch": -1},
    ],
    ids=str,
)
def test_bounds_bound(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        Bounds(**wrong)


def test_it_goes_to_another_task_and_to_a_gate() -> None:
    found = judged(SPARK, FAILED, END)

    assert found.to_dict()["decision"] == "not_allowed"
    assert Rehearsed.from_dict(found.to_dict()) == found
    assert found.report.decision is NOT_ALLOWED
    assert found.report.pattern is None


def test_a_page_says_how_it_went_and_holds_no_markup_of_the_script() -> None:
    row = {"k": "a|b", "n": "<script>"}
    sample = seen(Seen.SAMPLE, batch=7, sample=(row,))
    live = {"counts": Pace(batches=9, input_rows=1.0, rows_per_second=2.0, duration_ms=3.0)}

    page = shown(judged(SPARK, STARTED, sample, *GOOD[2:], live=live))
    failed = shown(judged(SPARK, seen(Seen.FAILED, text="*<b>*\n# x"), END))

    assert page.startswith("## Rehearsal\n\nResult: **passed**\n")
    assert "| counts | 2 batches, the first again, caught up | 40 | 8 | 2 | 3 |" in page
    assert "40 rows/s, 500 ms a batch | 2 rows/s, 3 ms a batch |" in page
    assert "| a\\|b | \\<script\\> |" in page
    assert "Result: **failed**" in failed
    assert "\\*\\<b\\>\\* \\# x" in failed
    assert "did not get as far" in shown(
        Rehearsed(application="j", spark="", subject="s", seconds=1.0, findings=(no_copy("Torn."),))
    )


@pytest.mark.parametrize(
    ("events", "in_our_code"),
    [
        pytest.param([], False, id="before a session"),
        pytest.param([SPARK, STARTED, batch(7)], True, id="in the rehearsal's own code"),
    ],
)
def test_a_rehearsal_that_did_not_come_to_the_script_says_nothing_against_it(
    events: list[RehearsalEvent], in_our_code: bool
) -> None:
    found = judged(*events, failure="It ended with code 1.", in_our_code=in_our_code)

    (finding,) = found.findings
    assert (finding.rule, finding.severity) == ("rehearsal.not_begun", UNKNOWN)
    assert "It ended with code 1." in finding.message
    assert finding.rule in RULES


def test_the_schema_error_of_a_join_names_the_measured_way_out() -> None:
    text = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match."

    (finding,) = judged(SPARK, STARTED, seen(Seen.FAILED, text=text, remedy="Else."), END).findings

    assert "spark.sql.streaming.stateStore.stateSchemaCheck=false" in finding.remedy
    assert finding.remedy.endswith("Else.")


def test_a_page_of_a_rehearsal_holds_no_bytes_that_steer_a_terminal() -> None:
    page = shown(judged(SPARK, seen(Seen.FAILED, text="a\x1b[31mb"), END))
    assert "\x1b" not in page


def test_a_rehearsal_out_of_time_names_the_place_of_its_limit() -> None:
    found = judged(SPARK, STARTED, seen(Seen.ENDED, ending=Ending.OUT_OF_TIME), END)

    assert "RehearsalOptions(" in found.findings[0].remedy
    assert "time_limit" in {field.name for field in fields(RehearsalOptions)}


@pytest.mark.parametrize("later", [batch(8), batch(8, input_rows=1)])
def test_a_batch_without_rows_is_no_doubt_when_a_later_one_has_some(later: RehearsalEvent) -> None:
    found = judged(SPARK, STARTED, batch(7, input_rows=0), later, CAUGHT_UP, END)

    assert found.decision is GateDecision.ALLOWED


def test_a_batch_without_input_by_its_plan_may_read_no_row() -> None:
    order = an_order()
    idle = replace(order, queries=tuple(replace(one, has_input=False) for one in order.queries))

    found = judged(SPARK, STARTED, batch(7, input_rows=0), CAUGHT_UP, END, order=idle)

    assert found.decision is GateDecision.ALLOWED
