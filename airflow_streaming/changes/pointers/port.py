"""
The port for pointers that consumers follow outside the home, and the one made of functions.

The engine moves each pointer before the step that makes green live is recorded, and undoes it when
the cutover is aborted. Any number of engines may do so at once and late, so an adapter compares the
number of the live record (``LiveOutput.number``), which rises with every move of a stream:

- a move to the present number does nothing; - a move to a lower number, or to an undone one, is
refused as late; - an undo is recorded under the number that it undoes, even if that move never
came, so that a slow task cannot move it there afterwards.

An adapter overwrites only its own writes for this stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

from airflow_streaming.exceptions import PointerFailed, PointerRefused, StreamingError, closed
from airflow_streaming.model.arguments.calls import Called, run
from airflow_streaming.model.arguments.fields import check_values, named_fields, refuse_blank
from airflow_streaming.model.arguments.placeholders import OF_STATEMENTS, fill, placeholders_in
from airflow_streaming.model.jobs.pointing import Mark
from airflow_streaming.model.products.live_output import LiveOutput

_UNSAFE: Final = re.compile(r"""['"`;\\\x00-\x1f]""")

OF_A_LANE: Final = tuple(name for name in OF_STATEMENTS if name != "stream")
"""Placeholders of a statement that differ between two lanes of a stream."""

Word = Annotated[
    Callable[[LiveOutput, LiveOutput], None],
    Called(("what becomes live", "the present live output")),
]
"""Called with the new live output and the present one."""


def mark_of(to: LiveOutput) -> Mark:
    """Return the state of a pointer after a move."""
    return Mark(
        stream=to.stream,
        lane=to.lane,
        deployment=to.deployment,
        output=to.output,
        number=to.number,
    )


def back_to(before: LiveOutput, to: LiveOutput) -> Mark:
    """Return the state of a pointer after the move to ``to`` was undone."""
    return replace(mark_of(before), number=to.number, undone=True)


def filled(statement: str, live: LiveOutput, *, output: str = "") -> str:
    """
    Return a statement with its placeholders replaced by values of a lane.

    :param output: The output as the statement's reader spells it; by default as it is recorded.
    :raises PointerRefused: a value has a sign in it by which it could end its quotes.
    """
    values = {
        "stream": live.stream,
        "lane": live.lane,
        "color": live.color.value,
        "deployment": str(live.deployment),
        "number": str(live.number),
        "output": output or live.output,
    }
    for name in placeholders_in(statement, values):
        if _UNSAFE.search(value := values[name]):
            raise PointerRefused(
                f"{{{name}}} of stream {live.stream!r} is {value!r} and cannot be part of a statement. "
                "Choose an output without quotes, ';', '\\' and control characters."
            )
    return fill(statement, values)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CallablePointer:
    """
    Leads consumers by calling a function, and back by calling another.

    The author declares whether that is atomic; by default it is not. Both functions are called
    again after a kill, so they must be idempotent. The target is unknown here, so numbers are not
    compared: a task that was asleep since before an undo may call ``forward`` after it. If that
    matters, have the function compare ``LiveOutput.number`` with the last one, in the same
    transaction as the move.

    :param name: Its name in the terms and in messages.
    :param forward: Called with ``to`` and ``before`` to lead consumers to ``to``.
    :param backward: Called with the same two to lead consumers to ``before`` again.
    :param is_atomic: A consumer sees the state before or after the move, and no other.
    """

    name: str
    forward: Word
    backward: Word
    is_atomic: bool = False

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank("CallablePointer", name=self.name)

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        """Call ``forward``; see ``Pointer``."""
        self._call(self.forward, to, before, "moved")

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        """Call ``backward``; see ``Pointer``."""
        self._call(self.backward, to, before, "moved back")

    def _call(self, word: Word, to: LiveOutput, before: LiveOutput, what: str) -> None:
        try:
            run(word, to, before)
        except StreamingError:
            raise
        except Exception as err:
            raise PointerFailed(
                f"Pointer {self.name!r} of stream {to.stream!r} was not {what}: its function "
                f"raised {type(err).__name__}: {closed(err)} It is called again at the next look."
            ) from err
