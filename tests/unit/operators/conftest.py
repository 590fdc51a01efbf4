"""Streams that the tests of the operators share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import checkpoint_of
from tests.unit.world import World


@pytest.fixture
def stream(world: World) -> World:
    """Return a stream whose query has committed batches 0 to 4."""
    world.run()
    run_batches(checkpoint_of(world), 4)
    return world


@pytest.fixture
def kept(world: World) -> tuple[World, Any]:
    """Return a stream that runs, and the trigger of the task that keeps it."""
    return world, world.run()
