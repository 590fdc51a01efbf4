"""Checkpoints that look odd and are as Spark leaves them: nothing is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_streaming.checkpoints.read.report import FindingCode, SourceType
from tests.unit.checkpoints.in_memory import InMemory, empty, golden
from tests.unit.checkpoints.state_defects import STATE_VARIABLES

UUID = "0fec5405-3c93-495a-8380-81f6208b1d7b"


def planned(it: InMemory, batch: int) -> InMemory:
    """Plan the batch after the newest one, as a running query does."""
    it.files[f"offsets/{batch}"] = it.files[f"offsets/{batch - 1}"]
    return it


def running(shape: str, forms: dict[str, str]) -> InMemory:
    """Return a checkpoint in whose newest batch one of three tasks is done."""
    it = planned(golden(shape), 7)
    for old, new in forms.items():
        it.files[f"state/0/0/{new}"] = it.files[f"state/0/0/{old}"]
    it.files[f"state/0/1/.8.delta.{UUID}.tmp"] = b"half"
    it.files[f"offsets/.8.{UUID}.tmp"] = b"v1"
    return it


def with_old_logs(conf: str, commit: str | None) -> InMemory:
    """Return a query with state as a Spark before 3.1 left it."""
    it = golden("agg", "3.5.9", hidden_files=False).delete("state/0/0/_metadata/schema")
    for batch in range(7):
        offsets = it.files[f"offsets/{batch}"].decode().split("\n")[2]
        about = f'{{"batchWatermarkMs":0,"batchTimestampMs":1480981499528{conf}}}'
        it.write(f"offsets/{batch}", f"v1\n{about}\n{offsets}")
        if commit is None:
            it.delete(f"commits/{batch}")
        else:
            it.write(f"commits/{batch}", f"v1\n{commit}")
    return it


def unevenly_purged() -> InMemory:
    return golden("many_batches").delete("offsets/26", "offsets/27", "commits/26")


def with_cut_off_purge() -> InMemory:
    return empty().run(3, *range(7, 20))


def repartitioned() -> InMemory:
    """Return a checkpoint that had more partitions up to batch 4."""
    it = golden("agg")
    for batch in range(5, 7):
        it.replace(f"offsets/{batch}", 'shuffle.partitions":"3"', 'shuffle.partitions":"2"')
    return it.delete("state/0/2/6.delta", "state/0/2/7.delta")


def aggregated_without_keys() -> InMemory:
    it = golden("agg").delete("state/0/1", "state/0/2")
    return it.replace("state/0/_metadata/metadata", '"numPartitions":3', '"numPartitions":1')


def in_first_batch() -> InMemory:
    it = golden("agg").delete("commits", *(f"offsets/{batch}" for batch in range(1, 7)))
    for partition in range(3):
        it.delete(*(f"state/0/{partition}/{version}.delta" for version in range(2, 8)))
    return it.delete("state/0/1", "state/0/2")


SOUND: list[tuple[str, Callable[[], InMemory]]] = [
    (
        "only the folders are made, as in the first moment of a query",
        lambda: InMemory({f"offsets/.0.{UUID}.tmp": b"", f".metadata.{UUID}.tmp": b"{"}),
    ),
    ("just started", empty),
    ("the first batch is planned", lambda: empty().plan(0)),
    ("the first batch is in work and has written some state", in_first_batch),
    ("the first batch is done", lambda: empty().run(0)),
    ("a batch is planned ahead", lambda: planned(golden("agg"), 7)),
    (
        "a task of the planned batch has written its delta",
        lambda: running("agg", {"7.delta": "8.delta"}),
    ),
    (
        "a task of the planned batch has written its zip and SST files nobody names yet",
        lambda: running(
            "agg_rocks", {"7.zip": "8.zip", "_metadata/schema": f"SSTs/000099-{UUID}.sst"}
        ),
    ),
    (
        "a task of the planned batch has written its changelog with an id",
        lambda: running("agg_rocks_v2", {"_metadata/schema": f"8_{UUID}.changelog"}),
    ),
    ("old batches were purged", lambda: golden("many_batches")),
    ("one log was purged further than the other", unevenly_purged),
    ("a purge was cut off", with_cut_off_purge),
    ("copied without Hadoop's hidden files", lambda: golden("agg", hidden_files=False)),
    ("an earlier repartition left older files", repartitioned),
    ("an aggregate without keys has one partition", aggregated_without_keys),
    ("Spark 2.1: no commits, no pinned configuration", lambda: with_old_logs("", None)),
    ("Spark 2.2: commits without a watermark", lambda: with_old_logs("", "{}")),
    (
        "Spark 2.4: the store's class is pinned",
        lambda: with_old_logs(
            ',"conf":{"spark.sql.shuffle.partitions":"3","spark.sql.streaming.stateStore.provider'
            'Class":"org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"}',
            '{"nextBatchWatermarkMs":0}',
        ),
    ),
    (
        "a source that does not say anything before its first data",
        lambda: empty().plan(0, ("-", {"orders": {"0": 1}})).commit(0).plan(1, (7, 8)),
    ),
    (
        "a source of somebody's own writes text",
        lambda: empty().plan(0, ("-",)).commit(0).plan(1, ("position 12",)),
    ),
]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in SOUND])
def test_nothing_is_wrong(make: Callable[[], InMemory]) -> None:
    assert make().report().problems == ()


def test_a_query_without_state_and_one_that_lost_it_look_the_same() -> None:
    found = golden("stateless").report()

    assert found.is_stateful is None
    assert [remark.code for remark in found.remarks] == [FindingCode.STATE_UNKNOWN]


def test_a_commit_that_could_name_state_and_names_none_is_of_a_query_without_state() -> None:
    found = empty().plan(0).write("commits/0", 'v2\n{"nextBatchWatermarkMs":0}').report()

    assert (found.is_stateful, found.remarks) == (False, ())


@pytest.mark.parametrize(
    "batches",
    [(0, 5, 11, 14, 20), (3, 4, 9, 15, 21, 22)],
    ids=["every step skips batches", "most steps skip batches"],
)
def test_gaps_of_asynchronous_progress_are_a_remark(batches: tuple[int, ...]) -> None:
    found = empty().run(*batches).plan(batches[-1] + 6).report()

    assert found.is_sound
    assert found.async_progress
    assert FindingCode.ASYNC_PROGRESS in {remark.code for remark in found.remarks}


def test_gaps_in_one_log_only_are_none_of_asynchronous_progress() -> None:
    broken = empty().run(*range(12)).delete("offsets/2", "offsets/4", "offsets/6", "offsets/8")

    assert not broken.report().async_progress
    assert broken.problems() == {FindingCode.OFFSETS_GAP}


def test_an_operator_whose_key_holds_nothing_has_one_partition_whatever_is_pinned() -> None:
    lone = golden("agg").delete("state/0/1", "state/0/2")
    assert lone.problems() == {FindingCode.STATE_PARTITIONS}

    # As Spark 4.3 left the state of a limit, whose metadata counts the pinned partitions.
    limit = (STATE_VARIABLES / "state_schema_limit-4.3.0").read_bytes()
    found = lone.write("state/0/0/_metadata/schema", limit).report()

    assert found.is_sound
    assert [operator.partitions for operator in found.operators] == [1]


def test_files_that_spark_never_writes_are_named_and_left_alone() -> None:
    littered = golden("agg").write("notes.txt", b"").write("state/0/0/7.delta.bak", b"")
    for number in range(20):
        littered.write(f"exports/{number}.csv", b"")

    found = littered.report()

    assert found.is_sound
    unknown = [remark for remark in found.remarks if remark.code is FindingCode.UNKNOWN_FILE]
    assert len(unknown) == 11
    assert "12 more" in unknown[-1].message


def test_the_newest_commit_tells_the_watermark_and_else_the_newest_plan() -> None:
    one = empty().plan(0, watermark=0).commit(0, watermark=5000)

    assert one.report().watermark_ms == 5000
    assert one.plan(1, watermark=5000).write("commits/0", "v1\n{}").report().watermark_ms == 5000
    assert empty().report().watermark_ms is None


def test_positions_are_of_the_newest_plan_and_of_the_newest_commit() -> None:
    it = empty().plan(0, ({"orders": {"0": 5}}, "-")).commit(0)
    it.plan(1, ({"orders": {"0": 9}}, 4))

    kafka, number = it.report().sources

    assert (kafka.source, kafka.offset, kafka.committed) == (
        SourceType.KAFKA,
        {"orders": {"0": 9}},
        {"orders": {"0": 5}},
    )
    assert (number.source, number.offset, number.committed) == (SourceType.NUMBER, 4, None)
