"""Views and tables of a real catalog lead consumers: there, back, and never through nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.pointers.spark import SparkView
from airflow_streaming.model.products.live_output import LiveOutput
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE
from tests.quick_java import spark_environment

JOB = Path(__file__).with_name("pointing_job.py")
BLUE = LiveOutput(stream="orders", lane="orders", deployment=2, output="/lake/blue")
LAST = LiveOutput(
    stream="orders", lane="orders.green", deployment=1, output="/lake/green", number=99
)


pytestmark = pytest.mark.nightly("A Hive catalog, two races of moves and readers.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pointing")


@pytest.fixture(scope="module")
def told(spark_4_3: Path, folder: Path) -> dict[str, Any]:
    """What one Spark saw: catalog, moves and readers in one process, as Derby asks for."""
    subprocess.run(
        [str(spark_4_3 / "bin/python"), str(JOB), str(folder)],
        env={**spark_environment(spark_4_3), "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def test_a_view_is_led_there_and_back(told: dict[str, Any]) -> None:
    moved, again, undone, late, following, foreign = told["view"]
    assert moved == again == ["", "orders.green"]
    assert undone == ["", "orders"]
    assert "it already has the undo of record 1" in late[0]
    assert late[1] == "orders"
    assert following == ["", "orders.green"]
    assert "leads to stream 'orders'" in foreign[0]
    assert foreign[1] == "orders.green"


def test_a_table_is_led_there_and_back(told: dict[str, Any]) -> None:
    moved, undone, late = told["table"]
    assert moved == ["", "orders.green"]
    assert undone == ["", "orders"]
    assert "it already has the undo of record 1" in late[0]
    assert late[1] == "orders"


def test_only_what_is_ours_is_written(told: dict[str, Any]) -> None:
    assert "was not written by airflow-streaming" in told["strange"]
    assert "was not written by airflow-streaming" in told["own"][0]
    assert told["own"][1] == "orders"
    assert told["adopted"] == ["", "orders.green"]
    assert "is partitioned" in told["parted"]
    assert "Create it as an external table" in told["none"]


def test_readers_who_race_with_the_moves_find_all_rows_of_one_lane(told: dict[str, Any]) -> None:
    for race in told["race"]:
        assert race["wrong"] == []
        assert race["failed"] == []
        assert race["reads"] >= 3
        assert race["looks"] >= 3
        assert set(race["seen"]) <= {"orders", "orders.green"}
    # A view that is dropped and made anew is missing for a moment, which a race may not hit.
    before, after = told["born"]
    assert before == after


def test_the_adapter_moves_the_view_with_a_spark_of_its_own(
    spark_4_3: Path, folder: Path, told: dict[str, Any]
) -> None:
    metastore = f"jdbc:derby:;databaseName={folder}/metastore"
    view = SparkView(
        view="default.live",
        runtime=str(spark_4_3),
        select="SELECT '{lane}' AS lane, '{output}' AS output",
        conf={"spark.hadoop.javax.jdo.option.ConnectionURL": metastore},
    )
    view.move(LAST, BLUE)
