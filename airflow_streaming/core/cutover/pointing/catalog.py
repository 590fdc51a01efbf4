"""What a Spark is told when a view or a table of its catalog has to lead to another output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.core.cutover.pointing.mark import Mark
from airflow_streaming.core.wire import Record


class Entry(StrEnum):
    """What leads consumers."""

    VIEW = "view"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOrder(Record):
    """
    One move of a view or a table.

    :param name: As SQL takes it, quoted.
    :param wanted: What it has to show.
    :param bodies: By output, of what becomes live and of what is live until then: for a view the
        query that it stands for, for a table where its files are.
    :param answer: Path of the file for the answer.
    :param seconds: How long it may take.
    """

    KIND: ClassVar[str] = "catalog_order"

    entry: Entry
    name: str
    wanted: Mark
    bodies: Mapping[str, str]
    answer: str
    seconds: float


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
