"""
The checks that Spark's own sources and sinks make when a query starts: one row each, in ``table.toml``.

A row names a part (source or sink), its formats, a kind of check with its values, and where it is known
from. ``judge`` holds plans against the rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final

ANY: Final = "*"


class Part(StrEnum):
    """Which end of a query a check belongs to."""

    SOURCE = "source"
    SINK = "sink"


class CheckKind(StrEnum):
    """The part of a plan that a check reads."""

    NEVER = "never"
    """The format cannot be this part of a stream."""
    REFUSED_OPTION = "refused_option"
    REQUIRED_OPTION = "required_option"
    """At least one option of ``keys`` is set, and not blank."""
    ONE_OF = "one_of"
    """Exactly one of ``keys`` is set."""
    APART = "apart"
    """At most one of ``keys`` is set."""
    RISING = "rising"
    """Of two numbers the first is not above the second."""
    VALUE = "value"
    """The value of an option has a form, see ``Form``."""
    NEEDS = "needs"
    """Where the first of ``keys`` has one of ``values``, the second is set."""
    NO_SCHEMA = "no_schema"
    """The script must not give a schema."""
    COLUMN = "column"
    """The first of ``keys`` is a column of one of ``values``; ``required`` unless an option is set."""
    TYPES = "types"
    """No column holds one of ``values``, also inside arrays, maps and structs."""
    ONE_COLUMN = "one_column"
    """Apart from partition columns there is one column, of one of ``values``."""
    UNIQUE = "unique"
    """No two columns have one name."""
    PARTITIONS_KNOWN = "partitions_known"
    PARTITIONS_UNIQUE = "partitions_unique"
    PARTITIONS_LEAVE = "partitions_leave"
    """The files keep at least one column beside the partition columns."""
    PARTITION_TYPES = "partition_types"
    """No partition column has one of ``values`` as its type."""
    NO_PARTITIONS = "no_partitions"
    MODES = "modes"
    """The output mode is one of ``values``."""
    TARGET = "target"
    """The sink has a path, topic or name."""
    TRIGGER = "trigger"
    """The processing trigger begins with none of ``values``."""


class Form(StrEnum):
    """The form of an option's value."""

    INTEGER = "integer"
    BOOLEAN = "boolean"
    WORD = "word"
    """A word of ``values``, in any case."""
    PATTERN = "pattern"
    """The first of ``values`` is a regular expression that matches the whole text."""
    NOT_BLANK = "not_blank"
    REGULAR_EXPRESSION = "regular_expression"
    OFFSETS = "offsets"
    """``earliest``, ``latest``, or a number of each partition of each topic as JSON."""
    PARTITION_NUMBERS = "partition_numbers"
    """A number of each partition of each topic as JSON."""
    PARTITION_LISTS = "partition_lists"
    """A list of partitions of each topic as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """
    A row of the table.

    :param name: Part, format and matter, e.g. ``kafka_sink.value``.
    :param of: Formats as in a plan; of files the format of the files. ``*`` for every format.
    :param keys: Names of options or of a column, in small letters.
    :param least: The smallest number.
    :param required: Of a column: it must be there unless ``unless`` is set.
    :param unless: Option that makes the check void.
    :param since: First minor release of Spark that checks; ``until`` the last. Empty for all of 3.5
        to 4.3.
    :param says: What Spark requires, a sentence.
    """

    name: str
    part: Part
    of: tuple[str, ...]
    kind: CheckKind
    says: str
    source: str
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    least: int | None = None
    form: Form | None = None
    required: bool = False
    unless: str = ""
    since: str = ""
    until: str = ""


@cache
def all_checks() -> tuple[StartCheck, ...]:
    """Return all rows in the order of the table."""
    text = files(__package__).joinpath("table.toml").read_text(encoding="utf-8")
    return tuple(_row(name, row) for name, row in tomllib.loads(text).items())


def _row(name: str, row: Mapping[str, Any]) -> StartCheck:
    return StartCheck(
        name=name,
        part=Part(row["part"]),
        of=tuple(row["of"]),
        kind=CheckKind(row["kind"]),
        says=row["says"],
        source=row["source"],
        keys=tuple(row.get("keys", ())),
        values=tuple(row.get("values", ())),
        least=row.get("least"),
        form=Form(row["form"]) if "form" in row else None,
        required=row.get("required", False),
        unless=row.get("unless", ""),
        since=row.get("since", ""),
        until=row.get("until", ""),
    )
