"""Restoring from a dag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.operators.restore import CheckpointRestoreOperator
from tests.unit.checkpoints.restoring import is_sound_at, run_batches
from tests.unit.operators.checkpoints import back_up, checkpoint_of, ours, stop, store_of
from tests.unit.world import World


def restore(world: World, **more: Any) -> dict[str, Any]:
    operator = CheckpointRestoreOperator(task_id="restore", **ours(world, **more))
    return operator.execute(world.context())


def restore_rendered(world: World, **rendered: Any) -> dict[str, Any]:
    templates = dict.fromkeys(rendered, "{{ told }}")
    operator = CheckpointRestoreOperator(task_id="restore", **ours(world, **templates))
    for name, text in rendered.items():
        setattr(operator, name, text)
    return operator.execute(world.context())


def test_a_restore_is_a_dry_run_unless_it_is_told_otherwise(stream: World) -> None:
    backup_id = back_up(stream)
    run_batches(checkpoint_of(stream), 6)
    stop(stream)

    told = restore(stream)

    assert told == {"backup": backup_id, "dry_run": True, "is_refused": False}
    deployment = stream.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 1
    (query,) = stream.ti.xcoms["plan"]["queries"]
    assert (query["batch"], query["current"]) == (4, 6)


def test_a_restore_makes_a_new_deployment_and_backs_up_what_is_given_up(stream: World) -> None:
    back_up(stream)
    run_batches(checkpoint_of(stream), 6)
    old = checkpoint_of(stream)
    stop(stream)

    told = restore(stream, dry_run=False, reason="bad release")

    assert told["deployment"] == 2
    assert is_sound_at(checkpoint_of(stream), 4)
    assert (old / "commits" / "6").exists()
    before = store_of(stream).backups()[-1]
    assert (before.origin, before.note) == (Origin.BEFORE_RESTORE, "bad release")
    assert before.queries[0].batch == 6


def test_what_is_given_up_may_be_beyond_a_backup(stream: World) -> None:
    back_up(stream)
    (checkpoint_of(stream) / "offsets" / "4").write_bytes(b"")
    stop(stream)

    restore(stream, dry_run=False)

    assert is_sound_at(checkpoint_of(stream), 4)
    assert len(store_of(stream).backups()) == 1


def test_a_restore_under_a_living_driver_is_refused_with_the_reason(stream: World) -> None:
    back_up(stream)

    assert restore(stream)["is_refused"]
    with pytest.raises(AirflowFailException, match=r"desired|living"):
        restore(stream, dry_run="False")

    assert stream.ti.xcoms["plan"]["refusals"]


def test_a_copy_is_restored_to_an_empty_place(stream: World, tmp_path: Path) -> None:
    back_up(stream)

    told = restore(stream, to=str(tmp_path / "copy"), dry_run=False)

    assert is_sound_at(Path(told["checkpoints"]["revenue"]), 4)
    with pytest.raises(AirflowFailException, match="copy"):
        restore(stream, to=str(tmp_path / "copy"), dry_run=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            {"accept": "driver_alive"}, "accept has 'driver_alive'", id="what is accepted"
        ),
        pytest.param({"backup_id": "20200101"}, "no backup '20200101'", id="the backup"),
    ],
)
def test_a_typing_error_in_the_form_restores_nothing(
    stream: World, given: dict[str, Any], message: str
) -> None:
    back_up(stream)
    stop(stream)

    with pytest.raises(SpecError, match="dry_run is 'no'"):
        restore(stream, dry_run="no")
    with pytest.raises(AirflowFailException, match=message):
        restore_rendered(stream, **given)
    assert checkpoint_of(stream).parent.name == "000001"
