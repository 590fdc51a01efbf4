"""How long backups and old records of a stream stay, as a dag's author says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Final, Self

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.arguments.fields import (
    Positive,
    Range,
    check_values,
    checked,
    named_fields,
)
from airflow_streaming.model.wire import parse_json_value

_COUNTS: Final = ("keep_last", "daily", "weekly", "monthly")
LEAST: Final = timedelta(days=7)
"""A failure of Friday is looked into on Monday, and a restore is undone within days or never."""
MOST: Final = timedelta(days=30)
"""Longer than that, backups and metrics systems are the history."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """
    How long old things of a stream are kept.

    :param keep: The period, from 7 to 30 days. It is longer for a stream that reads a longer time
        again: at least the longest replay of a deployment in use, and the longest window of a
        restart budget.
    :param keep_epochs: Number of the newest epochs of each lane that stay at any age; at least 3.
    :param outputs: Also remove outputs that are no longer needed. They are data, so the default is
        off.
    :raises SpecError: a value is out of its bounds.
    """

    keep: Annotated[timedelta, Range(least=LEAST, most=MOST)] = timedelta(days=14)
    keep_epochs: Annotated[int, Range(least=3, most=10_000)] = 10
    outputs: bool = False

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """
    Rules for keeping a stream's backups; a backup stays if any rule keeps it.

    :param keep_last: Number of the newest backups to keep.
    :param keep_for: Keep backups up to this age. The age counts from the newest backup, and no gap
        between two backups counts for more than a quarter of this period.
    :param daily: Keep the newest backup of each of this many days that have one; days and weeks are
        in UTC.
    :param weekly: The same by weeks that begin on a Monday.
    :param monthly: The same by months.
    :param origins: Policies for backups of one origin. They are applied separately, so that many
        backups of one origin push out none of another.
    :raises SpecError: A number is negative, no backup would ever be kept, or policies are nested.
    """

    keep_last: int = 0
    keep_for: Positive | None = None
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    origins: Mapping[Origin, RetentionPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_values(self)
        if self.keep_for is None and not any(getattr(self, name) for name in _COUNTS):
            raise SpecError(
                "Retention: the policy keeps nothing. Give keep_last, keep_for, daily, weekly or "
                "monthly."
            )
        if any(policy.origins for policy in self.origins.values()):
            raise SpecError("Retention: the policy of an origin cannot have origins of its own.")

    @classmethod
    @checked
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build a policy from plain values, as a dag's params or a command line give them.

        :param data: The fields by name; ``keep_for`` in days, ``origins`` by name of the origin.
        :raises SpecError: a field is unknown or of another type.
        """
        known = {*_COUNTS, "keep_for", "origins"}
        if unknown := sorted(set(data) - known):
            raise SpecError(
                f"Retention: {', '.join(unknown)} is unknown; use {', '.join(sorted(known))}."
            )
        values = {name: data[name] for name in _COUNTS if data.get(name) is not None}
        if data.get("keep_for") is not None:
            values["keep_for"] = _days(data["keep_for"])
        origins = {_origin(name): cls.from_dict(of) for name, of in _mapping(data.get("origins"))}
        return cls(**values, origins=origins)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """
        Build a policy from a JSON object; see ``from_dict``.

        :raises SpecError: not JSON, or not a policy.
        """
        try:
            value = parse_json_value(text.encode())
        except RecordError as err:
            raise SpecError(f"Retention: the policy is not a JSON object: {err}") from err
        return cls.from_dict(dict(_mapping(value)))


def _days(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"Retention: keep_for is {value!r}; give a number of days.")
    try:
        return timedelta(days=value)
    except (OverflowError, ValueError) as err:
        raise SpecError(f"Retention: keep_for={value!r} is not a number of days.") from err


def _origin(name: Any) -> Origin:
    try:
        return Origin(name)
    except ValueError as err:
        known = ", ".join(Origin)
        raise SpecError(f"Retention: unknown origin of backups {name!r}; use {known}.") from err


def _mapping(value: Any) -> Iterable[tuple[Any, Any]]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise SpecError(f"Retention: expected an object, found {type(value).__name__}.")
    return value.items()
