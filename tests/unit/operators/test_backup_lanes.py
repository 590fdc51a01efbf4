"""Backups, restores and retention of a stream mean the lane that is live."""

from __future__ import annotations

import pytest

from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.operators.backup import CheckpointRetentionOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import back_up, checkpoint_of, ours, stop, store_of
from tests.unit.two_lanes import BLUE, GREEN, TwoLanes
from tests.unit.world import World


@pytest.fixture
def moved(stream: World) -> World:
    """Return a stream that was backed up, and then moved to a green lane with batches 0 to 2."""
    back_up(stream)
    cutover = TwoLanes(stream)
    cutover.start_green()
    cutover.whole()
    stream.lane = GREEN
    run_batches(checkpoint_of(stream), 2)
    return stream


def test_a_backup_is_of_the_live_lane_and_kept_under_its_name(moved: World) -> None:
    made = back_up(moved)

    backup = store_of(moved).backup(made, GREEN)
    assert [query.batch for query in backup.queries] == [2]
    assert [one.id for one in store_of(moved).backups(BLUE)] != [made]


def test_a_restore_goes_back_to_a_backup_of_the_live_lane(moved: World) -> None:
    made = back_up(moved)
    stop(moved)
    restore = CheckpointRestoreOperator(task_id="restore", dry_run=False, **ours(moved))

    done = restore.execute(moved.context())

    assert (done["backup"], done["deployment"]) == (made, 2)
    newest = moved.home.newest_deployment()
    assert newest is not None
    assert newest.stream == GREEN


def test_retention_leaves_the_backups_of_the_other_lane_alone(moved: World) -> None:
    back_up(moved)
    operator = CheckpointRetentionOperator(
        task_id="keep", policy=RetentionPolicy(keep_last=1), dry_run=True, **ours(moved)
    )

    assert set(operator.execute(moved.context())) == {GREEN}
