"""
Moving a pointer in a Spark catalog: the order, and what the pointer shows afterwards.

Tasks may be late by hours. So what is shown carries the number of the live record that it was moved
for, which rises with every move of the stream, and whether that move was undone. A word with less
than is shown comes too late. Undoing is a word above the move itself: where it was first, the move
is refused afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Self

from airflow_streaming.exceptions import PointerRefused, RecordError, closed
from airflow_streaming.model.jobs.drill import AnsweredOrder
from airflow_streaming.model.wire import Record

PREFIX: Final = "airflow_streaming."
"""Of the properties by which a view or a table is known to be ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Record):
    """
    What a pointer shows; the content of a pointer file, the properties of a view.

    :param stream: Whose pointer it is.
    :param lane: The lane that consumers are led to.
    :param deployment: Number of its deployment.
    :param output: What it writes.
    :param number: Of the live record of the newest word about this pointer.
    :param undone: That word was to undo the move.
    """

    KIND: ClassVar[str] = "pointer"

    stream: str
    lane: str
    deployment: int
    output: str
    number: int
    undone: bool = False

    def properties(self) -> dict[str, str]:
        """Return the mark as properties of a view or a table."""
        return {
            f"{PREFIX}stream": self.stream,
            f"{PREFIX}lane": self.lane,
            f"{PREFIX}deployment": str(self.deployment),
            f"{PREFIX}output": self.output,
            f"{PREFIX}number": str(self.number),
            f"{PREFIX}undone": str(self.undone).lower(),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """
        Read a mark from properties; the stream's name alone is a user's consent that we may write.

        :raises RecordError: they are not ours.
        """
        told = {k.removeprefix(PREFIX): v for k, v in properties.items() if k.startswith(PREFIX)}
        if "stream" not in told:
            raise RecordError(f"it has no property {PREFIX}stream.")
        try:
            return cls(
                stream=told["stream"],
                lane=told.get("lane", ""),
                deployment=int(told.get("deployment", 0)),
                output=told.get("output", ""),
                number=int(told.get("number", 0)),
                undone=told.get("undone") == "true",
            )
        except ValueError as err:
            raise RecordError(f"its properties are not ours: {closed(err)}") from err


def should_write(shown: Mark | None, wanted: Mark, what: str) -> bool:
    """
    Tell whether a pointer must be written to show the desired lane.

    :param shown: What it shows; ``None`` for one that does not exist.
    :param what: The pointer, for messages, e.g. ``the view lake.orders``.
    :raises PointerRefused: it belongs to another stream, or a later word about it stands.
    """
    if shown is None:
        return True
    if shown.stream != wanted.stream:
        raise PointerRefused(
            f"{_capital(what)} leads to stream {shown.stream!r} and is not moved for stream "
            f"{wanted.stream!r}. Give the pointer another name."
        )
    if (shown.number, shown.undone) > (wanted.number, wanted.undone):
        raise PointerRefused(
            f"{_capital(what)} was not moved to {wanted.lane!r} by word {wanted.number}: "
            f"{'the undoing of ' if shown.undone else ''}word {shown.number} stands, which leads to "
            f"{shown.lane!r}. Nothing needs to be done unless the home of stream {shown.stream!r} was "
            "made anew; then remove the pointer, and it is written again."
        )
    return shown != wanted


def refuse_foreign(what: str, why: str) -> PointerRefused:
    """Return the refusal to overwrite what shows no mark of ours."""
    return PointerRefused(
        f"{_capital(what)} was not written by airflow-streaming and is not overwritten: {why} Give "
        "the pointer another name, or remove what is there."
    )


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


class Entry(StrEnum):
    """What leads consumers."""

    VIEW = "view"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOrder(AnsweredOrder):
    """
    One move of a view or a table.

    :param name: As SQL takes it, quoted.
    :param wanted: What it must show.
    :param bodies: By output, of what becomes live and of what is live until then: for a view the
        query that it stands for, for a table where its files are.
    """

    KIND: ClassVar[str] = "catalog_order"

    entry: Entry
    name: str
    wanted: Mark
    bodies: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAnswer(Record):
    """
    What became of it.

    :param refused: Why it must not be moved; empty when it may.
    :param failed: Why it could not be moved; empty when it was, or was there already.
    """

    KIND: ClassVar[str] = "catalog_answer"

    refused: str = ""
    failed: str = ""
