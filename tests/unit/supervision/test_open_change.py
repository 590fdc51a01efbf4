"""How far a cutover has come is seen from either lane, by few requests."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.cached import FORGET_AFTER, CachedStream
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.model.records.control import Change, ChangeKind, ChangeOutcome
from airflow_streaming.model.records.cutover import CutoverStanding
from airflow_streaming.model.records.cutover_table import DEADLINES, CutoverState
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.open_change import change_in_progress
from tests.unit.home.make import NOON, SCRIPT, make_deployment
from tests.unit.two_lanes import BLUE, GREEN, TO_DRAINING, TO_READY, E, TwoLanes, lane
from tests.unit.world import World


class CountingStore(LocalStore):
    """Counts what an object store would be asked."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: Counter[str] = Counter()

    def read(self, path: str) -> bytes | None:
        self.asked[f"read {path}"] += 1
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self.asked[f"list {folder}"] += 1
        return super().names(folder)


@pytest.fixture
def cutover(world: World) -> TwoLanes:
    lane(world, BLUE).create_deployment(make_deployment(), SCRIPT)
    return TwoLanes(world)


@pytest.mark.parametrize("name", [BLUE, GREEN])
def test_both_lanes_see_the_same_state(cutover: TwoLanes, name: str) -> None:
    cutover.begin(*TO_READY)

    seen = change_in_progress(lane(cutover.world, name))

    assert isinstance(seen, CutoverStanding)
    assert (seen.change, seen.green, seen.state) == (1, GREEN, CutoverState.READY)
    assert seen.since == cutover.leader.steps(1)[-1].at
    assert seen.deadline == DEADLINES[CutoverState.READY]
    cutover.take(E.HAND_OVER, E.STANDBY_READY)
    seen = change_in_progress(lane(cutover.world, name))
    assert seen is not None
    assert seen.owns_stream


def test_one_without_a_step_is_planned_since_it_was_begun(cutover: TwoLanes) -> None:
    cutover.begin()

    seen = change_in_progress(cutover.leader)

    assert isinstance(seen, CutoverStanding)
    assert seen.state is CutoverState.PLANNED
    assert seen.since == cutover.leader.change(1).at
    assert seen.deadline == timedelta(0)


def test_one_that_is_closed_is_over(cutover: TwoLanes) -> None:
    cutover.begin(E.ABORT, E.UNDONE)
    cutover.close(ChangeOutcome.ABANDONED)

    assert change_in_progress(cutover.leader) is None
    assert change_in_progress(lane(cutover.world, GREEN)) is None


def test_terms_that_cannot_be_read_hide_no_state(cutover: TwoLanes) -> None:
    cutover.begin(*TO_DRAINING)
    for terms in (cutover.world.folder / "home/orders/changes/000001").glob("terms-*.json"):
        terms.unlink()

    seen = change_in_progress(lane(cutover.world, GREEN))

    assert isinstance(seen, CutoverStanding)
    assert (seen.green, seen.state) == ("", CutoverState.DRAINING)


@pytest.mark.parametrize("name", [BLUE, GREEN])
@pytest.mark.parametrize("lost", [1, 4])
def test_a_hole_in_the_steps_is_said_and_not_taken_for_their_end(
    cutover: TwoLanes, name: str, lost: int
) -> None:
    cutover.begin(*TO_DRAINING)
    steps = cutover.world.folder / "home/orders/changes/000001/steps"
    (steps / f"00000{lost}.json").rename(steps / "lost")

    for home in (lane(cutover.world, name), CachedStream(LocalStore(cutover.world.uri), name)):
        with pytest.raises(RecordError, match=f"Step {lost} .* is missing.* Restore the original"):
            change_in_progress(home)
        (steps / "lost").rename(steps / f"00000{lost}.json")
        seen = change_in_progress(home)
        assert isinstance(seen, CutoverStanding)
        assert seen.state is CutoverState.DRAINING
        (steps / f"00000{lost}.json").rename(steps / "lost")


def test_a_restore_is_nobody_elses_business(cutover: TwoLanes) -> None:
    told: dict[str, Any] = {"stream": BLUE, "replaced": 1, "deployment": 2, "checkpoint": "/c"}
    change = Change(number=1, what=ChangeKind.RESTORE, by="test", reason="A test.", at=NOON, **told)
    cutover.leader.begin_change(change)

    assert change_in_progress(cutover.leader) is None


@pytest.mark.parametrize("name", [BLUE, GREEN])
def test_a_look_while_nothing_happens_asks_for_the_next_step_and_the_end(
    cutover: TwoLanes, name: str
) -> None:
    cutover.begin(*TO_READY)
    store = CountingStore(cutover.world.uri)
    cached = CachedStream(store, name)
    change_in_progress(cached)
    store.asked.clear()

    change_in_progress(cached)

    assert store.asked == {
        f"read {name}/changes/000001.end.json": 1,
        "read orders/changes/000001/steps/000006.json": 1,
    }


# Which lane is live, for those who look again and again.


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_stream_that_was_never_moved_costs_two_listings_and_then_one_try(
    cutover: TwoLanes,
) -> None:
    store = CountingStore(cutover.world.uri)
    live = LiveLaneCache(store, BLUE)

    # The second one tells a stream that was never moved from one whose live record is lost.
    looks = {"list orders/live": 1, "list orders.green/deployments": 1}
    assert (live(), store.asked) == (BLUE, looks)
    store.asked.clear()
    assert (live(), store.asked) == (BLUE, {"read orders/live/000001.json": 1})


def test_an_answer_is_good_for_as_long_as_was_asked(cutover: TwoLanes) -> None:
    store, clock = CountingStore(cutover.world.uri), Clock()
    live = LiveLaneCache(store, BLUE, every=60.0, clock=clock)
    assert live() == BLUE
    cutover.whole()
    store.asked.clear()

    clock.now = 59.0
    assert (live(), store.asked) == (BLUE, {})
    clock.now = 60.0
    assert live() == GREEN
    clock.now = 120.0
    store.asked.clear()
    assert (live(), store.asked) == (GREEN, {"read orders/live/000002.json": 1})


def test_a_home_that_has_lost_the_pointer_is_no_way_back(cutover: TwoLanes) -> None:
    clock = Clock()
    live = LiveLaneCache(CountingStore(cutover.world.uri), BLUE, clock=clock)
    cutover.whole()
    assert live() == GREEN
    (cutover.world.folder / "home").rename(cutover.world.folder / "unmounted")
    clock.now = FORGET_AFTER

    with pytest.raises(HomeUnavailable, match="not mounted"):
        live()


def test_the_records_of_a_lane_are_kept_for_all_who_ask(cutover: TwoLanes) -> None:
    live = LiveLaneCache(CountingStore(cutover.world.uri), BLUE)

    assert live.home(BLUE) is live.base
    assert live.home(GREEN) is live.home(GREEN)
    assert live.home(GREEN).name == GREEN
