"""Removing what is old from a dag."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.operators.prune import StreamPruneOperator, prune_policy_of
from tests.unit.home.make import SCRIPT, make_deployment
from tests.unit.world import World


@pytest.fixture
def old(world: World) -> Path:
    """Leave the checkpoint of a deployment that was replaced months ago."""
    for number in (1, 2):
        checkpoint = f"{world.uri}/orders/checkpoints/{number:06d}"
        made = make_deployment(number, checkpoint=checkpoint, output=f"{world.uri}/out/{number}")
        world.home.create_deployment(made, SCRIPT)
        Path(checkpoint).mkdir(parents=True)
        (Path(checkpoint) / "metadata").write_text("{}")
    return Path(world.uri) / "orders/checkpoints/000001"


def prune(world: World, **more: Any) -> dict[str, Any]:
    given = {"task_id": "prune", "home": world.uri, "stream": "orders", **more}
    return StreamPruneOperator(**given).execute(world.context())


def test_a_dry_run_only_counts(world: World, old: Path) -> None:
    planned = prune(world, dry_run="True")
    assert (planned["removed"], old.exists()) == ({"checkpoint": 1}, True)
    assert prune(world)["removed"] == planned["removed"]
    assert not old.exists()


def test_fields_of_a_policy_come_from_a_mapping() -> None:
    expected = PrunePolicy(keep=timedelta(days=21), outputs=True)
    assert prune_policy_of({"keep": 21, "outputs": True}) == expected
    assert not prune_policy_of({"outputs": "False"}).outputs


@pytest.mark.parametrize("wrong", [{"keep": 3}, {"days": 14}, "14", {"keep": True}])
def test_a_policy_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(SpecError):
        prune_policy_of(wrong)


def test_it_needs_home_and_stream() -> None:
    with pytest.raises(SpecError):
        StreamPruneOperator(task_id="prune", home="/home")
