"""Backing up, verifying, restoring and removing from a dag."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.checkpoint import backup as backup_module
from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.core.alerts.alert import AlertKind
from airflow_streaming.core.checkpoint.backup import Backup, Level, Origin, Verification
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import Outcome
from airflow_streaming.core.status import CheckpointOrigin
from airflow_streaming.exceptions import CheckpointBusy, SpecError
from airflow_streaming.operators._checkpoint import Terminated
from airflow_streaming.operators.checkpoint import (
    CheckpointBackupOperator,
    CheckpointRestoreOperator,
    CheckpointRetentionOperator,
    CheckpointVerifyOperator,
)
from airflow_streaming.spec import Blackout, RetentionPolicy
from tests.unit.checkpoint.restoring import is_sound_at, run_batches
from tests.unit.world import World

ALWAYS = Blackout(start="00:00", end="00:00")


@pytest.fixture
def stream(world: World) -> World:
    """Return a stream whose query has committed batches 0 to 4."""
    world.run()
    run_batches(checkpoint_of(world), 4)
    return world


def checkpoint_of(world: World, query: str = "revenue") -> Path:
    deployment = world.home.newest_deployment()
    assert deployment is not None
    return Path(deployment.checkpoint) / query


def ours(world: World, **more: Any) -> dict[str, Any]:
    return {"home": world.uri, "stream": "orders", **more}


def back_up(world: World, **more: Any) -> str:
    operator = CheckpointBackupOperator(task_id="backup", **ours(world, **more))
    backup_id: str = operator.execute(world.context())
    return backup_id


def verify(world: World, **more: Any) -> Any:
    operator = CheckpointVerifyOperator(task_id="verify", **ours(world, **more))
    return operator.execute(world.context())


def restore(world: World, **more: Any) -> dict[str, Any]:
    operator = CheckpointRestoreOperator(task_id="restore", **ours(world, **more))
    return operator.execute(world.context())


def retain(world: World, **more: Any) -> dict[str, Any]:
    operator = CheckpointRetentionOperator(task_id="retention", **ours(world, **more))
    return operator.execute(world.context())


def store_of(world: World) -> BackupStore:
    return open_backup_store(f"{world.uri}/_backups")


def stop(world: World) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="restore", now=datetime.now(UTC))
    world.last_words(Outcome.STOPPED)


def damage(world: World) -> None:
    """Change a byte of a pack."""
    (pack, *_) = Path(world.uri, "_backups", "orders", "packs").glob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(bytes(data))


def test_a_backup_of_a_running_stream_is_kept_in_its_home_and_told(stream: World) -> None:
    backup_id = back_up(stream, note="nightly", verify="full")

    (backup,) = store_of(stream).backups("orders")
    assert backup.id == backup_id
    assert (backup.origin, backup.note) == (Origin.SCHEDULED, "nightly")
    assert (backup.deployment, backup.epoch, backup.spark_version) == (1, 1, "4.3.0")
    assert stream.ti.xcoms["backup"]["queries"] == {"revenue": 4}
    (said,) = store_of(stream).verifications(backup_id)
    assert (said.level, said.holds) == (Level.FULL, True)


def test_queries_without_a_commit_are_left_out_and_those_elsewhere_are_not(
    stream: World, tmp_path: Path
) -> None:
    run_batches(checkpoint_of(stream, "fresh"), -1)
    elsewhere = run_batches(tmp_path / "chosen by the script", 7)
    query = stream.query(
        name="audit", checkpoint=f"file:{elsewhere}", checkpoint_origin=CheckpointOrigin.SCRIPT
    )
    stream.say(queries=(query,))

    back_up(stream)

    assert stream.ti.xcoms["backup"]["queries"] == {"audit": 7, "revenue": 4}


def test_a_checkpoint_of_somebody_else_is_kept_under_a_name_of_its_own(
    world: World, tmp_path: Path
) -> None:
    place = run_batches(tmp_path / "theirs" / "counts", 2)
    operator = CheckpointBackupOperator(
        task_id="backup",
        checkpoint=str(place),
        store=str(tmp_path / "store"),
        max_age=timedelta(hours=1),
    )

    operator.execute(world.context())

    (backup,) = open_backup_store(str(tmp_path / "store")).backups()
    assert "theirs-counts-" in backup.stream
    assert (backup.queries[0].batch, backup.deployment) == (2, None)


def test_a_stream_without_a_deployment_has_nothing_to_back_up(world: World) -> None:
    with pytest.raises(AirflowFailException, match="has no deployment"):
        back_up(world)


def test_a_checkpoint_that_cannot_be_backed_up_fails_the_task_for_good(stream: World) -> None:
    (checkpoint_of(stream) / "offsets" / "4").write_bytes(b"")

    with pytest.raises(AirflowFailException, match="offsets/4"):
        back_up(stream)
    assert store_of(stream).backups() == []


def test_a_checkpoint_that_was_busy_is_tried_again(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_busy(*_: Any, **__: Any) -> None:
        raise CheckpointBusy("It changed under every attempt.")

    monkeypatch.setattr(backup_module, "copy_live", be_busy)

    with pytest.raises(CheckpointBusy):
        back_up(stream)


def test_in_a_blackout_none_is_taken(stream: World) -> None:
    with pytest.raises(AirflowSkipException, match="No backup of stream 'orders' is taken in"):
        back_up(stream, blackouts=[ALWAYS])

    assert store_of(stream).backups() == []


def test_a_stream_that_is_late_is_told_once_and_once_that_it_is_not(stream: World) -> None:
    heard: list[dict[str, Any]] = []
    telling = {"max_age": timedelta(hours=3), "on_late": heard.append, "on_recovered": heard.append}

    for _ in range(2):
        with pytest.raises(AirflowSkipException):
            back_up(stream, blackouts=[ALWAYS], **telling)
    for _ in range(2):
        back_up(stream, **telling)

    assert [alert.alert for alert in stream.home.alerts()] == [
        AlertKind.UNHEALTHY,
        AlertKind.RECOVERED,
    ]
    assert [one["alert_subject"] for one in heard] == [
        "Stream orders is unhealthy: backup_age",
        "Stream orders has recovered: backup_age",
    ]


def test_where_backups_are_verified_an_unverified_one_is_none(stream: World) -> None:
    back_up(stream)

    with pytest.raises(AirflowSkipException):
        back_up(stream, blackouts=[ALWAYS], max_age=timedelta(hours=3), verify="full")

    (alert,) = stream.home.alerts()
    assert "There is no verified backup." in alert.reason


def test_who_keeps_the_stream_alive_leaves_alerts_of_backups_to_who_takes_them(
    stream: World,
) -> None:
    heard: list[Any] = []
    stop(stream)  # so that the task has something to do
    with pytest.raises(AirflowSkipException):
        back_up(stream, blackouts=[ALWAYS], max_age=timedelta(hours=3))
    (alert,) = stream.home.alerts()
    Path(stream.uri, "orders", "alerts", "000001.sent.json").unlink()

    stream.run()
    assert stream.home.sent(alert.number) is None
    back_up(stream, max_age=timedelta(hours=3), on_late=heard.append)

    assert [one["alert"]["number"] for one in heard] == [alert.number]


def test_the_newest_backup_is_verified_unless_one_is_named(stream: World) -> None:
    first = back_up(stream)
    run_batches(checkpoint_of(stream), 5)
    second = back_up(stream)

    assert verify(stream) == second
    assert verify(stream, backup_id=first, level="quick") == first
    assert stream.ti.xcoms["backup"]["level"] == "quick"


def test_a_backup_that_does_not_hold_fails_the_task_with_what_was_found(stream: World) -> None:
    back_up(stream)
    damage(stream)

    with pytest.raises(AirflowFailException, match=r"does not hold: .*packs/"):
        verify(stream)
    assert back_up(stream, verify="full"), "what was found wrong is written anew"


def test_a_backup_that_refers_to_what_was_damaged_fails_when_it_is_verified(stream: World) -> None:
    back_up(stream)
    damage(stream)

    with pytest.raises(AirflowFailException, match=r"does not hold"):
        back_up(stream, verify="full")


def test_without_a_backup_it_says_where_it_looked(stream: World) -> None:
    open_backup_store(f"{stream.uri}/_backups", create=True)

    with pytest.raises(AirflowFailException, match="_backups has no backup of stream 'orders'"):
        verify(stream)


def test_a_drill_runs_the_script_of_the_backups_own_deployment(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.checkpoint import drill as drill_module
    from airflow_streaming.core.checkpoint.drill import Drilled

    asked: list[dict[str, Any]] = []

    def drill(store: BackupStore, backup: Backup, **more: Any) -> Drilled:
        asked.append({"backup": backup.id, **more})
        return Drilled(problems=("The state cannot be read.",), facts={"spark": "4.3.0"})

    monkeypatch.setattr(drill_module, "drill", drill)
    backup_id = back_up(stream)

    with pytest.raises(AirflowFailException, match=r"The state cannot be read\."):
        verify(stream, level="drill", drill_timeout=timedelta(minutes=3))

    (one,) = asked
    assert (one["backup"], one["timeout"]) == (backup_id, 180.0)
    assert one["runtime"].spark_version == "4.3.0"
    assert one["program"].source == stream.script.read_bytes()


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
    with pytest.raises(AirflowFailException, match=r"wanted|alive|stop"):
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
        pytest.param({"dry_run": "no"}, "dry_run is 'no'; give True or False", id="a dry run"),
        pytest.param({"accept": "driver_alive"}, "accept has driver_alive", id="what is accepted"),
        pytest.param({"backup_id": "20200101"}, "no backup '20200101'", id="the backup"),
    ],
)
def test_a_typing_error_in_the_form_restores_nothing(
    stream: World, given: dict[str, Any], message: str
) -> None:
    back_up(stream)
    stop(stream)

    with pytest.raises(AirflowFailException, match=message):
        restore(stream, **given)
    assert checkpoint_of(stream).parent.name == "000001"


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(RetentionPolicy(keep_last=1), id="a policy"),
        pytest.param({"keep_last": 1}, id="a mapping"),
        pytest.param(json.dumps({"keep_last": 1}), id="a text"),
    ],
)
def test_old_backups_are_removed_unless_it_is_a_dry_run(stream: World, policy: Any) -> None:
    first, second = back_up(stream), back_up(stream)

    planned = retain(stream, policy=policy, dry_run="true")
    assert [b.id for b in store_of(stream).backups()] == [first, second]
    done = retain(stream, policy=policy)

    assert planned["orders"]["removed"] == done["orders"]["removed"] == [first]
    assert [b.id for b in store_of(stream).backups()] == [second]


def test_without_a_stream_every_stream_of_the_store_is_looked_at(stream: World) -> None:
    back_up(stream)
    operator = CheckpointRetentionOperator(
        task_id="all", home=stream.uri, policy=RetentionPolicy(keep_last=1)
    )

    assert list(operator.execute(stream.context())) == ["orders"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda: CheckpointVerifyOperator(task_id="t"), "names no backup store", id="no place"
        ),
        pytest.param(
            lambda: CheckpointVerifyOperator(task_id="t", store="/s", level="deep"),
            "level is 'deep'; give quick, full, drill",
            id="an unknown level",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h"),
            "give home and stream",
            id="no stream",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", checkpoint="/c"),
            "give home and stream",
            id="two streams",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", verify="drill"),
            "verify is 'drill'",
            id="a drill after every backup",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", origin="cron"),
            "origin is 'cron'",
            id="an unknown origin",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(
                task_id="t", home="/h", stream="s", max_age=timedelta()
            ),
            "max_age has to be longer",
            id="no age",
        ),
        pytest.param(
            lambda: CheckpointRestoreOperator(task_id="t", store="/s"),
            "give home, whose stream goes on",
            id="nowhere to restore to",
        ),
        pytest.param(
            lambda: CheckpointRetentionOperator(task_id="t", store="/s", policy={"keep": 3}),
            "keep is unknown",
            id="an unknown rule",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_when_the_dag_is_parsed(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        make()


def test_a_killed_task_stops_where_it_is_and_lists_nothing(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = CheckpointBackupOperator(task_id="backup", **ours(stream))
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def be_killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("The signal did not end the work.")

    monkeypatch.setattr(backup_module, "copy_live", be_killed)
    try:
        with pytest.raises(Terminated, match="was killed"):
            operator.execute(stream.context())
    finally:
        signal.signal(signal.SIGTERM, before)

    operator.on_kill()  # after the work it says nothing
    assert store_of(stream).backups() == []
    assert store_of(stream).holds("orders") == []


def test_a_changed_deployment_is_applied_after_a_backup_when_that_is_wanted(stream: World) -> None:
    changed = stream.operator(conf={"spark.executor.memory": "2g"})
    changed.backup_before_restart = True

    stream.run(changed, restart=True)

    (backup,) = store_of(stream).backups("orders")
    assert (backup.origin, backup.deployment) == (Origin.BEFORE_UPGRADE, 1)
    deployment = stream.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 2


def test_a_deployment_stays_when_the_backup_before_its_change_fails(stream: World) -> None:
    (checkpoint_of(stream) / "offsets" / "4").write_bytes(b"")
    changed = stream.operator(conf={"spark.executor.memory": "2g"})
    changed.backup_before_restart = True

    with pytest.raises(AirflowFailException, match="keeps its deployment, because it could not"):
        stream.run(changed, restart=True)

    deployment = stream.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 1
    assert stream.launcher.living() == [1]


def test_a_stream_without_a_checkpoint_is_changed_without_a_backup(world: World) -> None:
    world.run()
    changed = world.operator(conf={"spark.executor.memory": "2g"})
    changed.backup_before_restart = True

    world.run(changed, restart=True)

    assert store_of(world).backups() == []
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 2


def test_verifications_are_told_as_they_are_stored(stream: World) -> None:
    back_up(stream)
    verify(stream)

    (stored,) = store_of(stream).verifications(store_of(stream).backups()[0].id)
    assert Verification.from_dict(stream.ti.xcoms["backup"]) == stored
