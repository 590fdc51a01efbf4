"""
The cutover: which state follows on which event.

All of a cutover's course is in this one table. What is not in it is refused, so a cutover has no
course that cannot be read here. Each step of it is a record that only one can create
(``core.cutover.transition``), so that two who are at it at once come to one history.

Blue is the lane that is live when the cutover begins, green the one that is to be, whatever colours
the two have by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from airflow_streaming.exceptions import CutoverRefused


class CutoverState(StrEnum):
    """Where a cutover is."""

    PLANNED = "planned"
    """Its terms are recorded, and nothing was done."""
    STARTING = "starting"
    """Green's deployment is made and its driver started, with an output of its own."""
    CATCHING_UP = "catching_up"
    """Green reads what blue has read already."""
    SHADOWING = "shadowing"
    """Green keeps pace; it has to be well for some time."""
    COMPARING = "comparing"
    """What both have written is compared, and the author's checks are run."""
    READY = "ready"
    """Green may become live; a person or the terms say when."""
    HELD = "held"
    """Nothing is proved, either way: a person has to say."""
    WARMING = "warming"
    """Handover only: green's next driver starts and waits at the barrier; blue is still live."""
    DRAINING = "draining"
    """Handover only: blue comes to its end at a batch boundary."""
    SWITCHING = "switching"
    """Green takes over: from blue's last batch on one sink, or by what consumers follow."""
    LIVE = "live"
    """Consumers are led to green, which has still to commit its first batch as the live one."""
    SOAKING = "soaking"
    """Green is watched; blue can be back at any moment."""
    FINALISING = "finalising"
    """Point of no return. Blue is stopped, where it still runs."""
    FINALISED = "finalised"
    """Green stays. Blue is stopped; its checkpoint and output are kept for some time."""
    RETIRED = "retired"
    """Blue's final backup is taken, and its lane is free for the next cutover."""
    ABORTING = "aborting"
    """Given up before the switch: green is taken down, blue stays or comes back."""
    ABORTED = "aborted"
    ROLLING_BACK = "rolling_back"
    """Given up after the switch: blue comes back, consumers follow it, green is taken down."""
    ROLLED_BACK = "rolled_back"

    @property
    def is_end(self) -> bool:
        """Tell whether the change is closed: the stream is nobody's but keep-alive's again."""
        return self in _ENDS

    @property
    def can_abort(self) -> bool:
        """Tell whether giving up now leaves everything as it was."""
        return (self, CutoverEvent.ABORT) in TABLE

    @property
    def can_roll_back(self) -> bool:
        """Tell whether blue can be made live again."""
        return (self, CutoverEvent.ROLL_BACK) in TABLE


class CutoverEvent(StrEnum):
    """What a cutover can learn, or be told."""

    BEGIN = "begin"
    GREEN_STARTED = "green_started"
    GREEN_CAUGHT_UP = "green_caught_up"
    GREEN_FELL_BEHIND = "green_fell_behind"
    GREEN_CHANGED = "green_changed"
    """Its deployment or driver is not the one that was judged: nothing shown so far counts."""
    GREEN_WELL = "green_well"
    """It has been well for as long as the terms ask."""
    GREEN_FAILED = "green_failed"
    """It cannot run, or it failed in a way that a restart does not help."""
    OUTPUT_SAME = "output_same"
    OUTPUT_DIFFERS = "output_differs"
    INCONCLUSIVE = "inconclusive"
    """There was nothing to measure, or measuring failed too often."""
    LOOK_AGAIN = "look_again"
    """A person's word: measure once more."""
    PROMOTE = "promote"
    """A person's word, or that of the terms: make green live, with its own output."""
    HAND_OVER = "hand_over"
    """The same word where green goes on in blue's output."""
    STANDBY_READY = "standby_ready"
    """Green's next driver waits at the barrier, within reach of blue."""
    BLUE_DRAINED = "blue_drained"
    SWITCHED = "switched"
    """Where consumers are led is this very record."""
    GREEN_COMMITTED = "green_committed"
    """It has committed a batch since it became live, or has nothing to read."""
    SOAK_PASSED = "soak_passed"
    SOAK_FAILED = "soak_failed"
    KEEP = "keep"
    """A person's word: green stays, whatever the soak says."""
    BLUE_STOPPED = "blue_stopped"
    RETAIN_OVER = "retain_over"
    """The time for which blue is kept is over, or a person does not want it any longer."""
    ABORT = "abort"
    ROLL_BACK = "roll_back"
    STOP_WANTED = "stop_wanted"
    """Somebody wants the stream stopped."""
    SPEC_CHANGED = "spec_changed"
    """Another deployment was made in one of the lanes by somebody else."""
    DEADLINE = "deadline"
    """The state has lasted longer than the terms allow."""
    UNDONE = "undone"
    """What aborting or rolling back had to do is done."""


S, E = CutoverState, CutoverEvent

_ENDS: Final = frozenset({S.FINALISED, S.RETIRED, S.ABORTED, S.ROLLED_BACK})
_BEFORE_SWITCH: Final = (
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD),
    *(S.WARMING, S.DRAINING, S.SWITCHING),
)
_WITH_GREEN: Final = _BEFORE_SWITCH[1:]
_JUDGED: Final = (S.SHADOWING, S.COMPARING, S.READY, S.HELD)
_AFTER_SWITCH: Final = (S.LIVE, S.SOAKING)

_GIVING_UP: Final = (E.ABORT, E.STOP_WANTED, E.SPEC_CHANGED, E.DEADLINE)
_GOING_BACK: Final = (
    *(E.ROLL_BACK, E.SOAK_FAILED, E.GREEN_FAILED, E.STOP_WANTED, E.SPEC_CHANGED, E.DEADLINE),
)

TABLE: Final[Mapping[tuple[CutoverState, CutoverEvent], CutoverState]] = MappingProxyType(
    {
        (S.PLANNED, E.BEGIN): S.STARTING,
        (S.STARTING, E.GREEN_STARTED): S.CATCHING_UP,
        (S.CATCHING_UP, E.GREEN_CAUGHT_UP): S.SHADOWING,
        (S.SHADOWING, E.GREEN_WELL): S.COMPARING,
        (S.SHADOWING, E.INCONCLUSIVE): S.HELD,
        (S.COMPARING, E.OUTPUT_SAME): S.READY,
        (S.COMPARING, E.OUTPUT_DIFFERS): S.ABORTING,
        (S.COMPARING, E.INCONCLUSIVE): S.HELD,
        # What is measured once more is measured from now on, not from when it had caught up first.
        (S.HELD, E.LOOK_AGAIN): S.CATCHING_UP,
        (S.READY, E.LOOK_AGAIN): S.CATCHING_UP,
        **{(state, E.PROMOTE): S.SWITCHING for state in (S.READY, S.HELD)},
        **{(state, E.HAND_OVER): S.WARMING for state in (S.READY, S.HELD)},
        (S.WARMING, E.STANDBY_READY): S.DRAINING,
        (S.DRAINING, E.BLUE_DRAINED): S.SWITCHING,
        (S.SWITCHING, E.SWITCHED): S.LIVE,
        (S.LIVE, E.GREEN_COMMITTED): S.SOAKING,
        (S.LIVE, E.KEEP): S.FINALISING,
        (S.SOAKING, E.SOAK_PASSED): S.FINALISING,
        (S.SOAKING, E.KEEP): S.FINALISING,
        (S.FINALISING, E.BLUE_STOPPED): S.FINALISED,
        (S.FINALISED, E.RETAIN_OVER): S.RETIRED,
        (S.ABORTING, E.UNDONE): S.ABORTED,
        (S.ROLLING_BACK, E.UNDONE): S.ROLLED_BACK,
        # What was shown counts only for the driver that showed it.
        **{(state, E.GREEN_CHANGED): S.CATCHING_UP for state in _JUDGED},
        **{(state, E.GREEN_FELL_BEHIND): S.CATCHING_UP for state in _JUDGED if state is not S.HELD},
        # Giving up is always possible, and by itself: to blue before the switch and after it.
        **{(state, E.GREEN_FAILED): S.ABORTING for state in _WITH_GREEN},
        **{(state, event): S.ABORTING for state in _BEFORE_SWITCH for event in _GIVING_UP},
        **{(state, event): S.ROLLING_BACK for state in _AFTER_SWITCH for event in _GOING_BACK},
    }
)
"""Every course there is. After ``finalising`` there is only forward."""


def after(state: CutoverState, event: CutoverEvent) -> CutoverState:
    """
    Return the state that follows.

    :raises CutoverRefused: this cannot happen there; the message says what can.
    """
    found = TABLE.get((state, event))
    if found is not None:
        return found
    allowed = ", ".join(sorted(event for at, event in TABLE if at is state)) or "nothing"
    raise CutoverRefused(
        f"A cutover in {state.value!r} cannot take {event.value!r}. Allowed here: {allowed}."
    )


def diagram() -> str:
    """Return the table as a Mermaid state diagram, events that lead the same way on one line."""
    return "\n".join(["stateDiagram-v2", "    [*] --> planned", *_arrows()]) + "\n"


def _arrows() -> Iterator[str]:
    for at in CutoverState:
        for to in CutoverState:
            events = [event for event in CutoverEvent if TABLE.get((at, event)) is to]
            if events:
                yield f"    {at} --> {to} : {', '.join(events)}"
        if at.is_end and at is not S.FINALISED:
            yield f"    {at} --> [*]"
