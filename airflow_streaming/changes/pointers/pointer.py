"""The type of a pointer, which options and operators name when a DAG file is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_streaming.model.products.live_output import LiveOutput


class Pointer(Protocol):
    """
    Something that leads consumers to the live lane's output.

    Both methods may be called again at any time, after any kill, and by several tasks.
    """

    @property
    def name(self) -> str:
        """
        Return its name in the terms of a cutover and in messages; unique in a DAG.

        With several streams, the name for a stream that does not lead is ``STREAM/NAME``.
        """

    @property
    def is_atomic(self) -> bool:
        """Return whether a consumer sees the state before or after the move, and no other."""

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        """
        Lead consumers to ``to``.

        :param to: The new live output; its number is its record's.
        :param before: The present live output.
        :raises PointerRefused: It belongs to another writer, or this move comes too late. A retry
            does not help.
        :raises PointerFailed: The move failed; a retry may help.
        """

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        """
        Lead consumers back to ``before``, whether the move to ``to`` was made, partly made or not.

        :param to: The target of the move, with the same number.
        :raises PointerRefused: as ``move``.
        :raises PointerFailed: as ``move``.
        """
