"""Of two at one switch, the slower one takes what the faster one made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore import stream_restore
from airflow_streaming.changes.restore.switch import Switching
from airflow_streaming.changes.restore.undo import abandon
from airflow_streaming.exceptions import RestoreRefused, RestoreTaken
from airflow_streaming.model.records.control import ChangeOutcome
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.launch.restored_stream import Stream, begun


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], Any]], Any]) -> None:
    """Do something once, when a switch is about to write; it is given the writing."""
    write = stream_restore.write

    def writing(ready: Any, progress: Any) -> Any:
        monkeypatch.setattr(stream_restore, "write", write)
        return act(lambda: write(ready, progress))

    monkeypatch.setattr(stream_restore, "write", writing)


def test_the_slower_of_two_at_one_switch_takes_what_the_faster_one_made(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faster(write: Callable[[], Any]) -> Any:
        assert stream.switch(by="retry").deployment.number == 2
        return write()

    meanwhile(monkeypatch, faster)

    assert stream.switch(by="first").deployment.number == 2
    assert stream.is_at(1)
    assert [stream.home.change_end(1).outcome] == [ChangeOutcome.DONE]  # type: ignore[union-attr]
    assert len(stream.home.changes()) == 1


def test_the_slower_of_two_at_one_switch_does_not_give_up_the_change(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The retry is about to write when the first one's place appears, and makes the change itself.
    def begun_by_the_first(write_first: Callable[[], Any]) -> Any:
        def retried(write_retry: Callable[[], Any]) -> Any:
            write_first()
            return write_retry()

        meanwhile(monkeypatch, retried)
        assert stream.switch(by="retry").deployment.number == 2

    meanwhile(monkeypatch, begun_by_the_first)

    assert stream.switch(by="first").deployment.number == 2
    assert stream.is_at(1)
    assert stream.home.unfinished_change() is None


def test_a_place_that_a_stranger_took_leaves_the_change_unfinished(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stranger(write: Callable[[], Any]) -> Any:
        change = stream.home.unfinished_change()
        assert change is not None
        run_batches(Path(change.checkpoint) / "mine", 0)
        return write()

    meanwhile(monkeypatch, stranger)

    with pytest.raises(RestoreTaken, match="Change 1 of stream 'orders' stays unfinished"):
        stream.switch()
    assert stream.home.unfinished_change() is not None
    assert abandon(stream.home, by="kim") is ChangeOutcome.ABANDONED


@pytest.mark.parametrize("is_own", [True, False], ids=["its own", "somebody else's"])
def test_only_a_change_of_its_own_is_given_up(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    if not is_own:
        begun(stream)

    def damaged(_: Callable[[], Any]) -> Any:
        raise RestoreRefused("It was written and is not sound.")

    meanwhile(monkeypatch, damaged)

    with pytest.raises(RestoreRefused, match="is not sound"):
        stream.switch()
    assert (stream.home.unfinished_change() is None) is is_own


def test_a_change_that_was_made_while_it_was_looked_at_is_taken_as_made(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Switching.make

    def overtaken(switching: Switching, *args: Any, **asked: Any) -> Any:
        monkeypatch.setattr(Switching, "make", make)
        make(switching, *args, **asked)
        raise RestoreRefused("Change 1 of stream 'orders' was aborted.")

    monkeypatch.setattr(Switching, "make", overtaken)

    assert stream.switch().deployment.number == 2
