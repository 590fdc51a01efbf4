"""The loop that all changes have: look, decide, act, record one fact, and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

import pytest

from airflow_streaming.changes.engine import Engine, Move, Pace, RecordedChange, Recorder, agreed
from airflow_streaming.exceptions import HomeUnavailable, UpgradeRefused
from airflow_streaming.model.records.change_table import ChangeTable, Command, Transition
from airflow_streaming.model.records.control import Change, ChangeKind
from tests.unit.home.make import NOON


class S(StrEnum):
    """States of a door."""

    SHUT = "shut"
    OPEN = "open"
    WALLED = "walled"


class E(StrEnum):
    """Events of a door."""

    PUSH = "push"
    PULL = "pull"
    BRICK = "brick"


class Do(StrEnum):
    """Moves of a door."""

    TAKE = "take"
    OIL = "oil"
    WAIT = "wait"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Transition[S, E]):
    """A step of a door."""

    KIND: ClassVar[str] = "door_transition"

    before: S
    event: E
    after: S


DOOR: Final = ChangeTable(
    "door",
    S.SHUT,
    {(S.SHUT, E.PUSH): S.OPEN, (S.OPEN, E.PULL): S.SHUT, (S.SHUT, E.BRICK): S.WALLED},
    ends=frozenset({S.WALLED}),
    commands={
        "open": Command(events=(E.PUSH,), help="open it", reached=(S.OPEN,)),
        "wall": Command(events=(E.BRICK,), help="wall it up", reached=(S.WALLED,)),
    },
    refused=UpgradeRefused,
)
CHANGE: Final = Change(
    number=4,
    stream="orders",
    what=ChangeKind.UPGRADE,
    replaced=1,
    deployment=2,
    checkpoint="/c",
    by="kim",
    reason="It was begun.",
    at=NOON,
)
View = RecordedChange[S, E]


@dataclass
class Shelf(Recorder[S, E, Step]):
    """Keeps steps in memory; ``rival`` takes a step just before the next one is recorded."""

    steps: list[Step] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    rival: E | None = None
    table = DOOR
    transition = Step

    def __post_init__(self) -> None:
        super().__init__(by="kim", now=lambda: NOON)

    def record(self, step: Step) -> Step:
        if self.rival is not None:
            rival, self.rival = self.rival, None
            told = {"change": 4, "reason": "I was faster.", "at": NOON, "by": "ada"}
            self.steps.append(Step.next_of(self.steps, DOOR, rival, **told))
        if len(self.steps) < step.number:
            self.steps.append(step)
        return self.steps[step.number - 1]

    def tell_step(self, view: View, step: Step) -> None:
        self.told.append(step.event)

    def look(self) -> View:
        return RecordedChange(change=CHANGE, history=tuple(self.steps), table=DOOR)


def an_engine(
    shelf: Shelf, decide: Callable[[View], Move[E]], act: Callable[[View, Move[E]], str | None]
) -> Engine[View, Move[E]]:
    return Engine(look=shelf.look, decide=decide, act=act, most_moves=5)


def move(do: Do, event: E | None = None) -> Move[E]:
    return Move(do=do, reason=f"{do}.", event=event)


def taking(shelf: Shelf) -> Callable[[View, Move[E]], str | None]:
    def act(view: View, made: Move[E]) -> None:
        assert made.event is not None
        shelf.take(view, made.event, made.reason)

    return act


def test_it_moves_until_the_caller_is_where_it_wants_to_be() -> None:
    shelf = Shelf()
    way = {S.SHUT: E.PUSH, S.OPEN: E.PULL}
    engine = an_engine(shelf, lambda view: move(Do.TAKE, way[view.state]), taking(shelf))

    progress = engine.advance(lambda view, _: len(view.history) == 3)

    assert (progress.is_there, progress.state, progress.change) == (True, S.OPEN, 4)
    assert shelf.told == [E.PUSH, E.PULL, E.PUSH]


@pytest.mark.parametrize(("do", "needs"), [(Do.WAIT, False), (Do.ASK, True)])
def test_what_is_waited_for_is_told_to_the_caller(do: Do, needs: bool) -> None:
    progress = an_engine(Shelf(), lambda _: move(do), lambda *_: None).advance(lambda *_: False)

    assert (progress.is_there, progress.waiting, progress.needs_person) == (False, f"{do}.", needs)
    assert progress.reason == "It was begun."


def test_an_act_that_has_to_wait_ends_the_turn_and_one_that_never_ends_is_bounded() -> None:
    acts: list[str | None] = [None, "The hinge is wet."]
    engine = an_engine(Shelf(), lambda _: move(Do.OIL), lambda *_: acts.pop(0))
    assert engine.advance(lambda *_: False).waiting == "The hinge is wet."

    made = []
    endless = an_engine(Shelf(), lambda _: move(Do.OIL), lambda *_: made.append(1))
    assert "5 moves came to nothing" in endless.advance(lambda *_: False).waiting
    assert len(made) == 6


def test_a_caller_that_may_not_make_a_move_leaves_it() -> None:
    def act(view: View, made: Move[E]) -> None:
        raise AssertionError

    engine = an_engine(Shelf(), lambda _: move(Do.OIL), act)
    progress = engine.advance(lambda *_: False, may=lambda _, made: f"Not here: {made.reason}")
    assert progress.waiting == "Not here: oil."


def test_in_haste_it_looks_again_and_gives_up_in_time() -> None:
    clock, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += 5.0

    pace = Pace(at_most=21.0, clock=lambda: clock[0], sleep=sleep)
    engine = an_engine(Shelf(), lambda _: move(Do.WAIT), lambda *_: None)

    progress = engine.advance(lambda *_: False, pace=pace, is_in_haste=lambda _: True)

    assert (progress.waiting, slept) == ("wait.", [0.1, 0.1, 1.0, 1.0, 1.0])
    slept.clear()
    engine.advance(lambda *_: False, pace=pace, is_in_haste=lambda _: False)
    assert slept == []


def test_of_two_steps_with_one_number_one_counts() -> None:
    shelf = Shelf(rival=E.BRICK)
    assert not shelf.take(shelf.look(), E.PUSH, "I open it.")
    assert ([step.by for step in shelf.steps], shelf.told) == (["ada"], [])
    with pytest.raises(UpgradeRefused, match="Allowed here: nothing"):
        shelf.take(shelf.look(), E.PUSH, "I open it.")


def test_a_command_is_judged_anew_when_another_step_was_faster() -> None:
    shelf = Shelf(rival=E.BRICK)
    with pytest.raises(UpgradeRefused, match=r"is walled: `open` is possible in shut. No command"):
        shelf.give("open", shelf.look, "I open it.")

    again = Shelf(rival=E.PUSH)
    again.give("open", again.look, "I open it.")
    assert [step.by for step in again.steps] == ["ada"], "it was given already"


def test_a_command_that_is_checked_and_refused_records_nothing() -> None:
    shelf = Shelf()

    def check(view: View, event: E) -> None:
        raise UpgradeRefused("The paint is wet.")

    with pytest.raises(UpgradeRefused, match="wet"):
        shelf.give("open", shelf.look, "I open it.", check=check)
    assert shelf.steps == []


def test_a_look_counts_only_between_two_readings_that_agree() -> None:
    readings = [[1], [1, 2], [1, 2], [1, 2]]

    def look(history: Sequence[int]) -> View:
        return RecordedChange(change=CHANGE, history=(), table=DOOR, is_closed=len(history) == 2)

    assert agreed(lambda: readings.pop(0), look, "change 4").is_closed

    counter = iter(range(10**6))
    with pytest.raises(HomeUnavailable, match="change 4"):
        agreed(lambda: [next(counter)], look, "change 4")
