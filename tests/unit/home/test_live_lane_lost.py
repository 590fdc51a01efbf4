"""A pointer that was lost, and a history with a hole, are not taken for what never was."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.cached import FORGET_AFTER
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import LiveLaneCache, live_lane
from airflow_streaming.model.names import Layout, numbered
from airflow_streaming.model.records.control import Change, ChangeEnd, ChangeKind, ChangeOutcome
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import NOON
from tests.unit.home.reigns import deploy, record

E = CutoverEvent
TO_SWITCH = (E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME, E.PROMOTE)


def lead(home: Home, *events: CutoverEvent, leader: str = "orders") -> None:
    """Record a cutover of ``orders`` that has come as far as these steps."""
    for name, led_by in ((leader, ""), ("orders", f"{leader}/1")):
        if led_by and leader == "orders":
            continue
        told = {"replaced": 1, "deployment": 1, "checkpoint": "", "by": "kim", "at": NOON}
        change = Change(
            number=1,
            stream=name,
            what=ChangeKind.CUTOVER,
            reason="A new version.",
            leader=led_by,
            **told,  # type: ignore[arg-type]
        )
        home.stream(name).begin_change(change)
    state = CutoverState.PLANNED
    for number, event in enumerate(events, 1):
        step = CutoverTransition(
            change=1,
            number=number,
            before=state,
            event=event,
            after=(state := CUTOVER.after(state, event)),
            reason="So it is.",
            at=NOON,
            by="kim",
        )
        home.stream(leader).take_step(step)


@pytest.mark.parametrize("leader", ["orders", "shop"])
def test_a_lost_pointer_is_not_taken_for_one_that_never_moved(home: Home, leader: str) -> None:
    deploy(home, "orders.green", 1)
    lead(home, *TO_SWITCH, E.SWITCHED, leader=leader)

    for ask in (live_lane, live):
        with pytest.raises(RecordError, match=rf"cutover 1 of '{leader}' has moved it \(switched"):
            ask(home, "orders")
    with pytest.raises(RecordError, match="Restore the original file"):
        LiveLaneCache(home.store, "orders")()


@pytest.mark.parametrize("leader", ["orders", "shop"])
@pytest.mark.parametrize("is_over", [False, True], ids=["open", "ended"])
def test_an_older_record_does_not_count_where_the_newest_is_lost(
    home: Home, leader: str, is_over: bool
) -> None:
    deploy(home, "orders.green", 1)
    lead(home, *TO_SWITCH, E.SWITCHED, E.ROLL_BACK, E.UNDONE, leader=leader)
    folder, clock = home.stream("orders"), [0.0]
    folder.point(record("orders.green", 7, leader=leader))
    newest = folder.point(record("orders", 9, event=E.UNDONE, leader=leader))
    if is_over:
        told = {"outcome": ChangeOutcome.ROLLED_BACK, "by": "kim", "reason": "So it is."}
        folder.end_change(ChangeEnd(number=1, at=NOON, **told))  # type: ignore[arg-type]
    following = LiveLaneCache(home.store, "orders", clock=lambda: clock[0])
    assert (live_lane(home, "orders"), following()) == ("orders", "orders")

    home.store.delete(Layout("orders").place(LiveRecord, number=newest.number))
    clock[0] += FORGET_AFTER

    for ask in (live_lane, live):
        with pytest.raises(
            RecordError, match=rf"'{leader}' has moved it \(undone\).* Restore the original"
        ):
            ask(home, "orders")
    with pytest.raises(HomeUnavailable, match="no longer has the records"):
        following()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(TO_SWITCH, id="not switched yet"),
        pytest.param((*TO_SWITCH, E.ABORT, E.UNDONE), id="given up before"),
    ],
)
def test_a_stream_that_no_cutover_has_moved_is_live_in_its_own_lane(
    home: Home, events: tuple[CutoverEvent, ...]
) -> None:
    deploy(home, "orders.green", 1)
    lead(home, *events)
    assert live_lane(home, "orders") == "orders"


def test_steps_without_gaps_are_all_that_is_taken_for_a_history(home: Home) -> None:
    lead(home, *TO_SWITCH)
    folder = home.stream("orders")
    assert len(folder.steps(1)) == 6
    path = Layout("orders").place(CutoverTransition, change=1, number=3)
    data = home.store.read(path)
    home.store.delete(path)

    with pytest.raises(RecordError, match=r"Step 3 of change 1 of 'orders' is missing, but"):
        folder.steps(1)

    assert data is not None
    home.store.create(path, data.replace(b'"catching_up"', b'"starting"'))
    with pytest.raises(RecordError, match="begins in 'starting', but the previous step ended in"):
        folder.steps(1)


def test_a_listing_that_shows_a_newer_step_first_has_no_hole(tmp_path: object) -> None:
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
