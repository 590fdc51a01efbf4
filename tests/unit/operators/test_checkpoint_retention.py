"""Removing old backups from a dag."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.operators.checkpoint import CheckpointRetentionOperator
from airflow_streaming.spec import RetentionPolicy
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
