"""Verbs: what a person can say of a cutover where it stands, and what comes of it, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from airflow_streaming.core.cutover.table import TABLE, CutoverEvent, CutoverState

S, E = CutoverState, CutoverEvent

VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "promote": "make a green that is ready, or of which nothing is proved, live",
        "look-again": "measure green once more",
        "abort": "give it up before the switch: blue stays, or comes back",
        "roll-back": "give it up after the switch: consumers are led back to blue",
        "keep": "after the switch: green stays whatever its soak says, and only goes forward",
        "retire": "when green stays: take blue's final backup and free its lane",
    }
)
"""What can be said, and what it means."""

_EVENTS: Final[Mapping[str, tuple[CutoverEvent, ...]]] = {
    "promote": (E.PROMOTE, E.HAND_OVER),
    "look-again": (E.LOOK_AGAIN,),
    "abort": (E.ABORT,),
    "roll-back": (E.ROLL_BACK,),
    "keep": (E.KEEP,),
    "retire": (E.RETAIN_OVER,),
}
_WHEN: Final = {
    "promote": "is for a green that is ready or held",
    "look-again": "is for a green that is ready or held",
    "abort": "is for before the switch",
    "roll-back": "is for after the switch, until green stays",
    "keep": "is for after the switch, until green stays",
    "retire": "is for when green stays",
}
_BEFORE: Final = "It is given up before the switch: blue stays, or comes back."
_BACK: Final = "It is given up: consumers are led back to blue."
_STAYS: Final = "Green stays: this is the point of no return."
_OUTCOMES: Final = {
    S.ABORTING: _BEFORE,
    S.ABORTED: "It was given up before the switch: blue is live.",
    S.ROLLING_BACK: _BACK,
    S.ROLLED_BACK: "It was given up: blue is live again.",
    S.FINALISING: _STAYS,
    S.FINALISED: _STAYS,
    S.RETIRED: "What blue was is let go; its lane is free.",
    S.LIVE: "Green is live.",
    S.SOAKING: "Green is live.",
    **dict.fromkeys((S.WARMING, S.DRAINING, S.SWITCHING), "Green becomes live."),
    **dict.fromkeys((S.CATCHING_UP, S.SHADOWING, S.COMPARING), "Green is measured once more."),
}


def verbs_in(state: CutoverState) -> tuple[str, ...]:
    """Return what can be said of a cutover in a state."""
    return tuple(
        verb for verb, events in _EVENTS.items() if any((state, event) in TABLE for event in events)
    )


def refusal(change: int, stream: str, state: CutoverState, verb: str) -> str:
    """Return why a verb cannot be said where a cutover stands, and what can."""
    can = ", ".join(verbs_in(state))
    rest = f"You can: {can}." if can else "Nothing can be said of it there."
    return f"{standing(change, stream, state)}: `{verb}` {_WHEN[verb]}. {rest}"


def outcome(state: CutoverState) -> str:
    """Return what has come of a word, by the state that a cutover is in after it."""
    return _OUTCOMES.get(state, f"It is {words(state)}.")


def standing(change: int, stream: str, state: CutoverState) -> str:
    """Return where a cutover stands."""
    return f"Cutover {change} of {stream!r} is {words(state)}"


def words(state: CutoverState) -> str:
    """Return a state as people say it."""
    return state.value.replace("_", " ")
