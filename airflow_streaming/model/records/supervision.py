"""The record of the rules, the restart policy and the notifiers that a stream is watched by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.policy import Freshness, RestartPolicy
from airflow_streaming.model.spark.launchers import MAX_STOP_GRACE, USUAL_STOP_GRACE
from airflow_streaming.model.wire import Record

_ABSENT: Final = "(absent)"
_ASKED: Final = ("health", "restart", "stop_grace", "notifiers", "freshness", "labels")


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

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.stop_grace <= MAX_STOP_GRACE:
            raise SpecError("The grace of a stop must be between 0 s and one day.")

    def differences(self, later: Supervision) -> tuple[str, ...]:
        """Return the values that a later record changes, e.g. ``restart.reset_batches: 20 -> 5``."""
        before, after = dict(_values(self)), dict(_values(later))
        return tuple(
            f"{name}: {before.get(name, _ABSENT)} -> {after.get(name, _ABSENT)}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        )


DEFAULTS: Final = Supervision(number=0, by="", at=datetime.min.replace(tzinfo=UTC))


def _values(record: Supervision) -> Iterator[tuple[str, str]]:
    for name in _ASKED:
        yield from _leaves(name, getattr(record, name))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        for one in fields(value):
            yield from _leaves(f"{name}.{one.name}", getattr(value, one.name))
    elif isinstance(value, Mapping):
        for key, one in sorted(value.items()):
            yield f"{name}.{key}", one
    elif isinstance(value, tuple) and value and hasattr(value[0], "name"):
        for one in value:
            yield from _leaves(f"{name}.{one.name}", one)
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return "; ".join(map(_text, value)) or "none"
    if is_dataclass(value):
        return ", ".join(f"{one.name} {_text(getattr(value, one.name))}" for one in fields(value))
    return "none" if value is None else str(value)
