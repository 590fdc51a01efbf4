"""The oldest Spark that can have written a checkpoint."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.formats import PINNED_SINCE, spark_at_least
from airflow_streaming.model.spark.logs import parse_commit_log, parse_offset_log
from tests.golden import golden_checkpoints


def test_of_nothing_nothing_is_known() -> None:
    assert spark_at_least(None) is None
    assert spark_at_least({}) is None
    assert spark_at_least({"spark.sql.unheard.of": "1"}, offset_log=9) is None


@pytest.mark.parametrize(
    ("hints", "release"),
    [
        ({"offset_log": 1}, "2.1"),
        ({"offset_log": 2}, "4.2"),
        ({"offset_log": 1, "commit_log": 2}, "4.0"),
        ({"commit_log": 3}, "4.2"),
        ({"offset_log": 1, "operator_metadata": 1}, "4.0"),
        ({"operator_metadata": 2}, "4.0"),
        ({"offset_log": 1, "state_schema": 1}, "3.1"),
        ({"state_schema": 3}, "4.0"),
    ],
    ids=str,
)
def test_formats_tell_a_release(hints: dict[str, int], release: str) -> None:
    assert spark_at_least(None, **hints) == release


@pytest.mark.parametrize("key", PINNED_SINCE)
def test_each_pinned_setting_tells_the_first_release_that_pins_it(key: str) -> None:
    assert spark_at_least({"spark.sql.shuffle.partitions": "3", key: "x"}) == PINNED_SINCE[key]


def test_the_newest_sign_counts() -> None:
    assert spark_at_least(dict.fromkeys(PINNED_SINCE, "x"), offset_log=1) == "4.3"
    assert spark_at_least({"spark.sql.streaming.stateStore.encodingFormat": ""}) == "4.0"


def test_golden_checkpoints_tell_the_truth() -> None:
    """4.1 writes nothing by which it could be told from 4.0."""
    found = set()
    for golden in golden_checkpoints():
        newest = max((golden.path / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        plan = parse_offset_log(newest.read_bytes())
        commit = parse_commit_log((golden.path / "commits" / newest.name).read_bytes())
        hints = {"offset_log": plan.log_version, "commit_log": commit.log_version}
        found.add((golden.spark, spark_at_least(plan.conf, **hints)))

    assert found == {("3.5.9", "3.5"), ("4.1.4", "4.0"), ("4.3.0", "4.3")}
