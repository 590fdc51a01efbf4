"""The cutover: which state follows on which event, and the record of each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.model.records.change_table import ChangeTable, Command, Transition


class CutoverState(StrEnum):
    """Where a cutover is."""

    PLANNED = "planned"
    """Its terms are recorded, and nothing was done."""
    STARTING = "starting"
    """Green's deployment is made and its driver started, with an output of its own."""
    CATCHING_UP = "catching_up"
    """Green reads what blue has read already."""
    SHADOWING = "shadowing"
    """Green keeps pace; it must be well for some time."""
    COMPARING = "comparing"
    """The outputs of both are compared, and the author's checks run."""
    READY = "ready"
    """Green may become live; the operator or the terms say when."""
    HELD = "held"
    """Nothing is proved, either way: the operator decides."""
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
    FINALIZING = "finalizing"
    """Point of no return. Blue is stopped, where it still runs."""
    FINALIZED = "finalized"
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
        """Tell whether the change is closed: only keep-alive acts on the stream again."""
        return self in _ENDS

    @property
    def can_abort(self) -> bool:
        """Tell whether giving up now leaves everything as it was."""
        return CUTOVER.allows(self, CutoverEvent.ABORT)

    @property
    def can_roll_back(self) -> bool:
        """Tell whether blue can be made live again."""
        return CUTOVER.allows(self, CutoverEvent.ROLL_BACK)


class CutoverEvent(StrEnum):
    """An event or a command of a cutover."""

    BEGIN = "begin"
    GREEN_STARTED = "green_started"
    GREEN_CAUGHT_UP = "green_caught_up"
    GREEN_FELL_BEHIND = "green_fell_behind"
    GREEN_CHANGED = "green_changed"
    """Its deployment or driver is not the judged one: earlier results do not count."""
    GREEN_WELL = "green_well"
    """It has been well for as long as the terms ask."""
    GREEN_FAILED = "green_failed"
    """It cannot run, or it failed in a way that a restart does not help."""
    OUTPUT_SAME = "output_same"
    OUTPUT_DIFFERS = "output_differs"
    INCONCLUSIVE = "inconclusive"
    """There was nothing to measure, or measuring failed too often."""
    NOTHING_COMPARED = "nothing_compared"
    """The terms compare no output and name no check: a decision is needed."""
    LOOK_AGAIN = "look_again"
    """The operator's command: measure once more."""
    PROMOTE = "promote"
    """A command, of the operator or by the terms: make green live, with its own output."""
    HAND_OVER = "hand_over"
    """The same command where green continues in blue's output."""
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
    """The operator's command: green stays, independent of the soak."""
    BLUE_STOPPED = "blue_stopped"
    RETAIN_OVER = "retain_over"
    """The time for which blue is kept is over, or the operator does not need it any longer."""
    ABORT = "abort"
    ROLL_BACK = "roll_back"
    STOP_WANTED = "stop_wanted"
    """Desired state became "stopped"."""
    SPEC_CHANGED = "spec_changed"
    """Another deployment was made in one of the lanes by another task."""
    DEADLINE = "deadline"
    """The state has lasted longer than the terms allow."""
    UNDONE = "undone"
    """Aborting or rolling back is complete."""


class CutoverCommand(StrEnum):
    """The commands for a cutover in progress."""

    PROMOTE = "promote"
    LOOK_AGAIN = "look-again"
    ABORT = "abort"
    ROLL_BACK = "roll-back"
    KEEP = "keep"
    RETIRE = "retire"


S, E, C = CutoverState, CutoverEvent, CutoverCommand
DEADLINES: Final[Mapping[CutoverState, timedelta]] = MappingProxyType(
    {
        CutoverState.STARTING: timedelta(minutes=10),
        CutoverState.CATCHING_UP: timedelta(hours=12),
        CutoverState.SHADOWING: timedelta(hours=2),
        CutoverState.COMPARING: timedelta(hours=1),
        CutoverState.READY: timedelta(days=1),
        CutoverState.HELD: timedelta(days=1),
        CutoverState.WARMING: timedelta(minutes=10),
        CutoverState.DRAINING: timedelta(minutes=5),
        CutoverState.SWITCHING: timedelta(minutes=5),
        CutoverState.LIVE: timedelta(minutes=10),
        CutoverState.SOAKING: timedelta(hours=2),
    }
)
"""How long a state may last by default; afterwards the cutover is abandoned."""
_ENDS: Final = frozenset({S.FINALIZED, S.RETIRED, S.ABORTED, S.ROLLED_BACK})
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
_ROWS: Final[Mapping[tuple[CutoverState, CutoverEvent], CutoverState]] = {
    (S.PLANNED, E.BEGIN): S.STARTING,
    (S.STARTING, E.GREEN_STARTED): S.CATCHING_UP,
    (S.CATCHING_UP, E.GREEN_CAUGHT_UP): S.SHADOWING,
    (S.SHADOWING, E.GREEN_WELL): S.COMPARING,
    (S.SHADOWING, E.INCONCLUSIVE): S.HELD,
    (S.COMPARING, E.OUTPUT_SAME): S.READY,
    (S.COMPARING, E.OUTPUT_DIFFERS): S.ABORTING,
    (S.COMPARING, E.INCONCLUSIVE): S.HELD,
    (S.COMPARING, E.NOTHING_COMPARED): S.HELD,
    # A repeated measurement starts now, not at the first catch-up.
    (S.HELD, E.LOOK_AGAIN): S.CATCHING_UP,
    (S.READY, E.LOOK_AGAIN): S.CATCHING_UP,
    **{(state, E.PROMOTE): S.SWITCHING for state in (S.READY, S.HELD)},
    **{(state, E.HAND_OVER): S.WARMING for state in (S.READY, S.HELD)},
    (S.WARMING, E.STANDBY_READY): S.DRAINING,
    (S.DRAINING, E.BLUE_DRAINED): S.SWITCHING,
    (S.SWITCHING, E.SWITCHED): S.LIVE,
    (S.LIVE, E.GREEN_COMMITTED): S.SOAKING,
    (S.LIVE, E.KEEP): S.FINALIZING,
    (S.SOAKING, E.SOAK_PASSED): S.FINALIZING,
    (S.SOAKING, E.KEEP): S.FINALIZING,
    (S.FINALIZING, E.BLUE_STOPPED): S.FINALIZED,
    (S.FINALIZED, E.RETAIN_OVER): S.RETIRED,
    (S.ABORTING, E.UNDONE): S.ABORTED,
    (S.ROLLING_BACK, E.UNDONE): S.ROLLED_BACK,
    # Results count only for the driver that showed them.
    **{(state, E.GREEN_CHANGED): S.CATCHING_UP for state in _JUDGED},
    **{(state, E.GREEN_FELL_BEHIND): S.CATCHING_UP for state in _JUDGED if state is not S.HELD},
    # Giving up is always possible, also automatically: to blue before the switch and after it.
    **{(state, E.GREEN_FAILED): S.ABORTING for state in _WITH_GREEN},
    **{(state, event): S.ABORTING for state in _BEFORE_SWITCH for event in _GIVING_UP},
    **{(state, event): S.ROLLING_BACK for state in _AFTER_SWITCH for event in _GOING_BACK},
}
"""Every course there is. After ``finalizing`` there is only forward."""
_KEPT: Final = (S.FINALIZING, S.FINALIZED, S.RETIRED)
_MADE_LIVE: Final = (S.SWITCHING, *_AFTER_SWITCH, *_KEPT)
_COMMANDS: Final[Mapping[str, Command[CutoverState, CutoverEvent]]] = {
    C.PROMOTE: Command(
        events=(E.PROMOTE, E.HAND_OVER),
        help="make a green that is ready, or of which nothing is proved, live",
        reached=(S.WARMING, S.DRAINING, *_MADE_LIVE),
    ),
    C.LOOK_AGAIN: Command(events=(E.LOOK_AGAIN,), help="measure green once more"),
    C.ABORT: Command(
        events=(E.ABORT,),
        help="abort the cutover before the switch: blue stays, or is started again",
        reached=(S.ABORTING, S.ABORTED),
    ),
    C.ROLL_BACK: Command(
        events=(E.ROLL_BACK,),
        help="undo the switch: consumers are pointed back to blue",
        instead=(E.ABORT,),
        reached=(S.ROLLING_BACK, S.ROLLED_BACK, S.ABORTING, S.ABORTED),
    ),
    C.KEEP: Command(
        events=(E.KEEP,),
        help="after the switch: keep green regardless of its soak; no rollback afterwards",
        reached=_KEPT,
    ),
    C.RETIRE: Command(
        events=(E.RETAIN_OVER,),
        help="when green stays: take blue's final backup and free its lane",
        reached=(S.RETIRED,),
    ),
}
CUTOVER: Final = ChangeTable(
    "cutover", S.PLANNED, _ROWS, ends=_ENDS, commands=_COMMANDS, refused=CutoverRefused
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTransition(Transition[CutoverState, CutoverEvent]):
    """A step of a cutover, recorded beside the change of the stream that leads it."""

    KIND: ClassVar[str] = "cutover_transition"

    before: CutoverState
    event: CutoverEvent
    after: CutoverState

    @property
    def makes_live(self) -> bool:
        """Tell whether another lane is the live one from this step on."""
        is_back = self.event is CutoverEvent.UNDONE and self.before is CutoverState.ROLLING_BACK
        return is_back or self.event is CutoverEvent.SWITCHED
