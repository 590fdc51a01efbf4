"""An upgrade that is kept and one that takes itself back, on a real Airflow and a real Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_streaming.model.records.upgrade_table import Stage
from demo.waiting import Progress
from tests.system.upgrades.applications import BAD, write
from tests.system.upgrades.play import DAG, Play, standstill

BAD_ONE = "fails_after_3_batches"

AHEAD = 8
"""Files that may wait: less than the soak takes for a backlog, however slow the machine is."""

Runtimes = dict[str, Path]


@pytest.fixture
def runtimes(spark_3_5: Path, spark_4_3: Path) -> Runtimes:
    return {"spark-3.5": spark_3_5, "spark-4.3": spark_4_3}


@pytest.mark.nightly("An upgrade, a soak, a second upgrade and a roll-back in one Airflow.")
def test_a_good_upgrade_is_kept_and_a_bad_one_takes_itself_back(
    runtimes: Runtimes, tmp_path: Path
) -> None:
    bad = write(tmp_path / "bad")[BAD_ONE]
    changed(tmp_path, runtimes, to_newer_spark, lambda play: to_a_bad_application(play, bad))


def test_an_upgrade_to_a_newer_spark_is_kept(runtimes: Runtimes, tmp_path: Path) -> None:
    changed(tmp_path, runtimes, to_newer_spark)


def changed(folder: Path, runtimes: Runtimes, *changes: Callable[[Play], None]) -> None:
    """Launch the stream, make the changes, and compare its output with all rows that were written for it."""
    play = Play(folder, runtimes, Progress(), ahead=AHEAD)
    with play.stage:
        play.launch()
        for change in changes:
            change(play)
        rows = play.finish()

    assert rows["expected"] > 0
    assert (rows["lost"], rows["doubled"], rows["wrong"]) == (0, 0, 0), rows
    assert play.stage.drivers.most == 1
    assert not play.stage.leftovers()


def to_newer_spark(play: Play) -> None:
    run = play.ask(runtime="spark-4.3")
    report = play.answer(run, "Approve")
    ended = play.end(run)

    assert ended.stage is Stage.KEPT, ended.reasons
    assert ended.state == "success"
    assert "3.5" in report
    deployment, epoch = play.home.newest_deployment(), play.home.newest_epoch()
    assert deployment is not None
    assert epoch is not None
    assert deployment.runtime == "spark-4.3"
    play.say(f"{standstill(play.home, 1, epoch.number).whole:.1f} s without a commit")


def to_a_bad_application(play: Play, application: Path) -> None:
    before = play.home.newest_deployment()
    assert before is not None
    run = play.ask(runtime="spark-4.3", application=str(application))
    play.answer(run, "Approve")
    ended = play.end(run)

    assert ended.stage is Stage.ROLLED_BACK, ended.reasons
    assert ended.state == "failed"
    assert BAD[BAD_ONE].says in ended.reasons
    back = play.home.newest_deployment()
    assert back is not None
    assert back.number == before.number + 2
    assert back.application_sha256 == before.application_sha256
    play.until(play.stage.stream.is_well, f"{DAG} to be well again")
