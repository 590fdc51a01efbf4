"""The table of acts and killed parts: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    Cell of the table: an act in whose middle a part was killed.

    :param part: ``none`` where nothing was killed.
    :param seconds: From the begin of the act to its end.
    :param failure: Why the act did not come to its end; empty when it did.
    :param drivers: The most drivers of one stream at once, since the deployment began.
    :param rows: Rows lost, doubled and wrong at the end of all acts; ``None`` before they were counted.
    """

    act: str
    part: str
    seconds: float
    failure: str = ""
    drivers: int = 0
    rows: tuple[int, int, int] | None = None


def holds(outcome: Outcome) -> bool:
    """Tell whether the act came to its end, with one driver, and no row lost, doubled or wrong."""
    return not outcome.failure and outcome.drivers <= 1 and outcome.rows in (None, (0, 0, 0))


def markdown(outcomes: Iterable[Outcome]) -> str:
    """Return a table with a row for each act and a column for each part."""
    found = {(one.act, one.part): one for one in outcomes}
    acts = list(dict.fromkeys(act for act, _ in found))
    parts = list(dict.fromkeys(part for _, part in found))
    head = ["act", *parts]
    lines = [head, ["---"] * len(head)]
    lines += [[act, *(_cell(found.get((act, part))) for part in parts)] for act in acts]
    return "\n".join(_line(line) for line in lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.failure:
        return f"failed: {outcome.failure}"
    return f"{outcome.seconds:.0f} s" if holds(outcome) else f"{outcome.drivers} drivers"
