"""Looking at a stream that we did not launch, look after look."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.external.endpoint_reply import (
    Application,
    EndpointSight,
    EndpointState,
)
from airflow_streaming.supervision.external.observer import ExternalObserver
from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot
from tests.unit.supervision.checkpoints import Checkpoint
from tests.unit.supervision.servers import driver, serving

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULES = HealthRules(stall_after=timedelta(seconds=60))
ADDRESS = "http://127.0.0.1:4040"
REFUSED = EndpointSight(state=EndpointState.REFUSED, reason="It refuses connections.")
TIMED_OUT = EndpointSight(state=EndpointState.TIMED_OUT, reason="It gave no answer.")


def answered(*queries: str, application: str = "local-1") -> EndpointSight:
    return EndpointSight(
        state=EndpointState.ANSWERED,
        application=Application(id=application),
        queries=frozenset(queries),
    )


class Watch:
    """A checkpoint and an observer of it, in a time that the test makes."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.checkpoint = Checkpoint(folder / "orders")
        self.clock = 1000.0
        self.told: EndpointSight | None = None
        self.given = given
        self.observer = self.make()

    def make(self, memory: dict[str, Any] | None = None, clock: float = 0.0) -> ExternalObserver:
        return ExternalObserver(
            open_folders(str(self.checkpoint.folder)),
            rules=RULES,
            memory=memory,
            clock=lambda: self.clock + clock,
            now=lambda: NOON + timedelta(seconds=self.clock),
            asking=lambda address: self.told,
            **self.given,
        )

    def look(self, after: float = 0.0) -> StreamSnapshot:
        self.clock += after
        return self.observer.snapshot()

    def states(self, ages: Iterable[float]) -> list[str]:
        return [str(self.look(age).verdict.state) for age in ages]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


@pytest.fixture
def asking(tmp_path: Path) -> Watch:
    return Watch(tmp_path, endpoint=ADDRESS, allowed=(ADDRESS,))


def test_it_is_healthy_once_a_commit_was_seen_while_listening(watch: Watch) -> None:
    watch.checkpoint.run(0, 1)
    first = watch.look()
    assert (first.verdict.state, first.fresh) == ("starting", False)

    watch.checkpoint.run(2)
    second = watch.look(5)

    assert (second.verdict.state, second.fresh) == ("healthy", True)
    assert second.queries[0].batch_id == 2
    assert second.who == str(watch.checkpoint.folder)


def test_it_tells_for_how_long_it_has_seen_it_healthy(watch: Watch) -> None:
    watch.look()
    for batch in range(5):
        watch.checkpoint.run(batch)
        sight = watch.look(10)

    assert sight.verdict.healthy_for == timedelta(seconds=40)


def test_the_first_commit_of_a_new_checkpoint_is_a_sign_of_life(watch: Watch) -> None:
    watch.checkpoint.plan(0)
    assert watch.look().verdict.state == "starting"

    watch.checkpoint.commit(0)

    assert watch.look(5).verdict.state == "healthy"


def test_a_batch_that_is_never_committed_is_stalled_after_its_window(watch: Watch) -> None:
    watch.checkpoint.run(0)
    watch.look()
    watch.checkpoint.run(1)
    watch.checkpoint.plan(2)

    assert watch.states([5, 59, 1]) == ["healthy", "healthy", "stalled"]

    watch.checkpoint.commit(2)
    sight = watch.look(5)
    assert (sight.verdict.state, sight.verdict.healthy_for) == ("healthy", timedelta(0))


def test_a_batch_after_a_batch_is_not_one_long_batch(watch: Watch) -> None:
    watch.checkpoint.run(0)
    watch.look()
    states = []
    for batch in range(1, 10):
        watch.checkpoint.plan(batch)
        states += watch.states([40])
        watch.checkpoint.commit(batch)

    assert set(states[1:]) == {"healthy"}


def test_silence_with_nothing_planned_is_not_known_to_be_anything(watch: Watch) -> None:
    watch.checkpoint.run(0)
    watch.look()
    watch.checkpoint.run(1)

    assert watch.states([5, 59, 1]) == ["healthy", "healthy", "unreachable"]


def test_the_age_of_a_commit_is_never_told_from_the_stores_clock(watch: Watch) -> None:
    # Files that are years old by our clock, or from tomorrow, are neither here nor there.
    for batch, at in enumerate((-1e8, 1e8)):
        watch.checkpoint.plan(batch, at=at)
        watch.checkpoint.commit(batch, at=at)
    assert watch.look().verdict.state == "starting"

    watch.checkpoint.plan(2, at=-1e8)
    watch.checkpoint.commit(2, at=-1e8)

    assert watch.look(5).verdict.state == "healthy"


def test_another_observer_goes_on_where_one_left_off(asking: Watch) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("orders")
    asking.look()
    asking.checkpoint.run(1)
    asking.checkpoint.plan(2)
    asking.look(5)
    asking.told = REFUSED
    asking.look(3)
    memory = json.loads(json.dumps(asking.observer.memory()))

    # The other process has a monotonic clock of its own.
    asking.observer = asking.make(memory, clock=5000.0)
    sight = asking.look(6)

    assert (sight.verdict.state, sight.verdict.rule) == ("dead", "driver_gone")
    assert "refused connections for 6 s" in sight.verdict.reason


def test_the_time_in_which_nobody_could_look_is_no_silence(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.checkpoint.run(0)
    watch.look()
    watch.checkpoint.run(1)
    watch.checkpoint.plan(2)
    assert watch.look(5).verdict.state == "healthy"
    with monkeypatch.context() as away:
        away.setattr("os.scandir", lambda path: (_ for _ in ()).throw(PermissionError("away")))
        with pytest.raises(HomeUnavailable):
            watch.look(10)
        watch.observer.lose_sight()

    assert watch.states([500, 59, 1]) == ["healthy", "healthy", "stalled"]


def test_a_checkpoint_that_was_replaced_by_a_new_one_has_to_show_life_again(watch: Watch) -> None:
    watch.checkpoint.run(0, 1)
    watch.look()
    watch.checkpoint.run(2)
    assert watch.look(5).fresh

    for batch in (1, 2):
        for log in ("offsets", "commits"):
            (watch.checkpoint.folder / log / str(batch)).unlink()

    sight = watch.look(5)
    assert (sight.verdict.state, sight.fresh) == ("starting", False)


def test_where_there_is_no_checkpoint_nothing_is_well(tmp_path: Path) -> None:
    observer = ExternalObserver(open_folders(str(tmp_path / "missing")))

    sight = observer.snapshot()

    assert (sight.verdict.state, sight.verdict.rule) == ("unreachable", "no_checkpoint")
    assert (sight.queries, sight.fresh) == ((), False)


def test_of_a_folder_that_is_no_checkpoint_no_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "shadow").touch()
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "host_key").touch()

    verdict = ExternalObserver(open_folders(str(tmp_path))).snapshot().verdict

    told = repr(verdict)
    assert verdict.rule == "no_checkpoint"
    assert not [name for name in ("shadow", "ssh", "host_key") if name in told]


def test_a_quiet_query_with_gauges_is_idle(asking: Watch) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("orders")

    assert asking.states([0, 600]) == ["idle", "idle"]
    sight = asking.look(5)
    assert sight.fresh
    assert sight.verdict.healthy_for == timedelta(seconds=605)


def test_a_query_whose_gauges_vanish_has_ended(asking: Watch) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("revenue")
    asking.look()
    asking.told = answered()

    assert asking.states([1, 4, 1]) == ["starting", "starting", "failed"]

    asking.told = answered("revenue")
    assert asking.look(5).verdict.state == "idle"


def test_gauges_of_another_query_are_forgotten_when_the_stream_commits_without_them(
    asking: Watch,
) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("somebody else's")
    asking.look()
    asking.told = answered()
    asking.look(5)
    asking.checkpoint.run(1)

    assert asking.states([5, 5, 5]) == ["healthy", "healthy", "healthy"]


def test_a_driver_that_answered_and_refuses_is_dead_when_nothing_is_committed(
    asking: Watch,
) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("orders")
    asking.look()
    asking.told = REFUSED

    assert asking.states([5, 5]) == ["starting", "dead"]


def test_a_driver_that_never_answered_is_not_known_to_be_dead(asking: Watch) -> None:
    asking.checkpoint.run(0)
    asking.told = REFUSED

    assert asking.states([0, 30, 600]) == ["starting", "starting", "unreachable"]


def test_a_driver_that_does_not_answer_in_time_is_never_dead(asking: Watch) -> None:
    asking.told = answered("orders")
    asking.look()
    asking.checkpoint.run(0)
    asking.look(5)
    asking.told = TIMED_OUT

    assert asking.states([5, 5, 600]) == ["slow", "slow", "unreachable"]


def test_another_application_is_told_once_and_then_taken_for_the_streams(asking: Watch) -> None:
    asking.told = answered("orders")
    asking.look()
    asking.checkpoint.run(0)
    asking.told = answered("orders", application="local-2")
    assert asking.look(5).verdict.state == "unreachable", "it may be anybody's"

    asking.checkpoint.run(1)
    sight = asking.look(5)
    assert (sight.verdict.state, sight.verdict.rule) == ("degraded", "application_changed")
    assert "is now of application local-2, and was of local-1" in sight.verdict.reason

    asking.checkpoint.run(2)
    assert asking.look(5).verdict.state == "healthy"


def test_an_application_that_took_the_port_is_no_sign_of_life(asking: Watch) -> None:
    asking.checkpoint.run(0)
    asking.told = answered("orders")
    asking.look()
    asking.told = answered("orders", application="local-2")

    assert asking.states([5, 60, 600]) == ["unreachable"] * 3


def test_an_endpoint_that_nobody_listed_is_never_asked(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="metrics_endpoints"):
        Watch(tmp_path, endpoint=ADDRESS)


def test_it_asks_a_real_server(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "orders")
    checkpoint.run(0)
    with serving(driver()) as server:
        url = f"http://127.0.0.1:{server.port}"
        observer = ExternalObserver(
            open_folders(str(checkpoint.folder)), endpoint=url, allowed=(url,)
        )
        assert observer.snapshot().verdict.state == "idle"
