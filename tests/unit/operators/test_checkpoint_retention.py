"""Removing old backups from a dag."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, back_up_stream
from airflow_streaming.checkpoints.vault.retention_policy import facts_for
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.records.control import ChangeEnd, ChangeOutcome
from airflow_streaming.operators.backup import CheckpointRetentionOperator
from tests.unit.operators.checkpoints import back_up, ours, store_of
from tests.unit.world import World


def retain(world: World, **more: Any) -> dict[str, Any]:
    operator = CheckpointRetentionOperator(task_id="retention", **ours(world, **more))
    return operator.execute(world.context())


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


def test_the_home_is_asked_before_a_backup_goes_that_was_taken_for_a_change(stream: World) -> None:
    asked = BackupRequest(
        origin=Origin.BEFORE_UPGRADE, by="test", facts=facts_for(stream.uri, change=1)
    )
    first = back_up(stream)
    taken = back_up_stream(stream.home, store_of(stream), asked).id
    newest = back_up(stream)

    kept = retain(stream, policy={"keep_last": 1})
    end = ChangeEnd(
        number=1, outcome=ChangeOutcome.DONE, by="test", reason="It ended.", at=datetime.now(UTC)
    )
    stream.home.end_change(end)
    done = retain(stream, policy={"keep_last": 1})

    assert kept["orders"]["kept"] == [newest, taken]
    assert kept["orders"]["removed"] == [first]
    assert done["orders"]["removed"] == [taken]
