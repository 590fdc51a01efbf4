"""What the tests of the checkpoint operators share."""

from __future__ import annotations

import pytest

from tests.unit.checkpoint.restoring import run_batches
from tests.unit.operators.checkpoints import checkpoint_of
from tests.unit.world import World


@pytest.fixture
def stream(world: World) -> World:
    """Return a stream whose query has committed batches 0 to 4."""
    world.run()
    run_batches(checkpoint_of(world), 4)
    return world
