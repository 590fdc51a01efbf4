"""A stream goes back to the checkpoint that it was switched away from, if that is still sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.model.records.control import ChangeKind
from airflow_streaming.model.records.deployment import ProposalAction
from tests.unit.home.make import SCRIPT
from tests.unit.launch.restored_stream import Stream


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def test_undoing_goes_back_and_undoing_that_goes_forward_again(stream: Stream) -> None:
    restored = stream.switch().deployment.checkpoint

    assert stream.undo().deployment.checkpoint == stream.old
    assert stream.is_at(3)
    assert stream.proposal() is ProposalAction.KEEP
    assert stream.undo().deployment.checkpoint == restored
    assert stream.is_at(1)
    changes = stream.home.changes()
    assert [change.what for change in changes] == [
        ChangeKind.RESTORE,
        ChangeKind.UNDO,
        ChangeKind.UNDO,
    ]


def test_undoing_keeps_a_release_that_came_in_between(stream: Stream) -> None:
    restored = stream.switch().deployment
    newer = replace(restored, number=3, application_args=("--fixed",))
    stream.home.create_deployment(newer, SCRIPT)

    undone = stream.undo().deployment

    assert (undone.number, undone.checkpoint) == (4, stream.old)
    assert undone.application_args == ("--fixed",)


def test_there_is_nothing_to_undo_before_a_switch(stream: Stream) -> None:
    with pytest.raises(RestoreRefused, match="was never exchanged"):
        stream.undo()


def test_a_damaged_checkpoint_is_not_gone_back_to(stream: Stream) -> None:
    stream.switch()
    (Path(stream.old) / "counts/offsets/3").write_text("")

    with pytest.raises(RestoreRefused, match="is damaged"):
        stream.undo()
    assert stream.is_at(1)
    assert stream.home.unfinished_change() is None


def test_what_the_stream_left_by_itself_is_not_undone(stream: Stream) -> None:
    switched = stream.switch().deployment
    stream.home.create_deployment(replace(switched, number=3, checkpoint="/elsewhere"), SCRIPT)

    with pytest.raises(RestoreRefused, match="no longer runs on"):
        stream.undo()
