"""Whether a question about a change is still open, or something else than its answer has settled it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.model.records.change_table import words
from airflow_streaming.model.records.control import ChangeEnd
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverCommand,
    CutoverState,
    CutoverTransition,
)

REFUSAL: Final = {
    CutoverCommand.PROMOTE: CutoverCommand.ABORT,
    CutoverCommand.KEEP: CutoverCommand.ROLL_BACK,
}
"""The command that a no to the question of a command gives."""
S = CutoverState
_BEFORE_PROMOTION: Final = frozenset(
    {S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD}
)
_OPEN: Final = {
    CutoverCommand.PROMOTE: _BEFORE_PROMOTION,
    CutoverCommand.KEEP: _BEFORE_PROMOTION
    | {S.WARMING, S.DRAINING, S.SWITCHING, S.LIVE, S.SOAKING},
}
"""States in which the question of a command can still be answered, now or after another comparison."""


class Answer(StrEnum):
    """The outcome of a question that was settled elsewhere."""

    YES = "yes"
    NO = "no"
    VOID = "void"
    """Neither: the subject of the question is gone."""


@dataclass(frozen=True, slots=True)
class Settled:
    """
    How a question was settled elsewhere.

    :param reason: By whom and why, in a sentence.
    """

    answer: Answer
    reason: str


class Running(NamedTuple):
    """The lane of a stream that is live, and its newest deployment; ``None`` where none is recorded."""

    lane: str
    deployment: int | None


def command_settled(
    command: CutoverCommand, history: Sequence[CutoverTransition], end: ChangeEnd | None
) -> Settled | None:
    """Return how the question of a command to a cutover was settled; ``None`` while it is open."""
    is_open = _OPEN[command]
    if CUTOVER.state_of(history) in is_open:
        return None if end is None else Settled(Answer.VOID, f"The cutover has ended: {end.reason}")
    step = next(step for step in reversed(history) if step.before in is_open)
    given = f"{words(step.event).capitalize()} by {step.by}: {step.reason}"
    for answer, meant in ((Answer.YES, command), (Answer.NO, REFUSAL[command])):
        told = CUTOVER.commands[meant]
        if step.event in (*told.events, *told.instead):
            return Settled(answer, given)
    return Settled(Answer.VOID, given)


def start_settled(running: Mapping[str, Running], now: Mapping[str, Running]) -> Settled | None:
    """
    Return how the question whether a change may start was settled; ``None`` while it is open.

    :param running: The streams, and what each ran when the report was made.
    :param now: The same, as it is now. A stream without a deployment is one whose home is not mounted.
    """
    for stream, was in running.items():
        runs = now[stream]
        if runs.deployment is not None and runs != was:
            return Settled(
                Answer.VOID,
                f"Stream {stream!r} now runs deployment {runs.deployment} in lane {runs.lane!r}; the "
                f"report was made for deployment {was.deployment} in lane {was.lane!r}. Start a new run.",
            )
    return None
