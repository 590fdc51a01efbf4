"""The record of the rules, the restart policy and the notifiers that a stream is watched by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.policies import Freshness, RestartPolicy
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.spark.launchers import MAX_STOP_GRACE, USUAL_STOP_GRACE
from airflow_streaming.model.wire import Record

_ABSENT: Final = "(absent)"
_ASKED: Final = ("health", "restart", "stop_grace", "notifiers", "freshness", "labels", "tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision(Record):
    """
    The DAG's rules for health, restarts and alerts; the newest number counts, for both lanes.

    The task that keeps the stream records it whenever it wakes. Task, trigger, command line, page
    and sensors judge by this record.

    :param number: 0 for the defaults, which apply before the first record.
    :param stop_grace: How long a stop may wait for a batch boundary before the driver is killed.
    :param freshness: The freshness objective, if any.
    :param labels: Labels of the stream, by which a selector finds it.
    :param tags: Tags of the DAG, for selectors, too.
    :param notifiers: Who receives alerts, e.g. ``on_gave_up: SmtpNotifier``.
    """

    KIND: ClassVar[str] = "supervision"

    number: int
    by: str
    at: datetime
    health: HealthRules = field(default_factory=HealthRules)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    stop_grace: timedelta = USUAL_STOP_GRACE
    notifiers: tuple[str, ...] = ()
    freshness: Freshness | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.stop_grace <= MAX_STOP_GRACE:
            raise SpecError("The grace of a stop must be between 0 s and one day.")

    def differences(self, later: Supervision) -> tuple[str, ...]:
        """Return the values that a later record changes, e.g. ``restart.reset_batches: 20 -> 5``."""
        return tuple(
            change
            for name in _ASKED
            for change in _changes(name, getattr(self, name), getattr(later, name))
        )


DEFAULTS: Final = Supervision(number=0, by="", at=datetime.min.replace(tzinfo=UTC))


def _changes(name: str, before: Any, after: Any) -> Iterator[str]:
    if before == after:
        return
    if is_dataclass(before) and is_dataclass(after):
        for one in fields(before):
            yield from _changes(
                f"{name}.{one.name}", getattr(before, one.name), getattr(after, one.name)
            )
    elif isinstance(before, Mapping):
        for key in sorted({**before, **after}):
            yield from _changes(f"{name}.{key}", before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif _has_names(before) or _has_names(after):
        yield from _changed_items(name, _by_name(before), _by_name(after))
    else:
        yield f"{name}: {_text(before)} -> {_text(after)}"


def _changed_items(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in {**before, **after}:
        if key not in after:
            yield f"{name}.{key}: removed"
        elif key not in before:
            yield f"{name}.{key}: added"
        else:
            yield from _changes(f"{name}.{key}", before[key], after[key])


def _has_names(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and hasattr(value[0], "name")


def _by_name(items: tuple[Any, ...]) -> dict[str, Any]:
    return {item.name: item for item in items}


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return "; ".join(map(_text, value)) or "none"
    if is_dataclass(value):
        return ", ".join(f"{one.name} {_text(getattr(value, one.name))}" for one in fields(value))
    return "none" if value is None else str(value)
