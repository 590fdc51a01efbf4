"""
The port for what consumers follow outside the home: a view, a table, a file, a row.

The engine moves each pointer before the step that makes green live is recorded, and undoes it when
the cutover is given up. Any number of engines may do so at once and late, so an adapter leans on the
number of the live record (``Live.number``), which rises with every move of a stream:

- a move to the number that it shows already does nothing;
- a move to a number below the one it shows, or to one that was undone, is refused as late;
- an undo is remembered under the number that it undoes, also where that move never came, so that a
  slow task cannot move it there afterwards.

An adapter never overwrites what it did not write itself for this stream.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Protocol

from airflow_streaming.core.cutover.pointing.mark import Mark
from airflow_streaming.exceptions import PointerRefused
from airflow_streaming.home.consumers import Live

_UNSAFE: Final = re.compile(r"""['"`;\\\x00-\x1f]""")


class Pointer(Protocol):
    """
    Something that leads consumers to the live lane's output.

    Both methods may be called again at any time, after any kill, and by several tasks.
    """

    @property
    def name(self) -> str:
        """
        Return its name in the terms of a cutover and in messages; one of a kind in a dag.

        With several streams, a pointer of one that does not lead is named ``STREAM/NAME``.
        """

    @property
    def is_atomic(self) -> bool:
        """Tell whether a consumer sees what was before or what is after, and nothing between."""

    def move(self, to: Live, before: Live) -> None:
        """
        Lead consumers to ``to``.

        :param to: What becomes live; its number is that of its record.
        :param before: What is live until then.
        :raises PointerRefused: it is not ours to overwrite, or this move comes too late. Trying
            again does not help.
        :raises PointerFailed: it could not be moved now; trying again may help.
        """

    def undo(self, to: Live, before: Live) -> None:
        """
        Lead consumers back to ``before``, whether the move to ``to`` was made, half made or not.

        :param to: What the move was made to, with the same number.
        :raises PointerRefused: as ``move``.
        :raises PointerFailed: as ``move``.
        """


def mark_of(to: Live) -> Mark:
    """Return what a pointer shows after a move."""
    return Mark(
        stream=to.stream,
        lane=to.lane,
        deployment=to.deployment,
        output=to.output,
        number=to.number,
    )


def back_to(before: Live, to: Live) -> Mark:
    """Return what a pointer shows after the move to ``to`` was undone."""
    return replace(mark_of(before), number=to.number, undone=True)


def fill(statement: str, live: Live, *, output: str = "") -> str:
    """
    Return a statement with its placeholders replaced by values of a lane.

    :param output: The output as the statement's reader spells it; by default as it is recorded.
    :raises PointerRefused: a value has a sign in it by which it could end its quotes.
    """
    values = {
        "{stream}": live.stream,
        "{lane}": live.lane,
        "{colour}": live.colour.value,
        "{deployment}": str(live.deployment),
        "{number}": str(live.number),
        "{output}": output or live.output,
    }
    for name, value in values.items():
        if name in statement and _UNSAFE.search(value):
            raise PointerRefused(
                f"{name} of stream {live.stream!r} is {value!r} and cannot be part of a statement. "
                "Choose an output without quotes, ';', '\\' and control characters."
            )
    # Not str.format: a statement may have braces that are none of our business.
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match[0]], statement)
