"""
Spark releases, and the matrix of measurements between them.

A cell is one shape of query on one state store. For every pair of releases it holds the effect on
the rows: on the way there, and back on the first release after that. All rows were compared with
the same query left on the first release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from airflow_streaming.exceptions import RecordError, SpecError, closed
from airflow_streaming.model.spark.logs import mapping, string

_NUMBER: Final = r"(0|[1-9][0-9]{0,2})"
# Vendors, previews and snapshots add to it: 3.5.1-amzn-0, 3.5.4.1.23, 4.1.0.dev1, 4.4.0-SNAPSHOT.
_TEXT: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}(?:\.{_NUMBER}((?:[A-Za-z]\w*)?(?:[.+-]\w+)*))?", re.ASCII
)
_LONGEST: Final = 60

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    A release of Spark.

    :param minor: Major and minor number: it determines a checkpoint's formats.
    :param patch: ``None`` if unknown.
    :param text: As it was given.
    :param build: Suffix of a vendor, a preview or a snapshot, e.g. ``-amzn-0``; empty for a release
        of Apache Spark.
    """

    minor: tuple[int, int]
    patch: int | None
    text: str
    build: str = ""

    @property
    def name(self) -> str:
        """Its major and minor number as text, e.g. ``4.1``."""
        return ".".join(map(str, self.minor))

    def is_before(self, version: str) -> bool:
        """Tell whether it is older than a release; one without a patch is its newest patch."""
        other = release_of(version)
        if self.minor != other.minor or self.patch is None:
            return self.minor < other.minor
        return self.patch < (other.patch or 0)


def release_of(text: str) -> Release:
    """
    Read a version.

    :param text: E.g. ``3.5.9``, ``4.1`` or ``3.5.1-amzn-0``.
    :raises SpecError: Not a Spark version, or not a text.
    """
    # YAML and callers without types make 3.5 a number, and 3.10 the number 3.1.
    given = text.strip() if isinstance(text, str) else ""
    match = _TEXT.fullmatch(given) if len(given) <= _LONGEST else None
    if match is None:
        raise SpecError(
            f"{repr(text)[:_LONGEST]} is not a version of Spark. Pass one as text, like '3.5.9', "
            "or like '4.1'."
        )
    major, minor, patch, build = match.groups()
    return Release(
        minor=(int(major), int(minor)),
        patch=None if patch is None else int(patch),
        text=given,
        build=build or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuestion:
    """
    A stream moves from one Spark to another.

    :param from_version: The Spark that ran it last, e.g. ``3.5.9`` or ``3.5``.
    :param conf: Configuration of the new deployment; other settings are Spark's defaults.
    """

    from_version: str
    to_version: str
    conf: Mapping[str, str] = field(default_factory=dict)


class Outcome(StrEnum):
    """The effect on the rows."""

    SAME = "same"
    """The same rows in the same batches."""
    MOVED = "moved"
    """The same rows, some of them in other batches."""
    OTHER = "other"
    """Other rows, without any error."""
    FAILED = "failed"
    """Spark refused the checkpoint, or died of it."""
    UNTRIED = ""
    """It was not measured."""

    @property
    def is_fine(self) -> bool:
        """Tell whether every row came, once."""
        return self in (Outcome.SAME, Outcome.MOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """
    The measurement of one pair of releases.

    :param there: On the way there; ``back`` back on the first release after it. Where the way there
        failed, ``back`` tells whether the first release could continue as before.
    :param condition: Spark's error condition on the way there; ``back_condition`` on the way back.
    :param unchecked: On the way there with Spark's check of state schemas off; tried where the
        schema alone failed. ``unchecked_back`` is the way back after that.
    """

    there: Outcome
    back: Outcome = Outcome.UNTRIED
    condition: str = ""
    back_condition: str = ""
    unchecked: Outcome = Outcome.UNTRIED
    unchecked_back: Outcome = Outcome.UNTRIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """
    Every measured pair of releases.

    :param measured: Day of the measurement.
    :param releases: The exact release of each version, e.g. ``{"3.5": "3.5.9"}``.
    :param cells: By ``shape/store``, then by pair as ``3.5>4.1``.
    """

    measured: str
    releases: Mapping[str, str]
    cells: Mapping[str, Mapping[str, Seen]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Read the shipped form.

        :raises RecordError: not a matrix of this format.
        """
        if data.get("format") != FORMAT:
            raise RecordError(
                f"This release reads version matrices of format {FORMAT}, found "
                f"{data.get('format')!r:.40}. Upgrade airflow-streaming."
            )
        cells = mapping(data.get("cells"), "cells")
        return cls(
            measured=string(data.get("measured"), "measured"),
            releases=mapping(data.get("releases"), "releases"),
            cells={name: _pairs(mapping(pairs, name)) for name, pairs in cells.items()},
        )

    def seen(self, shape: str, store: str, pair: tuple[str, str]) -> Seen | None:
        """Return the measurement of a pair of versions, if any."""
        return self.cells.get(f"{shape}/{store}", {}).get(">".join(pair))

    def apart(self, shape: str, store: str, pair: tuple[str, str]) -> Seen | None:
        """
        Return the expectation for a shape on a store that it was not measured on.

        Operators and stores are independent: the result is the shape's measurement on another
        store, provided that this store passed with every shape that passed on other stores.

        A failure in it may be caused by the other store, and is not counted against this one.

        :return: ``None`` if one of them was not measured, or a shape had different results on
            different stores.
        """
        name = ">".join(pair)
        with_store = [cell for cell in self.cells if cell.endswith(f"/{store}")]
        tried = [cell for cell in with_store if name in self.cells[cell]]
        if not tried or any(self._is_worse(cell, name, _there) for cell in tried):
            return None
        found = _agreed(list(self.elsewhere(shape, store, pair).values()))
        if found is None or not any(self._is_worse(cell, name, _back) for cell in tried):
            return found
        return replace(found, back=Outcome.UNTRIED, unchecked_back=Outcome.UNTRIED)

    def elsewhere(self, shape: str, store: str, pair: tuple[str, str]) -> dict[str, Seen]:
        """Return the measurements of a shape on other stores, by store."""
        name = ">".join(pair)
        cells = {tuple(cell.split("/", 1)): pairs for cell, pairs in self.cells.items()}
        return {
            of: pairs[name]
            for (one, of), pairs in cells.items()
            if one == shape and of != store and name in pairs
        }

    def _is_worse(self, cell: str, pair: str, outcome: Callable[[Seen], Outcome]) -> bool:
        """Tell whether a cell did not do as well as its shape on another store."""
        own, (shape, _, store) = outcome(self.cells[cell][pair]), cell.partition("/")
        start, _, target = pair.partition(">")
        others = self.elsewhere(shape, store, (start, target)).values()
        best = any(outcome(other).is_fine for other in others)
        return bool(own) and not own.is_fine and best

    def exact(self, version: str) -> str:
        """Return the release that stands for a version in the measurement."""
        return self.releases.get(version, version)


def _there(seen: Seen) -> Outcome:
    return seen.there


def _back(seen: Seen) -> Outcome:
    return seen.back


def _agreed(several: Sequence[Seen]) -> Seen | None:
    """
    Return the common result of several measurements; ``None`` if they differ.

    Gaps are filled from each other.
    """
    there = {(seen.there, seen.unchecked) for seen in several}
    backs = {seen.back for seen in several} - {Outcome.UNTRIED}
    if len(there) != 1 or len(backs) > 1:
        return None
    return max(several, key=lambda seen: (bool(seen.back), bool(seen.unchecked_back)))


def _pairs(pairs: Mapping[str, Any]) -> dict[str, Seen]:
    return {pair: _seen(seen) for pair, seen in pairs.items()}


def _seen(value: Any) -> Seen:
    # Nearly all are "same there, same back": those are written as two words.
    outcomes_seen = _words(value) if isinstance(value, str) else mapping(value, "a pair")
    outcomes = ("there", "back", "unchecked", "unchecked_back")
    try:
        found = {name: Outcome(outcomes_seen.get(name, "")) for name in outcomes}
    except ValueError as err:
        raise RecordError(f"The version matrix has an unknown outcome: {closed(err)}") from err
    return Seen(
        there=found["there"],
        back=found["back"],
        condition=string(outcomes_seen.get("condition", ""), "condition"),
        back_condition=string(outcomes_seen.get("back_condition", ""), "back_condition"),
        unchecked=found["unchecked"],
        unchecked_back=found["unchecked_back"],
    )


def _words(text: str) -> dict[str, str]:
    there, _, back = text.partition(" ")
    return {"there": there, "back": back}
