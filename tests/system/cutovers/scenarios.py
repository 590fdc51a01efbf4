"""Cutovers that differ from the usual ones: in how green starts, in what is moved, in who says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from tests.system.cutovers.asked import Asked, Course

_PARALLEL: Final[dict[str, Any]] = {"way": SwitchMethod.PARALLEL}
_HANDOVER: Final[dict[str, Any]] = {"way": SwitchMethod.HANDOVER}
_CLONED: Final[dict[str, Any]] = {"start": StartWay.CLONED, "application": "newer"}
_CARRIED: Final[dict[str, Any]] = {
    "start": StartWay.CARRIED,
    "application": "newer",
    "queries": ("lines",),
}
_BOTH: Final[dict[str, Any]] = {"queries": ("counts", "lines")}
_STREAMS: Final[dict[str, Any]] = {"streams": ("orders", "returns")}
_BACK: Final[dict[str, Any]] = {"course": Course.ROLL_BACK}

SCENARIOS: Final[tuple[dict[str, Any], ...]] = (
    _PARALLEL | _CLONED | {"compares": True},
    _HANDOVER | _CLONED,
    _PARALLEL | _CARRIED | {"compares": True},
    _HANDOVER | _CARRIED,
    _HANDOVER | _CARRIED | {"sink": "parquet"},
    _HANDOVER | _CARRIED | _BACK,
    _HANDOVER | _CARRIED | _BACK | {"sink": "parquet"},
    _PARALLEL | _STREAMS,
    _HANDOVER | _STREAMS,
    _PARALLEL | {"asks": True},
    _PARALLEL | _BACK | {"behind_s": 6.0},
    _PARALLEL | _BOTH,
    _HANDOVER | _BOTH,
    _HANDOVER | _BOTH | _BACK,
)
"""What each asks; everything else is as usual."""


def scenarios(first: int, every: int) -> Iterator[Asked]:
    """
    Return a run for every scenario.

    :param every: Kill before every so-many-th durable step, another one in each; 0 for never.
    """
    for number, told in enumerate(SCENARIOS):
        yield Asked(
            number=first + number,
            every=every,
            first=number % every if every else 0,
            # Two streams are four drivers, on a machine with two cores.
            deadline_s=600.0,
            **told,
        )
