"""A change that ended halfway is finished by the next one, or given up, and never half made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore.stream_restore import RestoreRequest
from airflow_streaming.changes.restore.switch import Switching
from airflow_streaming.changes.restore.undo import abandon, plan_switch, undo
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.exceptions import HomeUnavailable, RestoreRefused
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import ChangeEnd, ChangeOutcome, DesiredState
from airflow_streaming.services.streams import start
from tests.unit.checkpoints.restoring import Killed, back_up, codes, run_batches
from tests.unit.launch.restored_stream import QUERIES, Stream, begun, lives


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


@pytest.mark.parametrize("sort", ["switch", "undo"])
def test_a_change_killed_at_any_step_is_not_made_or_made_and_finished_by_the_next(
    sort: str, tmp_path: Path
) -> None:
    step, deaths = 0, list[bool]()
    while True:
        step += 1
        stream = Stream(tmp_path / str(step))
        batches = (3, 1)
        if sort == "undo":
            stream.switch()
            batches = (1, 3)
        before = stream.checkpoint

        has_lived = lives(lambda s, home: getattr(s, sort)(home), stream, step)

        is_made = stream.checkpoint != before
        assert stream.is_at(batches[1] if is_made else batches[0])
        if has_lived:
            break
        deaths.append(is_made)
        if not is_made or stream.home.unfinished_change() is not None:
            getattr(stream, sort)()
        assert stream.is_at(batches[1])
        assert stream.home.unfinished_change() is None
        assert len(stream.home.changes()) == (1 if sort == "switch" else 2)
    # Before it is made: the change, its files, the rename, and the copy of the script.
    assert deaths == sorted(deaths)
    assert (deaths.count(False), deaths.count(True)) == ((16, 4) if sort == "switch" else (3, 4))


def test_an_unfinished_change_stands_in_the_way_of_another_one(stream: Stream) -> None:
    begun(stream)
    other = back_up(stream.store, Path(stream.old))

    plan = plan_switch(stream.home, stream.launcher, stream.store, other.id)
    assert codes(plan.refusals) == [RefusalCode.CHANGE_PENDING]
    with pytest.raises(RestoreRefused, match="unfinished change: restoring backup"):
        undo(stream.home, stream.launcher, by="kim")


def test_an_unfinished_change_can_be_given_up(stream: Stream) -> None:
    begun(stream)

    assert abandon(stream.home, by="kim") is ChangeOutcome.ABANDONED
    assert abandon(stream.home, by="kim") is None
    assert (stream.checkpoint, stream.is_at(3)) == (stream.old, True)
    assert stream.switch().change.number == 2


def test_a_change_that_was_made_is_not_given_up_any_more(stream: Stream) -> None:
    stream.switch()
    stream.home.store.delete(Layout("orders").place(ChangeEnd, number=1))

    assert abandon(stream.home, by="kim") is ChangeOutcome.DONE
    assert stream.is_at(1)


def test_a_change_that_was_overtaken_by_a_deployment_is_given_up(stream: Stream) -> None:
    begun(stream)
    stream.deploy(2, checkpoint=stream.old, application_args=("--new",))

    with pytest.raises(RestoreRefused, match="another task created a deployment"):
        stream.switch()
    assert stream.home.unfinished_change() is None
    assert stream.switch().deployment.number == 3


def test_a_stream_that_is_started_while_it_is_restored_keeps_its_checkpoint(
    stream: Stream,
) -> None:
    def starts(_: Any) -> str:
        stream.want(DesiredState.RUNNING)
        return ""

    with pytest.raises(RestoreRefused, match="is running"):
        stream.switch(backup_before=starts)
    assert stream.checkpoint == stream.old

    stream.want(DesiredState.STOPPED)
    assert stream.switch().change.number == 1
    assert stream.is_at(1)


def test_a_store_that_is_away_ends_the_switch_and_it_goes_on_later(stream: Stream) -> None:
    def away(_: Any) -> str:
        raise HomeUnavailable("The store is away.")

    with pytest.raises(HomeUnavailable):
        stream.switch(backup_before=away)
    assert (stream.checkpoint, stream.is_at(3)) == (stream.old, True)

    assert stream.switch().deployment.checkpoint != stream.old
    assert len(stream.home.changes()) == 1


def written(stream: Stream, **asked: Any) -> None:
    """Let a switch die when its checkpoint is whole and the change is not made."""

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Switching, "make", dies)
        with pytest.raises(Killed):
            stream.switch(**asked)
    assert stream.home.unfinished_change() is not None


def a_sink_log(stream: Stream, batches: int) -> dict[str, str]:
    folder = stream.folder / "out/_spark_metadata"
    folder.mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        (folder / str(batch)).write_text("v1\n")
    return {"counts": str(folder)}


def test_a_switch_is_judged_anew_before_it_is_finished(stream: Stream) -> None:
    written(stream, sink_logs=a_sink_log(stream, 2))
    for name, query_id in QUERIES.items():
        run_batches(Path(stream.old) / name, 9, query_id)
    logs, backups = a_sink_log(stream, 10), list[int]()

    def backup_before(deployment: Any) -> str:
        backups.append(deployment.number)
        return "b-1"

    plan = plan_switch(
        stream.home, stream.launcher, stream.store, stream.backup.id, RestoreRequest(sink_logs=logs)
    )
    assert codes(plan.refusals) == [RefusalCode.SINK_GAP]
    assert [query.again for query in plan.queries] == [(2, 9), (2, 9)]
    with pytest.raises(RestoreRefused, match="silently drop"):
        stream.switch(sink_logs=logs, backup_before=backup_before)
    assert (backups, stream.checkpoint) == ([], stream.old)

    accept = [RefusalCode.SINK_GAP]
    switched = stream.switch(sink_logs=logs, accept=accept, backup_before=backup_before)
    assert backups == [1]
    assert switched.plan is not None
    assert (switched.change.number, codes(switched.plan.accepted)) == (1, accept)
    end = stream.home.change_end(1)
    assert end is not None
    assert (end.outcome, end.backup_before) == (ChangeOutcome.DONE, "b-1")
    assert stream.is_at(1)


def test_a_switch_is_only_finished_where_it_was_begun(stream: Stream) -> None:
    written(stream)
    begun = stream.home.unfinished_change()
    assert begun is not None

    with pytest.raises(RestoreRefused, match=f"unfinished change: .* to {begun.checkpoint}"):
        stream.switch(checkpoint=f"{stream.folder}/elsewhere")
    assert stream.checkpoint == stream.old

    assert stream.switch(checkpoint=f"file://{begun.checkpoint}/").change.number == 1
    assert stream.is_at(1)


def test_the_dry_run_of_a_switch_that_was_made_already_says_so(stream: Stream) -> None:
    stream.switch()
    stream.home.store.delete(Layout("orders").place(ChangeEnd, number=1))

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert not plan.is_refused
    assert "Change 1 was made already" in plan.warnings[0]


@pytest.mark.parametrize("is_given_up", [True, False], ids=["given up", "finished"])
def test_nothing_starts_on_a_checkpoint_that_is_being_replaced(
    stream: Stream, is_given_up: bool
) -> None:
    written(stream)

    with pytest.raises(RestoreRefused):
        start(stream.home, by="kim", reason="Too early.")
    desired = stream.home.desired()
    assert desired is not None
    assert desired.state is DesiredState.STOPPED

    if is_given_up:
        abandon(stream.home, by="kim")
    else:
        stream.switch()
    start(stream.home, by="kim", reason="It is decided.")
