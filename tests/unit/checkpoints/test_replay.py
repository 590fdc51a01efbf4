"""What a restore means is said in numbers and sentences, and all that speaks against it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.formats import newer_than, too_new
from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Finding,
    FindingCode,
    Operator,
    SourcePosition,
    SourceType,
)
from airflow_streaming.checkpoints.restore.refusal import (
    Circumstances,
    Occupied,
    going_back,
    of_checkpoint,
    of_place,
    of_queries,
    of_stream,
    warnings,
)
from airflow_streaming.checkpoints.restore.replay import (
    ACCEPTABLE,
    OutOfStep,
    QueryReplay,
    Refusal,
    RefusalCode,
    RestorePlan,
)
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.observation import DriverLiveness
from airflow_streaming.model.records.upgrade import SinkFacts
from tests.unit.checkpoints.backups import a_backup


def a_checkpoint(batch: int | None = 4, planned: int | None = None, **changes: Any) -> Checkpoint:
    fields: dict[str, Any] = {
        "uri": "/ck",
        "query_id": "1-0-0-0-1",
        "offset_log_version": 1,
        "commit_log_version": 1,
        "last_committed_batch": batch,
        "last_planned_batch": batch if planned is None else planned,
    }
    return Checkpoint(**{**fields, **changes})


def a_source(committed: Any, source: SourceType, offset: Any = None) -> SourcePosition:
    return SourcePosition(
        name="0", source=source, offset=committed if offset is None else offset, committed=committed
    )


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("c", "a", "b"), "a, b, c."),
        (("d", "c", "a", "b"), "a, b, c and 1 more."),
        (tuple("abcdefg"), "a, b, c and 4 more."),
    ],
)
def test_a_place_in_use_names_three_of_its_entries(names: tuple[str, ...], told: str) -> None:
    [refusal] = of_place("/new", Occupied(names=names), "b-1")

    assert f"/new is not empty: it has {told}" in refusal.message


def said(replay: QueryReplay) -> str:
    return " ".join(replay.says)


def test_going_back_says_which_batches_come_again() -> None:
    replay = going_back("counts", a_checkpoint(4), a_checkpoint(9, planned=10))

    assert (replay.batch, replay.current, replay.again) == (4, 9, (5, 10))
    assert "Query 'counts' goes back 5 batches, from batch 9 to batch 4." in said(replay)
    assert "The sink sees batches 5 to 10 again" in said(replay)
    assert "They may hold other rows than before." in said(replay)


def test_a_planned_batch_keeps_its_limits() -> None:
    replay = going_back("", a_checkpoint(4, planned=5), a_checkpoint(9))

    assert "Batch 5 has its old limits; later ones may hold other rows" in said(replay)


@pytest.mark.parametrize(
    ("current", "sentence"),
    [
        (None, "The position of its present checkpoint is unknown"),
        (a_checkpoint(4), "The query continues where it is, after batch 4."),
        (a_checkpoint(2), "The query goes forward from batch 2 to batch 4"),
        (a_checkpoint(4, planned=5), "The sink sees batches 5 to 5 again"),
    ],
    ids=["unknown", "no way", "forward", "only the batch in work"],
)
def test_the_way_is_said_whichever_it_is(current: Checkpoint | None, sentence: str) -> None:
    assert sentence in said(going_back("", a_checkpoint(4), current))


@pytest.mark.parametrize(
    ("source", "early", "late", "amount", "sentence"),
    [
        (SourceType.KAFKA, {"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4, "again 4 records"),
        (SourceType.KAFKA, {"t": {"0": 5}}, {"t": {"0": 9, "1": 3}}, None, "goes from {'t'"),
        (SourceType.KAFKA, {"t": {"0": 9}}, {"t": {"0": 5}}, -4, "does not read 4 records"),
        (SourceType.FILE, {"logOffset": 3}, {"logOffset": 8}, 5, "again 5 entries of its log"),
        (SourceType.NUMBER, 3, 8, 5, "again 5 of its own steps"),
        (SourceType.RATE_MICRO_BATCH, {"offset": 10}, {"offset": 40}, 30, "again 30 rows"),
        (SourceType.CUSTOM, {"at": "a"}, {"at": "b"}, None, "goes from {'at': 'b'} to {'at': 'a'}"),
        (SourceType.FILE, {"logOffset": "3"}, {"logOffset": 8}, None, "goes from"),
        (SourceType.NUMBER, None, 8, None, "goes from 8 to None"),
    ],
)
def test_a_source_is_told_in_its_own_terms(
    source: SourceType, early: Any, late: Any, amount: int | None, sentence: str
) -> None:
    restored = a_checkpoint(4, sources=(a_source(early, source),))
    current = a_checkpoint(9, sources=(a_source(late, source),))

    replay = going_back("", restored, current)

    assert (replay.sources[0].back_to, replay.sources[0].from_) == (early, late)
    assert replay.sources[0].amount == amount
    assert sentence in said(replay)


KINDS = ("a Kafka sink", "a foreachBatch function", "a Delta table", "No log of a file sink")


@pytest.mark.parametrize(
    ("sink", "habit", "sentence"),
    [
        ("kafka", SinkReplaySemantics.APPENDS, "5 to 9 again: kafka writes their rows twice."),
        (
            "foreachbatch",
            SinkReplaySemantics.UNKNOWN,
            "5 to 9 again: its foreachBatch function is called with these ids once more.",
        ),
        (
            "delta",
            SinkReplaySemantics.REMEMBERS,
            "again: delta passes over the batches that it has",
        ),
        ("console", SinkReplaySemantics.NOTHING, "5 to 9 again, and console keeps nothing."),
        ("jdbc", SinkReplaySemantics.UNKNOWN, "The effect on sink 'jdbc' is unknown"),
        ("file", SinkReplaySemantics.FILE_LOG, "The log of the file sink was not read"),
    ],
)
def test_a_plan_speaks_of_the_sink_that_the_query_has_and_of_no_other(
    sink: str, habit: SinkReplaySemantics, sentence: str
) -> None:
    facts = SinkFacts(query="q", sink=sink, habit=habit)
    known = Circumstances(sinks={"q": facts})

    for folder in ("q", ""):
        replay = going_back(folder, a_checkpoint(4), a_checkpoint(9), sink=known.sink_of(folder))

        assert sentence in said(replay)
        assert not [kind for kind in KINDS if kind in said(replay)]


def test_a_plan_for_an_unknown_sink_speaks_of_every_kind() -> None:
    replay = going_back("q", a_checkpoint(4), a_checkpoint(9), sink=Circumstances().sink_of("q"))

    assert all(kind in said(replay) for kind in KINDS)


def a_gap(first: int, last: int) -> OutOfStep:
    return OutOfStep(code=RefusalCode.SINK_GAP, first=first, last=last)


@pytest.mark.parametrize(
    ("planned", "sink", "step", "sentence"),
    [
        (4, 9, a_gap(5, 9), "silently drops 5 to 9"),
        (5, 9, a_gap(6, 9), "silently drops 6 to 9"),
        (4, 5, a_gap(5, 5), "silently drops 5 to 5"),
        (5, 5, None, "drops it; nothing is lost, because it has its old limits"),
        (4, 4, None, "nothing is lost and nothing doubled"),
        (
            4,
            2,
            OutOfStep(code=RefusalCode.SINK_BEHIND, first=3, last=4),
            "the output lacks batches 3 to 4",
        ),
        (4, None, None, "No log of a file sink was read"),
    ],
    ids=[
        "far ahead",
        "far ahead of a planned batch",
        "one ahead with other limits",
        "one ahead with the same limits",
        "level",
        "behind",
        "unknown",
    ],
)
def test_what_a_file_sink_does_is_told_by_its_newest_batch(
    planned: int, sink: int | None, step: OutOfStep | None, sentence: str
) -> None:
    replay = going_back("q", a_checkpoint(4, planned), a_checkpoint(9), sink_batch=sink)

    assert replay.sink_step == step
    assert sentence in said(replay)


def codes(refusals: Any) -> list[RefusalCode]:
    return [refusal.code for refusal in refusals]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (Occupied(), None),
        (Occupied(names=("offsets",)), RefusalCode.TARGET_NOT_EMPTY),
        (Occupied(names=("counts",), restore="other"), RefusalCode.OTHER_RESTORE),
        (Occupied(names=("counts",), restore="mine"), None),
    ],
    ids=["empty", "something there", "another restore", "the same restore"],
)
def test_a_restore_needs_a_place_of_its_own(found: Occupied, code: RefusalCode | None) -> None:
    assert codes(of_place("/new", found, "mine")) == ([code] if code else [])


@pytest.mark.parametrize(
    ("circumstances", "code", "sentence"),
    [
        ({"stream": "other"}, RefusalCode.OTHER_STREAM, "is of stream 'orders', not of 'other'"),
        ({"wanted_running": True}, RefusalCode.WANTED_RUNNING, "is running. Stop it first"),
        (
            {"driver": DriverLiveness.ALIVE, "driver_detail": "process 7 is alive"},
            RefusalCode.DRIVER_ALIVE,
            "has a living driver (process 7 is alive)",
        ),
        (
            {"driver": DriverLiveness.UNPROVED, "driver_detail": "on host b."},
            RefusalCode.DRIVER_UNPROVED,
            "not proved gone (on host b)",
        ),
        (
            {"pending": "Restoring x."},
            RefusalCode.CHANGE_PENDING,
            "unfinished change: Restoring x.",
        ),
    ],
)
def test_what_speaks_against_a_restore_of_a_stream_is_said(
    circumstances: dict[str, Any], code: RefusalCode, sentence: str
) -> None:
    known = Circumstances(**{"stream": "orders", **circumstances})

    (refusal,) = of_stream(a_backup(1), known)

    assert refusal.code is code
    assert sentence in refusal.message


@pytest.mark.parametrize("driver", [DriverLiveness.NONE, DriverLiveness.DEAD])
def test_nothing_speaks_against_a_stopped_stream(driver: DriverLiveness) -> None:
    assert codes(of_stream(a_backup(1), Circumstances(stream="orders", driver=driver))) == []


@pytest.mark.parametrize(
    ("claims", "locations", "found"),
    [
        ({"a": "1-0-0-0-1"}, {}, []),
        ({"a": "2-0-0-0-1"}, {}, [RefusalCode.QUERY_ID_DIFFERS]),
        ({"a": "1-0-0-0-1", "b": "3-0-0-0-1"}, {}, [RefusalCode.QUERY_MISSING]),
        ({}, {"a": "/own/place"}, [RefusalCode.OWN_LOCATION]),
        ({}, {}, []),
    ],
    ids=["the same query", "another id", "a query more", "a place of its own", "no claims yet"],
)
def test_the_queries_have_to_be_the_streams_own(
    claims: dict[str, str], locations: dict[str, str], found: list[RefusalCode]
) -> None:
    known = Circumstances(stream="orders", claims=claims, own_locations=locations)

    assert codes(of_queries({"a": a_checkpoint()}, known)) == found


def test_a_backup_of_one_checkpoint_is_held_against_the_only_query() -> None:
    known = Circumstances(stream="orders", claims={"a": "2-0-0-0-1"})

    assert codes(of_queries({"": a_checkpoint()}, known)) == [RefusalCode.QUERY_ID_DIFFERS]


CHECKSUMS = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}
AVRO = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
WITH_VARIABLES = (Operator(id=0, name=None, partitions=2, schema_version=3),)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"state_format": 2, "commit_log_version": 2}, "4.0"),
        ({"commit_log_version": 3}, "4.2"),
        ({"offset_log_version": 2}, "4.2"),
        ({"operators": WITH_VARIABLES}, "4.0"),
        ({"conf": AVRO}, "4.0"),
        ({"conf": CHECKSUMS}, "4.2"),
    ],
    ids=["format 2", "commits 3", "offsets 2", "state variables", "avro", "row checksums"],
)
@pytest.mark.parametrize("runtime", ["3.5.9", "4.0.1", "4.1.4", "4.2.0", "4.3.0"])
def test_a_format_is_refused_on_every_older_spark(
    changes: dict[str, Any], first: str, runtime: str
) -> None:
    report = a_checkpoint(**changes)
    known = Circumstances(runtime=runtime)

    refused = codes(of_checkpoint(report, going_back("", report, None), 4, known))

    is_older = newer_than(first, runtime)
    assert refused == ([RefusalCode.FORMAT_TOO_NEW] if is_older else [])
    assert bool(too_new(report, runtime)) is is_older


def test_old_formats_of_a_newer_spark_are_only_warned_of() -> None:
    report = a_checkpoint(spark_at_least="4.3")

    assert too_new(report, "3.5.9") == []
    (warning,) = warnings([("counts", report)], Circumstances(runtime="3.5.9"))
    assert "was last run by Spark 4.3 or newer and will run on 3.5.9" in warning
    assert list(warnings([("counts", report)], Circumstances(runtime="4.3.0"))) == []
    assert list(warnings([("counts", report)], Circumstances())) == []


@pytest.mark.parametrize(
    ("sinks", "is_warned"),
    [
        pytest.param({}, True, id="no plan is recorded"),
        pytest.param({"counts": False}, False, id="the plan has no state"),
        pytest.param({"counts": True}, True, id="the plan has state"),
        pytest.param({"other": False, "late": False}, True, id="the plans are of other queries"),
    ],
)
def test_the_plan_tells_whether_state_can_be_missing(
    sinks: dict[str, bool], *, is_warned: bool
) -> None:
    unknown = Finding(code=FindingCode.STATE_UNKNOWN, path="state", message="No state folder.")
    facts = {
        query: SinkFacts(
            query=query, sink="file", habit=SinkReplaySemantics.FILE_LOG, is_stateful=is_stateful
        )
        for query, is_stateful in sinks.items()
    }

    found = warnings([("counts", a_checkpoint(remarks=(unknown,)))], Circumstances(sinks=facts))

    assert list(found) == (["Query 'counts': No state folder."] if is_warned else [])


def test_an_unknown_runtime_is_no_reason() -> None:
    assert too_new(a_checkpoint(state_format=2), None) == []


def test_a_backup_of_a_checkpoint_that_is_not_sound_is_refused() -> None:
    problem = Finding(code=FindingCode.COMMITS_GAP, path="commits/3", message="A hole.")
    report = a_checkpoint(problems=(problem,))

    (refusal,) = of_checkpoint(report, going_back("q", report, None), 4, Circumstances())

    assert refusal.code is RefusalCode.UNSOUND
    assert "Query 'q' in the backup is whole but not sound: A hole." in refusal.message


def test_a_backup_at_another_batch_than_it_says_is_refused() -> None:
    report = a_checkpoint(4)

    (refusal,) = of_checkpoint(report, going_back("q", report, None), 5, Circumstances())

    assert "its newest committed batch is 4, and batch 5 was pinned" in refusal.message


def test_rows_that_a_file_sink_would_drop_are_a_reason() -> None:
    report = a_checkpoint(4)
    replay = going_back("q", report, a_checkpoint(9), sink_batch=9)

    (refusal,) = of_checkpoint(report, replay, 4, Circumstances())

    assert refusal.code is RefusalCode.SINK_GAP
    assert "silently drop batches 5 to 9" in refusal.message


@pytest.mark.parametrize(
    ("batch", "sink_batch", "refused"),
    [
        (4, None, []),
        (4, 3, [RefusalCode.SINK_BEHIND]),
        (4, 4, []),
        # Planned and written, but its state is not in the backup.
        (4, 5, [RefusalCode.SINK_SKIPS_STATE]),
        (4, 9, [RefusalCode.SINK_SKIPS_STATE]),
    ],
)
@pytest.mark.parametrize("state", [{"is_stateful": True}, {"operators": WITH_VARIABLES}])
def test_a_sink_that_has_a_batch_keeps_its_state_from_being_written(
    state: dict[str, Any], batch: int, sink_batch: int | None, refused: list[RefusalCode]
) -> None:
    report = a_checkpoint(batch, **state)
    replay = going_back("q", report, a_checkpoint(9), sink_batch=sink_batch)

    assert codes(of_checkpoint(report, replay, batch, Circumstances())) == refused


def test_nobody_can_accept_what_would_break_a_stream() -> None:
    assert {code.value for code in ACCEPTABLE} == {
        "other_stream",
        "query_id_differs",
        "query_missing",
        "sink_behind",
        "sink_gap",
        "sink_skips_state",
        "sink_unseen",
    }


def test_a_plan_is_told_refusals_first_and_as_json() -> None:
    gap = Refusal(code=RefusalCode.SINK_GAP, message="Rows are lost.", query="q")
    full = Refusal(code=RefusalCode.TARGET_NOT_EMPTY, message="It is full.")
    plan = RestorePlan(
        backup="b-1",
        stream="orders",
        target="/new",
        queries=(going_back("q", a_checkpoint(4), a_checkpoint(4)),),
        refusals=(full,),
        accepted=(gap,),
        warnings=("Mind the step.",),
    )

    assert plan.is_refused
    assert plan.sentences()[:2] == ("Refused: It is full.", "Accepted: Rows are lost.")
    assert plan.sentences()[-1] == "Mind the step."
    shown = json.loads(json.dumps(plan.to_dict()))
    assert shown["refusals"][0]["code"] == "target_not_empty"
    assert shown["is_refused"] is True
