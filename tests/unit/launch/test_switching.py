"""A stream changes over to another checkpoint in one step, or stays where it is, whoever dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoint import stream_restore
from airflow_streaming.checkpoint.restore import Place, restore
from airflow_streaming.checkpoint.switch import (
    Switched,
    abandon,
    plan_switch,
    switch,
    undo,
    unfinished,
)
from airflow_streaming.core.change import ChangeOutcome, ChangeSort
from airflow_streaming.core.checkpoint.replay import RefusalCode
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.deployment import ProposalAction, decide_proposal
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import Layout
from airflow_streaming.exceptions import (
    CheckpointError,
    CheckpointRefused,
    HomeUnavailable,
    RestoreRefused,
    RestoreTaken,
)
from airflow_streaming.files.local import LocalStore
from airflow_streaming.files.store import Store
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.keeper import Keeper
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.launch.switching import Switching
from airflow_streaming.spec import StreamSpec
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.checkpoint.restoring import (
    Killed,
    Life,
    back_up,
    is_sound_at,
    limit_local,
    new_store,
    run_batches,
)
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_death,
    make_deployment,
    make_epoch,
    make_exit,
)

QUERIES = {"counts": "id-counts", "sums": "id-sums"}


class DyingStore:
    """The home's files, each of whose changes is a durable step."""

    def __init__(self, store: Store, life: Life) -> None:
        self.uri = store.uri
        self.read, self.names = store.read, store.names
        self.create = life.around(store.create)
        self.replace = life.around(store.replace)
        self.delete = life.around(store.delete)


class Stream:
    """A stopped stream at batch 3 of two queries, with a backup at batch 1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder / "home")
        self.launcher = FakeLauncher()
        self.old = f"{self.uri}/orders/checkpoints/000001"
        self.deploy(1, checkpoint=self.old)
        for name, query_id in QUERIES.items():
            run_batches(Path(self.old) / name, 1, query_id)
            self.claim(name, query_id, f"file:{self.old}/{name}")
        self.store = new_store(folder)
        self.backup = back_up(self.store, Path(self.old))
        for name, query_id in QUERIES.items():
            run_batches(Path(self.old) / name, 3, query_id)
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        self.want(DesiredState.STOPPED)

    @property
    def home(self) -> StreamHome:
        return self.home_on(LocalStore(self.uri))

    @staticmethod
    def home_on(store: Any) -> StreamHome:
        return StreamHome(store, "orders")

    def deploy(self, number: int, **changes: Any) -> None:
        self.home.create_deployment(make_deployment(number, **changes), SCRIPT)

    def claim(self, query: str, query_id: str, location: str, deployment: int = 1) -> None:
        claim = QueryClaim(query=query, query_id=query_id, checkpoint=location, epoch=1)
        self.home.store.create(Layout("orders").claim(deployment, query), claim.to_bytes())

    def want(self, state: DesiredState) -> None:
        self.home.want(state, by="test", reason="The test says so.", now=NOON)

    def switch(self, home: StreamHome | None = None, **asked: Any) -> Switched:
        given = {"by": "kim", **asked}
        return switch(home or self.home, self.launcher, self.store, self.backup.id, **given)

    def undo(self, home: StreamHome | None = None) -> Switched:
        return undo(home or self.home, self.launcher, by="kim")

    @property
    def checkpoint(self) -> str:
        """What the next driver starts on."""
        newest = self.home.newest_deployment()
        assert newest is not None
        return newest.checkpoint

    def is_at(self, batch: int) -> bool:
        """Tell whether every query of what the next driver starts on is whole and at a batch."""
        return all(is_sound_at(Path(self.checkpoint) / name, batch) for name in QUERIES)

    def proposal(self, **spec: Any) -> ProposalAction:
        """Return what becomes of what the dag, unchanged but for this, proposes."""
        asked = {
            "name": "orders",
            "application": "/dags/jobs/orders.py",
            "home": self.uri,
            "runtime": "spark-4.3",
            "application_args": ("--output", "{output}"),
            "conf": {"spark.sql.shuffle.partitions": "2"},
        }
        keeper = Keeper(
            self.home, self.launcher, spec=StreamSpec(**asked | spec), submit=no_launch, by="dag"
        )
        runtime = Runtime(
            name="spark-4.3",
            spark_home=Path("/opt/spark"),
            python=Path("/opt/spark/bin/python"),
            java_home=None,
            spark_version="4.3.0",
        )
        proposed = keeper.propose(runtime, "/dags/jobs/orders.py", SCRIPT)
        return decide_proposal(self.home.newest_deployment(), proposed, restart_asked=False)


def no_launch(_: Any) -> LaunchRequest:
    raise AssertionError("A proposal launches nothing.")


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # It waits for whatever else this machine is writing.
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def codes(refusals: Any) -> list[RefusalCode]:
    return [refusal.code for refusal in refusals]


def test_a_switch_is_a_new_deployment_that_differs_in_the_checkpoint_alone(
    stream: Stream,
) -> None:
    before = stream.home.deployment(1)

    switched = stream.switch(reason="Bad release.")

    after = stream.home.newest_deployment()
    assert after is not None
    assert (switched.deployment, after.number) == (after, 2)
    assert after.differences(before) == ["checkpoint"]
    assert stream.home.application(2) == SCRIPT
    assert stream.checkpoint == f"{stream.uri}/orders/checkpoints/restored-000001"
    assert stream.is_at(1)
    assert switched.plan is not None
    assert [query.again for query in switched.plan.queries] == [(2, 3), (2, 3)]


def test_the_change_is_on_record_from_its_begin_to_its_end(stream: Stream) -> None:
    stream.switch(reason="Bad release.", backup_before=lambda deployment: f"b-{deployment.number}")

    change = stream.home.newest_change()
    assert change is not None
    assert (change.what, change.backup, change.by) == (
        ChangeSort.RESTORE,
        stream.backup.id,
        "kim",
    )
    assert (change.replaced, change.deployment, change.reason) == (1, 2, "Bad release.")
    end = stream.home.change_end(change.number)
    assert end is not None
    assert (end.outcome, end.backup_before) == (ChangeOutcome.DONE, "b-1")
    assert unfinished(stream.home) is None


def test_the_old_checkpoint_stays_as_it_is(stream: Stream) -> None:
    stream.switch()

    assert all(is_sound_at(Path(stream.old) / name, 3) for name in QUERIES)


def test_a_restored_checkpoint_that_vanishes_before_its_start_is_known_to_be_missed(
    stream: Stream,
) -> None:
    stream.switch()

    claim = stream.home.claim(2, "counts")
    assert claim is not None
    assert claim.query_id == "id-counts"
    assert claim.checkpoint == f"file:{stream.checkpoint}/counts"


def test_a_dag_that_names_no_checkpoint_keeps_the_switched_one(stream: Stream) -> None:
    stream.switch()

    assert stream.proposal() is ProposalAction.KEEP


def test_a_dag_that_names_a_checkpoint_is_told_and_not_obeyed(stream: Stream) -> None:
    stream.switch()

    assert stream.proposal(checkpoint=stream.old) is ProposalAction.TELL
    assert stream.proposal(checkpoint=stream.checkpoint) is ProposalAction.KEEP


def test_a_checkpoint_outside_the_home_gets_its_successor_beside_it(stream: Stream) -> None:
    outside = f"{stream.folder}/outside/orders"
    restore(stream.store, stream.backup.id, Place(to=outside))
    stream.deploy(2, checkpoint=outside)

    assert stream.switch().deployment.checkpoint == f"{outside}.restored-000001"


def test_undoing_goes_back_and_undoing_that_goes_forward_again(stream: Stream) -> None:
    restored = stream.switch().deployment.checkpoint

    assert stream.undo().deployment.checkpoint == stream.old
    assert stream.is_at(3)
    assert stream.proposal() is ProposalAction.KEEP
    assert stream.undo().deployment.checkpoint == restored
    assert stream.is_at(1)
    changes = stream.home.changes()
    assert [change.what for change in changes] == [
        ChangeSort.RESTORE,
        ChangeSort.UNDO,
        ChangeSort.UNDO,
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

    with pytest.raises(RestoreRefused, match="is not sound"):
        stream.undo()
    assert stream.is_at(1)
    assert unfinished(stream.home) is None


def test_what_the_stream_left_by_itself_is_not_undone(stream: Stream) -> None:
    switched = stream.switch().deployment
    stream.home.create_deployment(replace(switched, number=3, checkpoint="/elsewhere"), SCRIPT)

    with pytest.raises(RestoreRefused, match="no longer runs on"):
        stream.undo()


def live(stream: Stream) -> None:
    request = LaunchRequest(
        epoch=stream.home.epoch(1), command=(), environment={}, log=Path("/dev/null")
    )
    stream.home.record_launch(stream.launcher.launch(request))


def out_of_sight(stream: Stream) -> None:
    stream.launcher = stream.launcher.seen_from(replace(FAKE_HOST, name="other", machine="m-2"))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda stream: stream.want(DesiredState.RUNNING), RefusalCode.WANTED_RUNNING),
        (live, RefusalCode.DRIVER_ALIVE),
        (out_of_sight, RefusalCode.DRIVER_UNPROVED),
    ],
    ids=["wanted running", "a living driver", "a driver out of sight"],
)
def test_a_stream_that_may_run_is_left_alone(
    stream: Stream, make: Callable[[Stream], None], code: RefusalCode
) -> None:
    make(stream)

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)
    assert codes(plan.refusals) == [code]
    with pytest.raises(RestoreRefused):
        stream.switch()
    assert stream.home.newest_change() is None
    assert (stream.checkpoint, stream.is_at(3)) == (stream.old, True)


@pytest.mark.parametrize("proof", ["word", "exit"])
def test_a_driver_out_of_sight_is_dead_by_its_own_or_a_persons_word(
    stream: Stream, proof: str
) -> None:
    out_of_sight(stream)
    if proof == "word":
        stream.home.declare_dead(make_death(1))
    else:
        stream.home.store.create(Layout("orders").epoch(1, "exit.json"), make_exit(1).to_bytes())

    assert stream.switch().deployment.number == 2


def test_a_stream_nobody_ever_stopped_is_wanted_running(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.home.store.delete(Layout("orders").record("desired", 1))

    with pytest.raises(RestoreRefused, match="is wanted running"):
        stream.switch()


def test_a_query_with_a_place_of_its_own_cannot_be_moved(stream: Stream) -> None:
    stream.claim("raw", "id-raw", "file:/own/place")

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert codes(plan.refusals) == [RefusalCode.OWN_LOCATION]


def test_queries_are_held_against_their_claims(stream: Stream) -> None:
    stream.claim("more", "id-more", f"file:{stream.old}/more")
    path = Layout("orders").claim(1, "sums")
    claim = stream.home.claim(1, "sums")
    assert claim is not None
    stream.home.store.replace(path, replace(claim, query_id="id-new").to_bytes())

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert codes(plan.refusals) == [RefusalCode.QUERY_MISSING, RefusalCode.QUERY_ID_DIFFERS]
    accepted = [RefusalCode.QUERY_MISSING, RefusalCode.QUERY_ID_DIFFERS]
    assert stream.switch(accept=accepted).deployment.number == 2


def test_a_backup_of_another_stream_is_refused_unless_asked_for(stream: Stream) -> None:
    other = back_up(stream.store, Path(stream.old), stream="other")
    stream.backup = other

    with pytest.raises(RestoreRefused, match="is of stream 'other'"):
        stream.switch()
    assert stream.switch(accept=[RefusalCode.OTHER_STREAM]).deployment.number == 2


def test_a_backup_of_one_checkpoint_goes_to_the_only_query(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.home.store.delete(Layout("orders").claim(1, "sums"))
    stream.backup = back_up(stream.store, Path(stream.old) / "counts")

    stream.switch()

    assert is_sound_at(Path(stream.checkpoint) / "counts", 3)


def test_a_stream_without_a_deployment_has_nothing_to_exchange(stream: Stream) -> None:
    home = StreamHome(LocalStore(stream.uri), "nobody")

    with pytest.raises(RestoreRefused, match="has no deployment"):
        switch(home, stream.launcher, stream.store, stream.backup.id, by="kim")


def test_a_checkpoint_that_cannot_be_backed_up_is_given_up_all_the_same(stream: Stream) -> None:
    def damaged(_: Any) -> str:
        raise CheckpointRefused("It is damaged.")

    assert stream.switch(backup_before=damaged).deployment.number == 2


def test_a_store_that_is_away_ends_the_switch_and_it_goes_on_later(stream: Stream) -> None:
    def away(_: Any) -> str:
        raise HomeUnavailable("The store is away.")

    with pytest.raises(HomeUnavailable):
        stream.switch(backup_before=away)
    assert (stream.checkpoint, stream.is_at(3)) == (stream.old, True)

    assert stream.switch().deployment.checkpoint != stream.old
    assert len(stream.home.changes()) == 1


# Killed at every durable step.


def lives(act: Callable[[Stream, StreamHome], Any], stream: Stream, step: int) -> bool:
    """Do something with a process that dies before a step; tell whether it lived."""
    life = Life(step)
    home = stream.home_on(DyingStore(LocalStore(stream.uri), life))
    with pytest.MonkeyPatch.context() as patch:
        # The home's own files are counted as steps by themselves.
        limit_local(patch, Life())
        patch.setattr(
            "airflow_streaming.checkpoint.local_target._write_all",
            life.around(lambda handle, data: os.write(handle, data)),
        )
        patch.setattr("airflow_streaming.checkpoint.local_target._sync_folder", life.around(str))
        patch.setattr(os, "sync", life.around(lambda: None))
        patch.setattr(Path, "rename", life.around(Path.rename))
        try:
            act(stream, home)
        except Killed:
            return False
    return True


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
        if not is_made or unfinished(stream.home) is not None:
            getattr(stream, sort)()
        assert stream.is_at(batches[1])
        assert unfinished(stream.home) is None
        assert len(stream.home.changes()) == (1 if sort == "switch" else 2)
    # Before it is made: the change, its files, the rename, and the copy of the script.
    assert deaths == sorted(deaths)
    assert (deaths.count(False), deaths.count(True)) == ((16, 4) if sort == "switch" else (3, 4))


def begun(stream: Stream) -> None:
    """Let a switch die when its change is on record and nothing else is done."""
    assert not lives(lambda s, home: s.switch(home), stream, 2)
    assert unfinished(stream.home) is not None


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
    stream.home.store.delete(Layout("orders").change_end(1))

    assert abandon(stream.home, by="kim") is ChangeOutcome.DONE
    assert stream.is_at(1)


def test_a_change_that_was_overtaken_by_a_deployment_is_given_up(stream: Stream) -> None:
    begun(stream)
    stream.deploy(2, checkpoint=stream.old, application_args=("--new",))

    with pytest.raises(RestoreRefused, match="overtaken by another deployment"):
        stream.switch()
    assert unfinished(stream.home) is None
    assert stream.switch().deployment.number == 3


def test_a_stream_that_is_started_while_it_is_restored_keeps_its_checkpoint(
    stream: Stream,
) -> None:
    def starts(_: Any) -> str:
        stream.want(DesiredState.RUNNING)
        return ""

    with pytest.raises(RestoreRefused, match="is wanted running"):
        stream.switch(backup_before=starts)
    assert stream.checkpoint == stream.old

    stream.want(DesiredState.STOPPED)
    assert stream.switch().change.number == 1
    assert stream.is_at(1)


def test_a_damaged_backup_ends_a_switch_without_a_trace(stream: Stream) -> None:
    (pack,) = (stream.folder / "store").rglob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)

    with pytest.raises(CheckpointError):
        stream.switch()
    assert stream.home.newest_change() is None


# Finished by the next one, and two at once.


def written(stream: Stream, **asked: Any) -> None:
    """Let a switch die when its checkpoint is whole and the change is not made."""

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Switching, "make", dies)
        with pytest.raises(Killed):
            stream.switch(**asked)
    assert unfinished(stream.home) is not None


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

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id, sink_logs=logs)
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
        stream.switch(to=f"{stream.folder}/elsewhere")
    assert stream.checkpoint == stream.old

    assert stream.switch(to=f"file://{begun.checkpoint}/").change.number == 1
    assert stream.is_at(1)


def test_the_dry_run_of_a_switch_that_was_made_already_says_so(stream: Stream) -> None:
    stream.switch()
    stream.home.store.delete(Layout("orders").change_end(1))

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert not plan.is_refused
    assert "Change 1 was made already" in plan.warnings[0]


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
    assert unfinished(stream.home) is None


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
    assert unfinished(stream.home) is not None
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
    assert (unfinished(stream.home) is None) is is_own


def test_a_change_that_was_made_while_it_was_looked_at_is_taken_as_made(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Switching.make

    def overtaken(switching: Switching, *args: Any, **asked: Any) -> Any:
        monkeypatch.setattr(Switching, "make", make)
        make(switching, *args, **asked)
        raise RestoreRefused("Change 1 of stream 'orders' was given up.")

    monkeypatch.setattr(Switching, "make", overtaken)

    assert stream.switch().deployment.number == 2
