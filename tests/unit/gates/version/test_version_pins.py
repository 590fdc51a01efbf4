from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.stored import StoreSchema
from tests.unit.gates.version.asking import (
    AGGREGATE,
    FRUIT,
    MERGE,
    NULLABLE,
    ORDER,
    ROCKSDB,
    SHORT_IN_ALL,
    judge,
    of_duplicates,
)
from tests.unit.gates.version.cases import a_checkpoint, an_operator


@pytest.mark.parametrize(
    ("checkpoint", "schemas", "target", "lost"),
    [
        pytest.param(a_checkpoint(), None, "4.0", set(), id="no state"),
        pytest.param(AGGREGATE, None, "4.2", {NULLABLE}, id="an aggregation"),
        pytest.param(
            a_checkpoint(an_operator(stores=(ROCKSDB,))),
            None,
            "4.2",
            {NULLABLE},
            id="RocksDB, to one that knows how it merges",
        ),
        pytest.param(
            a_checkpoint(an_operator(stores=(ROCKSDB,))),
            None,
            "4.1",
            {NULLABLE, MERGE},
            id="RocksDB",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            (of_duplicates(*SHORT_IN_ALL[:4]),),
            "4.2",
            {NULLABLE},
            id="few columns",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            (of_duplicates(*SHORT_IN_ALL),),
            "4.2",
            {NULLABLE, ORDER},
            id="more than four columns",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            None,
            "4.2",
            {NULLABLE, ORDER},
            id="so many columns as are not known",
        ),
    ],
)
def test_of_the_lost_settings_those_are_named_that_the_operators_go_by(
    checkpoint: Checkpoint, schemas: tuple[StoreSchema, ...] | None, target: str, lost: set[str]
) -> None:
    report = judge(checkpoint, f"4.3 to {target}", schemas=schemas)

    found = [each.old for each in report.findings if each.rule == "version.pins_lost"]
    assert {pair.partition("=")[0] for old in found for pair in old.split(", ")} == lost


@pytest.mark.parametrize(
    ("checkpoint", "lost", "schemas", "rule"),
    [
        pytest.param(a_checkpoint(), {NULLABLE: "true", MERGE: "2"}, None, "", id="no state"),
        pytest.param(AGGREGATE, {NULLABLE: "false"}, None, "", id="old values"),
        pytest.param(AGGREGATE, {MERGE: "2"}, None, "", id="nothing of RocksDB"),
        pytest.param(
            a_checkpoint(an_operator(stores=(ROCKSDB,))),
            {MERGE: "2"},
            None,
            "version.down_and_up",
            id="how RocksDB merges",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            {ORDER: "true"},
            (of_duplicates(*FRUIT),),
            "version.deduplication_order",
            id="columns in the order of the code",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            {ORDER: "true"},
            (of_duplicates(*SHORT_IN_ALL),),
            "",
            id="columns that lie by chance as in the hash set",
        ),
        pytest.param(
            a_checkpoint(an_operator("dedupe")),
            {ORDER: "true"},
            None,
            "version.down_and_up",
            id="columns that are not known",
        ),
    ],
)
def test_a_second_way_up_is_not_taken_for_the_first(
    checkpoint: Checkpoint,
    lost: dict[str, str],
    schemas: tuple[StoreSchema, ...] | None,
    rule: str,
) -> None:
    been_up = replace(checkpoint, lost_conf=lost)

    rules = {found.rule for found in judge(been_up, "4.0 to 4.3", schemas=schemas).findings}

    against = {"version.down_and_up", "version.deduplication_order"}
    assert rules & against == ({rule} if rule else set())
