"""What a form says of a cutover: the way, the start, and how long things take."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow_streaming.core.cutover.terms import StartWay, SwitchWay
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._upgrade.edits import positive_minutes

BY_GATE: Final = "by_gate"
"""Choice of a start that leaves it to the gates."""

STARTS: Final = (BY_GATE, *(start.value for start in StartWay))
WAYS: Final = tuple(way.value for way in SwitchWay)

ASK: Final = "ask"
AUTO: Final = "auto"
WHO: Final = (ASK, AUTO)
"""Whether a person is asked, or it goes on by itself."""

_MINUTES_AN_HOUR: Final = 60.0


def way_of(text: str) -> SwitchWay:
    """
    Return a way by its name.

    :raises SpecError: there is none of that name.
    """
    return SwitchWay(chosen(text, "way", WAYS))


def start_of(text: str) -> StartWay | None:
    """
    Return a start by its name; ``None`` for ``by_gate``.

    :raises SpecError: there is none of that name.
    """
    found = chosen(text or BY_GATE, "start", STARTS)
    return None if found == BY_GATE else StartWay(found)


def goes_on_by_itself(text: str, name: str) -> bool:
    """
    Tell whether no person has to be asked.

    :raises SpecError: neither ``ask`` nor ``auto``.
    """
    return chosen(text, name, WHO) == AUTO


def chosen(text: str, name: str, choices: tuple[str, ...]) -> str:
    """
    Return a choice.

    :raises SpecError: it is none of them.
    """
    if text not in choices:
        raise SpecError(f"{name} is {text!r}; give {', '.join(choices)}.")
    return text


def hours(value: float | str | None, name: str, usual: timedelta) -> timedelta:
    """
    Return hours of a form as a duration, what is usual for an empty field.

    :raises SpecError: no number above zero.
    """
    asked = positive_minutes(value, name)
    return usual if asked is None else asked * _MINUTES_AN_HOUR
