"""
Moving a pointer in a Spark catalog: the order, and the pointer's content afterwards.

Tasks may be late by hours. So the pointer carries the number of its live record, which rises with
every move of the stream, and whether that move was undone. A write with a lower number comes too
late. An undo is above the move itself: after it, a late move is refused.
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
    The content of a pointer: of a pointer file, or of the properties of a view.

    :param stream: The owner of the pointer.
    :param lane: The consumers' lane.
    :param deployment: Number of its deployment.
    :param number: Of the live record of the newest write to this pointer.
    :param undone: That write was an undo of the move.
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
        values = {k.removeprefix(PREFIX): v for k, v in properties.items() if k.startswith(PREFIX)}
        if "stream" not in values:
            raise RecordError(f"it has no property {PREFIX}stream.")
        try:
            return cls(
                stream=values["stream"],
                lane=values.get("lane", ""),
                deployment=int(values.get("deployment", 0)),
                output=values.get("output", ""),
                number=int(values.get("number", 0)),
                undone=values.get("undone") == "true",
            )
        except ValueError as err:
            raise RecordError(f"its properties are not ours: {closed(err)}") from err


def should_write(mark: Mark | None, wanted: Mark, what: str) -> bool:
    """
    Tell whether a pointer must be written to show the desired lane.

    :param mark: Its present content; ``None`` if it does not exist.
    :param what: The pointer, for messages, e.g. ``the view lake.orders``.
    :raises PointerRefused: it belongs to another stream, or has a later write.
    """
    if mark is None:
        return True
    if mark.stream != wanted.stream:
        raise PointerRefused(
            f"{_capital(what)} leads to stream {mark.stream!r} and is not moved for stream "
            f"{wanted.stream!r}. Give the pointer another name."
        )
    if (mark.number, mark.undone) > (wanted.number, wanted.undone):
        raise PointerRefused(
            f"{_capital(what)} was not moved to {wanted.lane!r} by live record "
            f"{wanted.number}: it already has {'the undo of ' if mark.undone else ''}record "
            f"{mark.number}, which leads to {mark.lane!r}. No action is needed unless the "
            f"home of stream {mark.stream!r} was created again; then remove the pointer, and "
            "it is written again."
        )
    return mark != wanted


def refuse_foreign(what: str, why: str) -> PointerRefused:
    """Return the refusal to overwrite what shows no mark of ours."""
    return PointerRefused(
        f"{_capital(what)} was not written by airflow-streaming and is not overwritten: {why} "
        "Give the pointer another name, or remove the present one."
    )


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


class Entry(StrEnum):
    """The kind of catalog entry that consumers read."""

    VIEW = "view"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOrder(AnsweredOrder):
    """
    A move of a view or a table.

    :param name: In SQL syntax, quoted.
    :param wanted: Its new content.
    :param bodies: By output, for the new and the present live output: the query of a view, or the
        location of a table's files.
    """

    KIND: ClassVar[str] = "catalog_order"

    entry: Entry
    name: str
    wanted: Mark
    bodies: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAnswer(Record):
    """
    The result of a move.

    :param refused: Why it must not be moved; empty when it may.
    :param failed: Why the move failed; empty after a move or without a need for one.
    """

    KIND: ClassVar[str] = "catalog_answer"

    refused: str = ""
    failed: str = ""
