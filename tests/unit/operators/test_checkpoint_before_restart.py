"""A stream is backed up before a changed deployment takes over."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.arguments.choices import Origin
from tests.unit.operators.checkpoints import checkpoint_of, store_of
from tests.unit.world import World


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
