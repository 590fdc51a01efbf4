"""
Backups + policy → which stay, each with every reason, and which go.

Everything here errs on the side of keeping. Slots are filled by backups and not by the calendar, so
that a day without a backup uses up none, and ages are counted in the time that the backups
themselves have lived through, so that a clock which jumps makes nothing old:

- the age of a backup is the sum of the gaps between it and the newest one, and no gap counts for
  more than a quarter of the period asked for. A stream that was down for a month, or a clock that
  went a year ahead, makes a backup at most that much older;
- the time of day is asked for one thing only: a backup from after it is from the future, stays, and
  takes no slot from the others.

What was found damaged takes no slot from what is whole, and the newest verified backup stays
whatever the policy says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Self

from airflow_streaming.core.checkpoint.backup import Backup, Origin, Verification
from airflow_streaming.core.checkpoint.slots import (
    Period,
    in_words,
    newest_of_each,
    younger_than,
)
from airflow_streaming.core.checkpoint.standing import Standing, standings
from airflow_streaming.core.wire import parse_json_value
from airflow_streaming.exceptions import RecordError, SpecError

_COUNTS: Final = ("keep_last", "daily", "weekly", "monthly")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """
    What is kept of a stream's backups; a backup stays when any of the rules keeps it.

    :param keep_last: How many of the newest.
    :param keep_for: Backups up to this age; the age is counted from the newest backup, and no gap
        between two backups counts for more than a quarter of this period.
    :param daily: The newest backup of each of this many days that have one; days and weeks are
        those of UTC.
    :param weekly: The same by weeks that begin on a Monday.
    :param monthly: The same by months.
    :param origins: Policies for backups of one origin. They are judged apart from the others, so
        that many of one sort push out none of another.
    :raises SpecError: a number is negative, nothing would ever be kept, or policies are nested.
    """

    keep_last: int = 0
    keep_for: timedelta | None = None
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    origins: Mapping[Origin, RetentionPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if type(count) is not int or count < 0:
                raise SpecError(f"Retention: {name} is {count!r}; give a number from 0 up.")
        if self.keep_for is not None and self.keep_for <= timedelta():
            raise SpecError("Retention: keep_for has to be longer than nothing.")
        if self.keep_for is None and not any(getattr(self, name) for name in _COUNTS):
            raise SpecError(
                "Retention: the policy keeps nothing. Give keep_last, keep_for, daily, weekly or "
                "monthly."
            )
        if any(policy.origins for policy in self.origins.values()):
            raise SpecError("Retention: the policy of an origin cannot have origins of its own.")

    @classmethod
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
            raise SpecError(f"Retention: the policy is no JSON object: {err}") from err
        return cls.from_dict(dict(_mapping(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """
    One backup that stays.

    :param reasons: Every rule that keeps it, in words.
    """

    backup: Backup
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What stays and what goes, newest first."""

    keep: tuple[Kept, ...]
    remove: tuple[Backup, ...]

    def lines(self) -> list[str]:
        """Return the plan in words, one line for each backup, newest first."""
        shown = [(kept.backup, f"stays: {'; '.join(kept.reasons)}") for kept in self.keep]
        shown += [(backup, "goes") for backup in self.remove]
        shown.sort(key=lambda one: _age_order(one[0]), reverse=True)
        return [f"{backup.id} ({backup.origin}) {words}" for backup, words in shown]


def plan_retention(
    backups: Iterable[Backup],
    verifications: Iterable[Verification],
    policy: RetentionPolicy,
    now: datetime,
) -> RetentionPlan:
    """
    Return which of a stream's backups stay and which go.

    :param backups: All of one stream.
    :param verifications: All that was found of them, in any order.
    :param now: The time of day, best by the store's clock.
    """
    found = sorted(backups, key=_age_order, reverse=True)
    standing = standings(found, verifications)
    reasons: dict[str, list[str]] = {backup.id: [] for backup in found}
    past = [backup for backup in found if backup.begun_at <= now]
    for backup in found:
        if backup.begun_at > now:
            reasons[backup.id].append("it is from the future")
    last_resort = _last_resort(past, standing)
    if last_resort is not None:
        reasons[last_resort.id].append(_WORDS[standing[last_resort.id]])
    for rules, members in _populations(past, policy):
        _judge(members, standing, rules, reasons)
    return RetentionPlan(
        keep=tuple(
            Kept(backup=backup, reasons=tuple(reasons[backup.id]))
            for backup in found
            if reasons[backup.id]
        ),
        remove=tuple(backup for backup in found if not reasons[backup.id]),
    )


_WORDS: Final = {
    Standing.VERIFIED: "it is the newest verified one",
    Standing.UNVERIFIED: "it is the newest one, and none is verified",
    Standing.DAMAGED: "it is the newest one, and none is whole",
}


def _last_resort(past: Sequence[Backup], standing: Mapping[str, Standing]) -> Backup | None:
    for wanted in (Standing.VERIFIED, Standing.UNVERIFIED, Standing.DAMAGED):
        for backup in past:
            if standing[backup.id] is wanted:
                return backup
    return None


def _populations(
    past: Sequence[Backup], policy: RetentionPolicy
) -> Iterable[tuple[RetentionPolicy, list[Backup]]]:
    yield policy, [backup for backup in past if backup.origin not in policy.origins]
    for origin, rules in policy.origins.items():
        yield rules, [backup for backup in past if backup.origin is origin]


def _judge(
    members: Sequence[Backup],
    standing: Mapping[str, Standing],
    rules: RetentionPolicy,
    reasons: dict[str, list[str]],
) -> None:
    whole = [backup for backup in members if standing[backup.id] is not Standing.DAMAGED]
    for backup, why in _chosen(whole, rules):
        reasons[backup.id].append(why)
    # A damaged one goes when it would go if it were whole: somebody may want to look at it.
    for backup, why in _chosen(members, rules):
        if standing[backup.id] is Standing.DAMAGED:
            reasons[backup.id].append(f"damaged, but {why}")


def _chosen(members: Sequence[Backup], rules: RetentionPolicy) -> Iterable[tuple[Backup, str]]:
    for backup in members[: rules.keep_last]:
        yield backup, f"one of the last {rules.keep_last}"
    if rules.keep_for is not None:
        for backup in younger_than(rules.keep_for, members):
            yield backup, f"younger than {in_words(rules.keep_for)}"
    for period in Period:
        for backup, label in newest_of_each(period, members, getattr(rules, period)):
            yield backup, f"{period} of {label}"


def _age_order(backup: Backup) -> tuple[datetime, str]:
    return backup.begun_at, backup.id


def _days(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"Retention: keep_for is {value!r}; give a number of days.")
    try:
        return timedelta(days=value)
    except (OverflowError, ValueError) as err:
        raise SpecError(f"Retention: keep_for of {value!r} days is no period.") from err


def _origin(name: Any) -> Origin:
    try:
        return Origin(name)
    except ValueError as err:
        known = ", ".join(Origin)
        raise SpecError(f"Retention: {name!r} is no origin of backups; use {known}.") from err


def _mapping(value: Any) -> Iterable[tuple[Any, Any]]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise SpecError(f"Retention: expected an object, found {type(value).__name__}.")
    return value.items()
