"""A person names a stream and means its live lane, or names a lane by its color."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.changes.restore.undo import abandon
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from tests.unit.cli.host import GONE, FakeHost, Run, begin, end
from tests.unit.home.make import NOON, SCRIPT, make_deployment

E = CutoverEvent
UP_TO_LIVE = (
    *(E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL),
    *(E.OUTPUT_SAME, E.PROMOTE, E.SWITCHED),
)


@pytest.fixture
def green(home: Home, stream: StreamHome) -> StreamHome:
    """Return the green lane of a stream, which became live; the cutover is not closed."""
    begin(stream)
    made = home.stream("orders.green")
    made.create_deployment(make_deployment(stream="orders.green", color="green"), SCRIPT)
    change = Change(
        number=1,
        stream="orders",
        what=ChangeKind.CUTOVER,
        replaced=1,
        deployment=1,
        checkpoint="",
        by="ann",
        reason="It is better.",
        at=NOON,
    )
    stream.begin_change(change)
    stream.point(
        LiveRecord(
            number=0,
            stream="orders",
            lane="orders.green",
            deployment=1,
            output="/green",
            leader="orders",
            change=1,
            step=len(UP_TO_LIVE),
            event=CutoverEvent.SWITCHED,
            at=NOON,
            by="ann",
        )
    )
    state = CutoverState.PLANNED
    for number, event in enumerate(UP_TO_LIVE, 1):
        before, state = state, CUTOVER.after(state, event)
        stream.take_step(
            CutoverTransition(
                change=1,
                number=number,
                before=before,
                event=event,
                after=state,
                reason="It is time.",
                at=NOON,
                by="ann",
            )
        )
    return made


def test_every_lane_has_a_line(run: Run, green: StreamHome) -> None:
    code, out, _ = run("list")

    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("stream        lane         state      desired")
    assert lines[1].startswith("orders        blue         healthy    running")
    assert lines[2].startswith("orders.green  green, live  never run  running")


def test_a_home_without_a_second_lane_needs_no_column_for_it(run: Run, stream: StreamHome) -> None:
    assert run("list")[1].startswith("stream  state      desired")


@pytest.mark.parametrize(
    ("named", "lane", "is_live"),
    [
        (("orders",), "orders.green", True),
        (("orders.green",), "orders.green", True),
        (("orders", "--color", "green"), "orders.green", True),
        (("orders", "--color", "blue"), "orders", False),
    ],
)
def test_a_stream_is_its_live_lane_unless_a_color_is_named(
    run: Run, green: StreamHome, named: tuple[str, ...], lane: str, is_live: bool
) -> None:
    told = json.loads(run("status", *named, "--json")[1])

    assert (told["stream"], told["live"]) == (lane, is_live)
    assert told["color"] == ("green" if lane == "orders.green" else "blue")


def test_a_name_and_a_color_that_do_not_go_together_are_refused(
    run: Run, green: StreamHome
) -> None:
    code, _, err = run("status", "orders.green", "--color", "blue")

    assert code == 2
    assert "'orders.green' is not the blue lane of 'orders'" in err


def test_the_status_tells_lane_and_change(run: Run, green: StreamHome) -> None:
    _, out, _ = run("status", "orders", "--color", "blue")

    assert "lane           blue, not live" in out
    assert "change         Change 1 (cutover) is in progress: live." in out


def test_a_lane_that_is_not_live_may_be_down(
    run: Run, host: FakeHost, green: StreamHome, stream: StreamHome
) -> None:
    end(stream)
    host.process = GONE

    assert run("list", "--json")[0] == 0
    code, out, _ = run("status", "orders", "--color", "blue", "--json")
    assert (code, json.loads(out)["state"]) == (0, "off")


def test_stopping_and_starting_mean_the_live_lane(
    run: Run, green: StreamHome, stream: StreamHome
) -> None:
    code, out, _ = run("stop", "orders")

    desired = green.desired()
    assert (code, stream.desired()) == (0, None)
    assert desired is not None
    assert desired.state is DesiredState.STOPPED
    assert 'Desired state of orders.green is now "stopped".' in out


def test_a_cutover_is_not_given_up_as_a_restore_is(green: StreamHome, stream: StreamHome) -> None:
    with pytest.raises(RestoreRefused, match="airflow-streaming cutover abort orders"):
        abandon(stream, by="ann")
