"""Which lane is live: what a reader finds, before, while and after the pointer moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.cutover.live import LiveRecord
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState, after
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.lanes import Colour, base_of
from airflow_streaming.core.names import Layout, numbered
from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.following import LiveLane
from airflow_streaming.home.home import Home
from airflow_streaming.home.lanes import Live, live, live_lane, live_together
from airflow_streaming.live import live as public_live
from airflow_streaming.live import live_together as public_live_together
from tests.unit.home.make import NOON, SCRIPT, make_deployment

SWITCHED, BACK = CutoverEvent.SWITCHED, CutoverEvent.SOAK_FAILED
_BEFORE = {SWITCHED: CutoverState.SWITCHING, CutoverEvent.ABORT: CutoverState.SWITCHING}


@pytest.fixture
def home(tmp_path: object) -> Home:
    home = Home(LocalStore(str(tmp_path)))
    deploy(home, "orders", 1)
    return home


def output_of(lane: str, number: int) -> str:
    return f"/lake/{lane}/{number}"


def deploy(home: Home, lane: str, number: int, at: datetime = NOON) -> None:
    made = make_deployment(
        number, stream=lane, output=output_of(lane, number), created_at=at, colour="blue"
    )
    home.stream(lane).create_deployment(made, SCRIPT)


def record(lane: str, step: int = 9, **changes: object) -> LiveRecord:
    deployment = changes.get("deployment", 1)
    told: dict[str, object] = {
        "number": 1,
        "stream": base_of(lane),
        "lane": lane,
        "deployment": deployment,
        "output": output_of(lane, int(str(deployment))),
        "leader": "orders",
        "change": 1,
        "step": step,
        "event": SWITCHED,
        "at": NOON,
        "by": "kim",
    }
    return LiveRecord(**told | changes)  # type: ignore[arg-type]


def take(home: Home, step: int, event: CutoverEvent = SWITCHED, change: int = 1) -> None:
    before = _BEFORE.get(event, CutoverState.SOAKING)
    taken = Transition(
        change=change,
        number=step,
        before=before,
        event=event,
        after=after(before, event),
        reason="So it is.",
        at=NOON + timedelta(hours=change, minutes=step),
        by="kim",
    )
    path = Layout("orders").change_file(change, f"steps/{numbered(step)}.json")
    home.store.create(path, taken.to_bytes())


def cut_over(home: Home, lane: str, change: int, deployment: int = 1) -> LiveRecord:
    made = home.stream("orders").point(record(lane, change=change, deployment=deployment))
    take(home, 9, change=change)
    return made


def test_without_a_cutover_the_newest_deployment_of_the_stream_is_live(home: Home) -> None:
    deploy(home, "orders", 2)
    assert live_lane(home, "orders") == "orders"
    assert live(home, "orders", history=True) == Live(
        stream="orders", lane="orders", deployment=2, output="/lake/orders/2"
    )


def test_a_record_counts_from_the_moment_its_step_is_taken(home: Home) -> None:
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    assert live_lane(home, "orders") == "orders"
    take(home, 9)
    found = live(home, "orders")
    assert (found.lane, found.colour, found.output) == (
        "orders.green",
        Colour.GREEN,
        "/lake/orders.green/1",
    )
    assert found.since == NOON + timedelta(hours=1, minutes=9)
    assert live_lane(home, "orders.green") == "orders.green"


def test_a_record_never_counts_when_another_step_was_taken_in_its_place(home: Home) -> None:
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    take(home, 9, CutoverEvent.ABORT)
    assert live(home, "orders").lane == "orders"


def test_going_back_is_one_more_record(home: Home) -> None:
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    home.stream("orders").point(record("orders", step=11, event=BACK))
    assert live(home, "orders").lane == "orders.green"
    take(home, 11, BACK)
    found = live(home, "orders", history=True)
    assert (found.lane, found.number) == ("orders", 2)
    assert [(r.lane, r.since is None) for r in found.history] == [
        ("orders", True),
        ("orders.green", False),
    ]
    assert found.history[0].until == found.history[1].since
    assert found.history[1].until == found.since


def test_the_first_reign_ended_with_the_deployment_of_that_time(home: Home) -> None:
    deploy(home, "orders", 2)
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    deploy(home, "orders", 3, at=NOON + timedelta(days=1))
    assert [r.deployment for r in live(home, "orders", history=True).history] == [2]


def test_an_upgrade_in_the_live_lane_is_live_at_once(home: Home) -> None:
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    deploy(home, "orders.green", 2)
    assert (live(home, "orders").deployment, live(home, "orders").output) == (
        2,
        "/lake/orders.green/2",
    )


def test_pointing_twice_is_pointing_once_whoever_is_late(home: Home) -> None:
    deploy(home, "orders.green", 1)
    folder = home.stream("orders")
    first = cut_over(home, "orders.green", 1)
    folder.point(record("orders", step=11, event=BACK))
    take(home, 11, BACK)
    # The task that died before it saw its own record comes back to life.
    assert folder.point(record("orders.green", by="late", number=77)) == first
    assert live(home, "orders").lane == "orders"
    assert len(folder.live_records()) == 2


def test_a_late_word_of_an_earlier_cutover_is_found_beneath_later_ones(home: Home) -> None:
    deploy(home, "orders.green", 1)
    first = cut_over(home, "orders.green", 1)
    deploy(home, "orders", 2)
    cut_over(home, "orders", 2, deployment=2)
    assert home.stream("orders").point(record("orders.green", by="late")) == first
    assert live(home, "orders").lane == "orders"


def test_of_many_who_point_at_once_one_record_stands(home: Home) -> None:
    start, found = threading.Barrier(8), []

    def point(by: str) -> None:
        start.wait()
        found.append(home.stream("orders").point(record("orders.green", by=by)))

    run_all([lambda n=n: point(f"task {n}") for n in range(8)])  # type: ignore[misc]
    assert len(set(map(repr, found))) == 1
    assert home.stream("orders").live_records() == found[:1]


def test_a_stream_that_nobody_knows_is_told_with_those_that_are(home: Home) -> None:
    with pytest.raises(SpecError, match=r"no stream 'order' in .*Its streams are: orders"):
        live(home, "order")


def test_a_lane_whose_deployment_is_gone_is_not_guessed(home: Home) -> None:
    cut_over(home, "orders.green", 1)
    with pytest.raises(HomeUnavailable, match="Check that the home is mounted whole"):
        live(home, "orders")


def test_the_public_function_needs_only_the_home(home: Home) -> None:
    assert public_live("orders", home=home.store.uri) == live(home, "orders")
    assert public_live_together(["orders"], home=home.store.uri)["orders"].lane == "orders"


def lead(home: Home, *events: CutoverEvent, leader: str = "orders") -> None:
    """Record a cutover of ``orders`` that has come as far as these steps."""
    for name, led_by in ((leader, ""), ("orders", f"{leader}/1")):
        if led_by and leader == "orders":
            continue
        told = {"replaced": 1, "deployment": 1, "checkpoint": "", "by": "kim", "at": NOON}
        change = Change(
            number=1,
            stream=name,
            what=ChangeSort.CUTOVER,
            reason="A new version.",
            leader=led_by,
            **told,  # type: ignore[arg-type]
        )
        home.stream(name).begin_change(change)
    state = CutoverState.PLANNED
    for number, event in enumerate(events, 1):
        step = Transition(
            change=1,
            number=number,
            before=state,
            event=event,
            after=(state := after(state, event)),
            reason="So it is.",
            at=NOON,
            by="kim",
        )
        home.stream(leader).take_step(step)


E = CutoverEvent
TO_SWITCH = (E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME, E.PROMOTE)


@pytest.mark.parametrize("leader", ["orders", "shop"])
def test_a_lost_pointer_is_not_taken_for_one_that_never_moved(home: Home, leader: str) -> None:
    deploy(home, "orders.green", 1)
    lead(home, *TO_SWITCH, E.SWITCHED, leader=leader)

    for ask in (live_lane, live):
        with pytest.raises(RecordError, match=f"cutover 1 of '{leader}' has switched it"):
            ask(home, "orders")
    with pytest.raises(RecordError, match="Put back what was there"):
        LiveLane(home.store, "orders")()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(TO_SWITCH, id="not switched yet"),
        pytest.param((*TO_SWITCH, E.ABORT, E.UNDONE), id="given up before"),
        pytest.param((*TO_SWITCH, E.SWITCHED, E.ROLL_BACK, E.UNDONE), id="undone"),
    ],
)
def test_a_stream_that_no_cutover_moves_any_more_is_live_in_its_own_lane(
    home: Home, events: tuple[CutoverEvent, ...]
) -> None:
    deploy(home, "orders.green", 1)
    lead(home, *events)
    assert live_lane(home, "orders") == "orders"


def test_steps_without_gaps_are_all_that_is_taken_for_a_history(home: Home) -> None:
    lead(home, *TO_SWITCH)
    folder = home.stream("orders")
    assert len(folder.steps(1)) == 6
    path = Layout("orders").change_file(1, f"steps/{numbered(3)}.json")
    data = home.store.read(path)
    home.store.delete(path)

    with pytest.raises(RecordError, match=r"Step 3 of cutover 1 of 'orders' is missing though"):
        folder.steps(1)

    assert data is not None
    home.store.create(path, data.replace(b'"catching_up"', b'"starting"'))
    with pytest.raises(RecordError, match="begins in 'starting', and the step before it ended in"):
        folder.steps(1)


def test_a_listing_that_shows_a_newer_step_first_is_taken_again(tmp_path: object) -> None:
    class Late(LocalStore):
        hidden = 1

        def names(self, folder: str) -> list[str]:
            found = super().names(folder)
            if folder.endswith("/steps") and self.hidden:
                self.hidden -= 1
                found = [name for name in found if numbered(2) not in name]
            return found

    home = Home(Late(str(tmp_path)))
    deploy(home, "orders", 1)
    lead(home, *TO_SWITCH)
    assert len(home.stream("orders").steps(1)) == 6


def test_a_home_may_come_from_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)
    with pytest.raises(SpecError, match="Which home"):
        public_live("orders")
    monkeypatch.setenv("AIRFLOW_STREAMING_HOME", home.store.uri)
    assert public_live("orders").lane == "orders"


def test_a_lane_of_a_lane_is_no_stream(home: Home) -> None:
    deploy(home, "orders.green", 1)
    with pytest.raises(SpecError, match="is a lane already"):
        live(home, "orders.green.green")


class Meddling(LocalStore):
    """A store in which something happens right after a folder was listed."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.then: list[tuple[str, Callable[[], None]]] = []

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        if self.then and folder == self.then[0][0]:
            self.then.pop(0)[1]()
        return found


def test_a_look_during_which_the_pointer_moves_is_taken_again(tmp_path: object) -> None:
    store = Meddling(str(tmp_path))
    home = Home(store)
    deploy(home, "orders", 1)
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    # Between the look at the pointer and the look at the lane's deployment.
    store.then = [("orders/deployments", lambda: (take(home, 9), deploy(home, "orders", 2))[1])]
    assert live(home, "orders").output == "/lake/orders.green/1"


def test_a_pointer_that_never_rests_is_an_error_with_a_way_out(tmp_path: object) -> None:
    store = Meddling(str(tmp_path))
    home = Home(store)
    deploy(home, "orders", 1)
    deploy(home, "orders.green", 1)

    def move(change: int) -> None:
        cut_over(home, ("orders", "orders.green")[change % 2], change)

    store.then = [
        *[("orders/deployments", lambda: move(1))],
        *[
            (f"{('orders', 'orders.green')[n % 2]}/deployments", lambda n=n: move(n + 1))  # type: ignore[misc]
            for n in range(1, 25)
        ],
    ]
    with pytest.raises(HomeUnavailable, match="moved during each of 20 looks"):
        live(home, "orders")


def test_streams_that_move_together_are_never_seen_apart(home: Home) -> None:
    """Readers race with forty switches of two streams by one step each."""
    deploy(home, "payments", 1)
    for lane in ("orders.green", "payments.green"):
        deploy(home, lane, 1)
    done, seen, halves = threading.Event(), set(), []

    def read() -> None:
        while not done.is_set():
            found = live_together(home, ["orders", "payments"])
            seen.add(found["orders"].lane)
            colours = {one.colour for one in found.values()}
            whole = all(one.output == output_of(one.lane, 1) for one in found.values())
            if len(colours) != 1 or not whole:
                halves.append(found)

    def write() -> None:
        try:
            for change in range(1, 41):
                suffix = ".green" if change % 2 else ""
                for stream in ("orders", "payments"):
                    home.stream(stream).point(record(f"{stream}{suffix}", change=change))
                take(home, 9, change=change)
        finally:
            done.set()

    run_all([read, read, read, write])
    assert halves == []
    assert seen == {"orders", "orders.green"}


def run_all(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Counting(LocalStore):
    """A store that counts what it is asked."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: list[str] = []

    def names(self, folder: str) -> list[str]:
        self.asked.append("list")
        return super().names(folder)

    def read(self, path: str) -> bytes | None:
        self.asked.append("read")
        return super().read(path)


def test_it_is_cheap_to_ask(tmp_path: object) -> None:
    store = Counting(str(tmp_path))
    home = Home(store)

    def cost(ask: Callable[[Home, str], object]) -> tuple[int, int]:
        store.asked.clear()
        ask(home, "orders")
        return store.asked.count("list"), store.asked.count("read")

    deploy(home, "orders", 1)
    # One listing tells that there is no second lane, so that nothing can have been lost.
    assert (cost(live_lane), cost(live)) == ((2, 0), (4, 1))
    deploy(home, "orders.green", 1)
    for change in range(1, 6):
        cut_over(home, ("orders", "orders.green")[change % 2], change)
    assert (cost(live_lane), cost(live)) == ((1, 2), (3, 3))
    # However many cutovers there were, one more pointer is a few reads.
    assert cost(lambda home, _: home.stream("orders").point(record("orders", change=6))) == (2, 2)
