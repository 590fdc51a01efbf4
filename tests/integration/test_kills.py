"""A corner of the kill program on one Spark, with the repair; ``python -m tests.system.kills`` is the whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.kills.matrix import STORES, Case, Kill, Result, expected_result
from tests.system.kills.repairing import repair
from tests.system.kills.results import add, read, table
from tests.system.kills.running import PROGRAM, Killing, Outcome
from tests.system.live_session import Session

FORMAT_2 = "RocksDB with changelog, format 2"
LATE = (Kill.HALF_STATE, Kill.STATE, Kill.SINK)
CORNER = (
    ("file", FORMAT_2, 0, (Kill.SINK,)),
    ("file", FORMAT_2, 2, LATE),
    ("foreachBatch", FORMAT_2, 2, (Kill.SINK,)),
    ("file", "HDFS, format 1", 2, (Kill.SINK,)),
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, spark_4_3: Path) -> Iterator[list[Outcome]]:
    folder = tmp_path_factory.mktemp("kills")
    with Session(spark_4_3, folder, program=[str(PROGRAM), str(folder / "lake")]) as session:
        killing = Killing(session, folder)
        yield [
            outcome
            for sink, store, batch, kills in CORNER
            for outcome in killing.kill(sink, store, batch, kills, repair)
        ]


def test_spark_recovers_from_what_the_table_says(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == sum(len(kills) for *_, kills in CORNER)
    assert [one for one in outcomes if one.result is not expected_result(one.case, "4.3")] == []


def test_a_repaired_file_sink_has_every_row_once(outcomes: list[Outcome]) -> None:
    dead = [one for one in outcomes if one.result is Result.DEAD]

    assert {one.case.batch for one in dead} == {0, 2}
    assert all("CheckpointInfo length: 0" in one.error for one in dead)
    assert [one for one in dead if one.repaired is not Result.EXACT] == []


def test_a_cell_without_a_result_says_why(tmp_path: Path) -> None:
    results, store = tmp_path / "results.jsonl", "RocksDB with changelog, format 2"
    cases = [Case(store=store, sink=sink, kill=Kill.SINK, batch=2) for sink in ("topic", "iceberg")]
    add(results, "4.3", [Outcome(case=case, result=Result.EXACT) for case in cases[:1]])
    add(results, "3.5", [Outcome(case=case, result=Result.EXACT) for case in cases[1:]])

    rows = {
        line.split(" | ")[0]: line.split(" | ")[2:] for line in table(read(results)).splitlines()
    }

    assert rows["| topic"][:2] == ["not in this Spark", "not measured"]
    assert rows["| iceberg"][1:] == ["no jar"] * 3 + ["no jar |"]


def test_every_store_of_the_corner_is_one_of_the_matrix() -> None:
    assert {store for _, store, _, _ in CORNER} <= set(STORES)
