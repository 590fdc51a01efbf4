"""The task of a disaster drill, with a Spark that is played."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.operators.common.checkpoint import Terminated
from airflow_streaming.operators.disaster import DisasterDrillOperator
from airflow_streaming.services.disaster import drill as module
from tests.unit.checkpoints.restoring import bytes_of
from tests.unit.operators.checkpoints import back_up
from tests.unit.world import World

pytestmark = pytest.mark.usefixtures("asked")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How Spark was asked to run."""
    told: list[dict[str, Any]] = []

    def rehearse(place: Any, program: Any, runtime: Any, **more: Any) -> Rehearsed:
        told.append({"program": program, "runtime": runtime, **more})
        return Rehearsed(
            application="orders.py", spark="4.3.0", subject=place.subject, seconds=2.0, findings=()
        )

    monkeypatch.setattr(module, "rehearse", rehearse)
    return told


def drill(world: World, **more: Any) -> DisasterDrillOperator:
    with DAG("drill", schedule=None):
        return DisasterDrillOperator(
            task_id="drill",
            **{
                "streams": [world.spec(conf={"spark.token": "s3cret"})],
                "to": str(world.folder / "drills"),
                **more,
            },
        )


def test_the_deployed_script_runs_with_the_secrets_of_the_dag(
    stream: World, asked: list[dict[str, Any]]
) -> None:
    back_up(stream)
    before = bytes_of(stream.folder / "home")

    found = drill(stream, time_limit=timedelta(minutes=3)).execute(stream.context())

    assert found == {"orders": "recovered"}
    (one,) = asked
    assert one["program"].source == stream.script.read_bytes()
    assert (one["bounds"].seconds, one["bounds"].until_caught_up) == (180.0, True)
    assert bytes_of(stream.folder / "home") == before
    assert stream.ti.xcoms["report"]["streams"][0]["result"] == "recovered"
    assert "Disaster drill 1" in stream.ti.xcoms["markdown"]


def test_a_missing_backup_store_is_refused_and_leaves_nothing(stream: World) -> None:
    with pytest.raises(AirflowFailException, match="is not a backup store"):
        drill(stream).execute(stream.context())

    assert not (stream.folder / "drills").exists()


def test_a_lost_stream_fails_the_task_after_its_report(stream: World) -> None:
    open_backup_store(str(stream.folder / "home" / "_backups"), create=True)
    with pytest.raises(AirflowFailException, match=r"1 of 1 streams .* orders: no_backup"):
        drill(stream).execute(stream.context())

    assert stream.ti.xcoms["report"]["verdict"] == "lost"
    assert drill(stream, fail_on="never").execute(stream.context()) == {"orders": "lost"}


def test_a_selector_chooses_among_the_streams_of_the_task(stream: World) -> None:
    back_up(stream)

    assert drill(stream, select="name=orders").execute(stream.context()) == {"orders": "recovered"}
    with pytest.raises(AirflowFailException, match="no state and no level"):
        drill(stream, select="level=bad").execute(stream.context())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"fail_on": "always"}, "fail_on is 'always'"),
        ({"at_once": 0}, "at_once is 0"),
        ({"streams": []}, "streams of one home"),
    ],
)
def test_wrong_arguments_are_refused_at_once(stream: World, wrong: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        drill(stream, **wrong)


def test_a_kill_ends_the_work_only_while_there_is_work(stream: World) -> None:
    task = drill(stream)
    task.on_kill()
    task._is_at_work = True

    with pytest.raises(Terminated, match="the next try continues"):
        task.on_kill()
