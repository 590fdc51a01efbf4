"""The private files of a launch, which hold the stream's secrets, do not outlive their use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable, LaunchError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks import stream as hook
from tests.unit.operators.test_stream import NO_BUDGET
from tests.unit.world import World

SECRET = {"spark.hadoop.fs.s3a.secret.key": "canary-4711"}


def left(world: World) -> list[str]:
    """Return the files outside the home that hold the secret."""
    files = (path for path in world.folder.rglob("*") if path.is_file())
    return [str(path) for path in files if b"canary-4711" in path.read_bytes()]


def launch(world: World) -> Any:
    return world.run(world.operator(conf=SECRET))


@pytest.mark.parametrize("error", [HomeUnavailable("away"), KeyboardInterrupt(), OSError(5, "EIO")])
@pytest.mark.parametrize("method", ["create_epoch", "launch", "epoch"])
def test_a_launch_that_is_cut_short_leaves_no_secret(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, error: BaseException
) -> None:
    launch(world)
    world.crash()
    for path in left(world):
        Path(path).unlink()

    def fail(*_: object, **__: object) -> None:
        if left(world):
            raise error

    real = getattr(StreamHome, method)
    monkeypatch.setattr(StreamHome, method, lambda *a, **k: fail() or real(*a, **k))
    with pytest.raises(BaseException):  # noqa: B017 - the task may turn it into another
        launch(world)

    assert world.launcher.living() == []
    assert left(world) == []


def test_a_driver_that_was_started_and_not_recorded_keeps_its_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise HomeUnavailable("away")

    monkeypatch.setattr(StreamHome, "record_launch", fail)
    with pytest.raises(HomeUnavailable):
        world.operator(conf=SECRET).execute(world.context())

    assert world.launcher.living() == [1]
    # Spark may not have read it yet.
    assert len(left(world)) == 1


def test_a_command_that_cannot_be_built_leaves_no_secret(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, content: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        raise LaunchError("The disk is full.")

    monkeypatch.setattr(hook, "write_private", half)
    with pytest.raises(LaunchError):
        world.operator(conf=SECRET).execute(world.context())

    assert left(world) == []


def test_a_driver_that_was_killed_at_birth_leaves_no_secret_when_it_is_given_up(
    world: World,
) -> None:
    operator = world.operator(conf=SECRET, restart=NO_BUDGET)
    trigger = world.run(operator)
    assert len(left(world)) == 1
    world.crash()

    with pytest.raises(AirflowFailException):
        operator.execute_complete(world.context(), {"watched": trigger.watched})

    assert left(world) == []


def test_what_a_killed_worker_left_is_swept_by_the_next_launch(world: World) -> None:
    trigger = launch(world)
    (own,) = (Path(path) for path in left(world))
    others = [
        own.with_name(name) for name in (f"000002-{'0' * 8}.conf", f"000001-{'a' * 8}.keytab")
    ]
    later = own.with_name(f"000003-{'0' * 8}.conf")
    for path in (*others, later):
        path.write_text("canary-4711")
    world.crash()

    world.wake(trigger, world.operator(conf=SECRET))

    assert world.launcher.living() == [2]
    assert not own.exists()
    assert not any(path.exists() for path in others)
    assert later.exists()


def test_airflow_masks_the_secrets_of_a_stream_it_launched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", masked.append)

    world.run(world.operator(conf=SECRET, env={"HARMLESS": "canary-4712"}))

    assert {"canary-4711", "canary-4712"} <= set(masked)


def test_a_driver_of_this_host_listens_on_loopback_and_shows_no_secret(world: World) -> None:
    launch(world)

    (request,) = world.launcher.launched
    assert request.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "spark.redaction.regex=(?i:" in request.private_files[0].read_text().replace("\\", "")


def test_the_next_task_records_the_driver_that_could_not_be_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise HomeUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(StreamHome, "record_launch", fail)
        with pytest.raises(HomeUnavailable):
            launch(world)
    launch(world)

    recorded = world.home.launch(1)
    assert recorded is not None
    assert (recorded.token, world.launcher.living()) == (world.epoch().token, [1])
