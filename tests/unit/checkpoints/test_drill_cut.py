from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.drill_cut import choose_spark, describe_spark, plan_cut
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import (
    INPUT_GONE,
    DrilledQuery,
    DrillEvent,
    DrillEventKind,
    DrillOrder,
    is_kept_back,
    judge,
    read_events,
)
from airflow_streaming.model.spark.failure_signs import is_input_gone
from tests.unit.checkpoints.in_memory import InMemory, golden, other_codec

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def a_query(**changes: Any) -> DrilledQuery:
    made = {"folder": "counts", "checkpoint": "/ck/counts", "copy": "/scratch/counts", "batch": 7}
    return DrilledQuery(**{**made, "reads_state": True, "runs": 7, **changes})


def an_order(*queries: DrilledQuery, application: str = "/app/job.py") -> DrillOrder:
    queries = queries or (a_query(),)
    return DrillOrder(events="/e", seconds=60, queries=queries, application=application)


def told(what: DrillEventKind, query: str = "counts", **fields: Any) -> DrillEvent:
    return DrillEvent(told=what, query=query, **fields)


SPARK = told(DrillEventKind.SPARK, "", text="4.3.0")
STATE = told(DrillEventKind.STATE, subject="operator 0 (dedupe)", rows=3)
BATCH = told(DrillEventKind.BATCH, batch=7, rows=20)


def test_a_drill_that_opened_the_state_and_ran_a_batch_has_no_problem() -> None:
    drilled = judge(an_order(), [SPARK, STATE, BATCH, told(DrillEventKind.END, "")])

    assert drilled.problems == ()
    assert drilled.facts == {
        "spark": "4.3.0",
        "script": "/app/job.py",
        "counts.state": "operator 0 (dedupe): 3 rows",
        "counts.batch": "batch 7 ran again, 20 rows of input",
    }


def test_a_drill_without_a_script_says_that_no_batch_was_run() -> None:
    drilled = judge(an_order(application=""), [SPARK, STATE, told(DrillEventKind.END, "")])

    assert drilled.problems == ()
    assert drilled.facts["script"] == "none, so no batch was run"
    assert "counts.batch" not in drilled.facts


@pytest.mark.parametrize(
    ("events", "failure", "problems"),
    [
        pytest.param(
            [told(DrillEventKind.STATE_FAILED, subject="operator 0 (dedupe)", text="Torn."), BATCH],
            "",
            ["cannot open the state of operator 0 (dedupe) at batch 7: Torn. Do not rely"],
            id="state that does not open",
        ),
        pytest.param(
            [STATE, told(DrillEventKind.BATCH_FAILED, text="Bad.", remedy="Mend it.")],
            "",
            ["Query 'counts': batch 7 does not run on this backup: Bad. Mend it."],
            id="a batch that does not run",
        ),
        pytest.param(
            [STATE, told(DrillEventKind.BATCH_FAILED, subject=INPUT_GONE, text="No file.")],
            "",
            ["the input of batch 7 is no longer there, so that it could not be run: No file. That"],
            id="input that is gone",
        ),
        pytest.param(
            [STATE, told(DrillEventKind.SCRIPT_FAILED, "", text="KeyError: 'x'")],
            "",
            ["was not run, because the script failed first: KeyError: 'x'"],
            id="a script that fails before it starts the query",
        ),
        pytest.param(
            [STATE, told(DrillEventKind.NOT_IN_BACKUP, "", text="other")],
            "",
            ["is in the backup, but the script did not start it"],
            id="a script that starts another query",
        ),
        pytest.param(
            [STATE, told(DrillEventKind.STARTED)],
            "The drill was ended after 60 s.",
            ["The drill was ended after 60 s."],
            id="a driver that does not come to its end",
        ),
        pytest.param(
            [
                STATE,
                told(DrillEventKind.BATCH_FAILED, text="Bad."),
                told(DrillEventKind.SCRIPT_FAILED, "", text="Y."),
            ],
            "",
            ["does not run on this backup: Bad."],
            id="a script that fails because its query did",
        ),
    ],
)
def test_what_does_not_work_is_one_problem(
    events: list[DrillEvent], failure: str, problems: list[str]
) -> None:
    drilled = judge(an_order(), [SPARK, *events], failure)

    assert len(drilled.problems) == len(problems)
    for problem, expected in zip(drilled.problems, problems, strict=True):
        assert expected in problem


def test_a_query_that_finds_nothing_to_do_has_proved_its_start_only() -> None:
    order = an_order(a_query(runs=None, run_note="the backup has no plan of batch 6."))

    drilled = judge(
        order, [SPARK, STATE, told(DrillEventKind.NO_BATCH), told(DrillEventKind.END, "")]
    )

    assert drilled.problems == ()
    assert drilled.facts["counts.batch"] == (
        "started, and no batch was run: the backup has no plan of batch 6."
    )


@pytest.mark.parametrize(
    ("has_input", "expected"),
    [
        pytest.param(
            True,
            "0 rows of input, although its plan reads some: the input may be gone",
            id="a plan that reads something",
        ),
        pytest.param(False, "0 rows of input", id="a plan that only moves the watermark"),
    ],
)
def test_a_batch_that_read_nothing_is_told_from_one_that_had_to(
    has_input: bool, expected: str
) -> None:
    order = an_order(a_query(has_input=has_input))

    drilled = judge(order, [SPARK, STATE, told(DrillEventKind.BATCH, batch=7, rows=0)])

    assert drilled.problems == ()
    assert drilled.facts["counts.batch"] == f"batch 7 ran again, {expected}"


def test_every_query_is_judged_by_what_was_told_of_it() -> None:
    order = an_order(a_query(), a_query(folder="raw", reads_state=False, state_note="none"))

    drilled = judge(order, [SPARK, STATE, BATCH, told(DrillEventKind.END, "")])

    assert drilled.facts["raw.state"] == "none"
    assert len(drilled.problems) == 1
    assert "'raw' is in the backup, but the script did not start it" in drilled.problems[0]


def test_events_are_read_up_to_the_line_that_is_being_written() -> None:
    whole = SPARK.to_bytes() + STATE.to_bytes()

    assert read_events(whole + BATCH.to_bytes()[:20]) == [SPARK, STATE]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[FAILED_READ_FILE.FILE_NOT_EXIST] file:/in/3.json", True, id="input file"),
        pytest.param("Some data may have been lost because", True, id="Kafka"),
        pytest.param("OffsetOutOfRangeException: Fetch position", True, id="Kafka's client"),
        pytest.param(
            "[CANNOT_LOAD_STATE_STORE.X] FileNotFoundException: /ck/state/0/1/7.delta",
            False,
            id="a file of the state",
        ),
        pytest.param("KeyError: 'k'", False, id="another error"),
    ],
)
def test_missing_input_is_told_from_a_damaged_backup(text: str, expected: bool) -> None:
    assert is_input_gone(text) is expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("spark.master", True, id="the cluster"),
        pytest.param("spark.submit.deployMode", True, id="where the driver is"),
        pytest.param("spark.submit.pyFiles", False, id="code"),
        pytest.param("spark.eventLog.dir", True, id="the event log"),
        pytest.param("spark.sql.streaming.streamingQueryListeners", True, id="listeners"),
        pytest.param("spark.metrics.conf.driver.sink", True, id="metrics"),
        pytest.param("spark.driver.extraClassPath", False, id="the class path"),
        pytest.param("spark.sql.streaming.stateStore.providerClass", False, id="the state store"),
        pytest.param("spark.hadoop.fs.s3a.endpoint", False, id="the object store"),
    ],
)
def test_what_belongs_to_production_stays_out_of_a_drill(key: str, expected: bool) -> None:
    assert is_kept_back(key) is expected


def plan(*offsets: int) -> bytes:
    return "\n".join(["v1", "{}", *(f'{{"logOffset":{n}}}' for n in offsets)]).encode()


def checkpoint(*, ends: list[int], state: list[int] | None = None, planned: bool = False) -> Any:
    """Batches 0.. with those ends, committed but for a planned one, and deltas of versions."""
    batches = range(len(ends))
    files = {f"offsets/{n}": plan(ends[n]) for n in batches}
    files |= {f"commits/{n}": b"v1\n{}" for n in list(batches)[: -1 if planned else None]}
    files |= {f"state/0/0/{version}.delta": b"x" for version in state or []}
    return InMemory({"metadata": b'{"id":"0-0-0-0-1"}', **files})


@pytest.mark.parametrize(
    ("made", "batch", "runs", "removed"),
    [
        pytest.param(checkpoint(ends=[0, 1]), 1, 1, ["commits/1"], id="stateless"),
        pytest.param(
            checkpoint(ends=[0, 1, 2], planned=True), 1, 2, [], id="the next plan is there"
        ),
        pytest.param(
            checkpoint(ends=[0, 1, 2], state=[1, 2, 3]),
            2,
            2,
            ["commits/2", "state/0/0/3.delta"],
            id="with state",
        ),
        pytest.param(
            checkpoint(ends=[0, 1, 1], state=[1, 2, 3]),
            2,
            1,
            ["commits/1", "commits/2", "offsets/2", "state/0/0/2.delta", "state/0/0/3.delta"],
            id="the last batch had no input",
        ),
        pytest.param(
            checkpoint(ends=[0], state=[1]), 0, 0, ["commits/0", "state/0/0/1.delta"], id="first"
        ),
    ],
)
def test_a_copy_is_cut_back_to_a_batch_that_reads_something(
    made: InMemory, batch: int, runs: int, removed: list[str]
) -> None:
    cut = plan_cut(made.listing(), made.read, batch)

    assert (cut.runs, cut.has_input, cut.why_not) == (runs, True, "")
    assert sorted(cut.remove) == removed


def test_state_of_another_codec_is_cut_back_by_the_ids_of_older_commits() -> None:
    made = other_codec(golden("agg_rocks_v2"), zip_at=3)
    batch = int(made.newest("commits").rpartition("/")[2])

    cut = plan_cut(made.listing(), made.read, batch)

    # The last batch had no input.
    assert (cut.runs, cut.has_input, cut.why_not) == (batch - 1, True, "")


def test_hidden_checksums_go_with_their_files() -> None:
    made = checkpoint(ends=[0, 1])
    made.files["commits/.1.crc"] = b"crc"

    assert plan_cut(made.listing(), made.read, 1).remove == ("commits/1", "commits/.1.crc")


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        pytest.param("offsets/1", "the copy has no plan of batch 1.", id="no plan before it"),
        pytest.param(
            "state/0/0/2.delta", "the copy holds no state from before batch 2", id="no state"
        ),
    ],
)
def test_where_nothing_can_be_cut_it_is_said_why(lost: str, why: str) -> None:
    made = checkpoint(ends=[0, 1, 2], state=[1, 2, 3])
    del made.files[lost]
    # An older batch would still do.
    del made.files["offsets/0"]

    cut = plan_cut(made.listing(), made.read, 2)

    assert cut.runs is None
    assert why in cut.why_not


def test_a_batch_without_input_is_the_last_choice() -> None:
    made = checkpoint(ends=[0, 1, 1], state=[1, 2, 3])
    del made.files["offsets/0"]

    cut = plan_cut(made.listing(), made.read, 2)

    assert (cut.runs, cut.has_input) == (2, False)


def test_a_copy_that_needs_input_forgets_a_planned_batch_that_reads_nothing() -> None:
    made = checkpoint(ends=[0, 1, 1, 1], state=[1, 2, 3])
    del made.files["commits/3"]

    rehearsed = plan_cut(made.listing(), made.read, 2, needs_input=True)

    assert plan_cut(made.listing(), made.read, 2).runs == 3
    assert (rehearsed.runs, rehearsed.has_input) == (1, True)
    assert {"offsets/3", "offsets/2", "commits/2", "commits/1"} <= set(rehearsed.remove)


def test_a_copy_that_needs_input_and_has_none_to_read_again_waits_for_new() -> None:
    made = checkpoint(ends=[0, 1, 1, 1], state=[1, 2, 3])
    del made.files["commits/3"]
    for lost in ("offsets/0", "state/0/0/1.delta"):
        made.files.pop(lost, None)

    cut = plan_cut(made.listing(), made.read, 2, needs_input=True)

    assert (cut.runs, cut.has_input) == (None, True)
    assert cut.remove == ("offsets/3",)
    assert cut.why_not == "the copy has no plan of batch 0."


def a_backup(spark: str | None, at_least: str | None = None) -> Backup:
    query = QueryBackup(
        folder="",
        checkpoint="/ck",
        query_id="0-0-0-0-1",
        batch=1,
        planned=1,
        spark_at_least=at_least,
    )
    return Backup(
        id="b",
        stream="orders",
        begun_at=NOW,
        finished_at=NOW,
        origin=Origin.MANUAL,
        by="kim",
        queries=(query,),
        bundles=(),
        files=0,
        size=0,
        spark_version=spark,
    )


RUNTIMES = {"old": "3.5.9", "blue": "4.1.4", "green": "4.3.0"}


@pytest.mark.parametrize(
    ("spark", "at_least", "newer", "chosen"),
    [
        pytest.param("4.1.2", None, False, "blue", id="same minor version"),
        pytest.param("4.2.0", None, False, None, id="none of that version"),
        pytest.param("4.2.0", None, True, "green", id="a newer one when asked"),
        pytest.param("4.4.0", None, True, None, id="never an older one"),
        pytest.param(None, "4.0", False, "blue", id="one that writes the same things"),
        pytest.param(None, "3.2", False, "old", id="an old checkpoint"),
        pytest.param(None, "4.3", False, "green", id="the newest"),
        pytest.param(None, None, False, "green", id="nothing is known"),
    ],
)
def test_the_spark_that_wrote_a_backup_drills_it(
    spark: str | None, at_least: str | None, newer: bool, chosen: str | None
) -> None:
    assert choose_spark(a_backup(spark, at_least), RUNTIMES, newer=newer) == chosen


@pytest.mark.parametrize(
    ("spark", "at_least", "expected"),
    [
        ("4.1.2", None, "Spark 4.1.2, which wrote it"),
        (None, "4.0", "Spark 4.0 or newer, before 4.2"),
        (None, "4.3", "Spark 4.3 or newer"),
        (None, "2.4", "Spark 2.4 or newer, before 4.0"),
        (None, None, "any Spark, as nothing tells which one wrote it"),
    ],
)
def test_it_is_said_which_spark_a_backup_wants(
    spark: str | None, at_least: str | None, expected: str
) -> None:
    assert describe_spark(a_backup(spark, at_least)) == expected
