"""Fire when a stream meets a condition, or cannot meet it any more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.snapshot import SnapshotReader, open_looker
from airflow_streaming.model.codec import encode
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.supervision.readiness.conditions import asked, catch_up, gate, with_watermark
from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot
from airflow_streaming.supervision.readiness.subject import (
    Condition,
    Readiness,
    ReadinessState,
    Subject,
)
from airflow_streaming.triggers.home import rules_from
from airflow_streaming.triggers.polling import SubjectTrigger

_FIGURES: Final = re.compile(r"\d+")


class StreamGate:
    """
    Checks whether a stream meets a condition.

    :param subject: The stream.
    :param condition: The condition it must meet.
    :param other: A stream it must have caught up with.
    :param rules: The health rules; default: the stream's recorded rules.
    """

    def __init__(
        self,
        subject: Subject,
        condition: Condition,
        *,
        other: Subject | None = None,
        rules: HealthRules | None = None,
    ) -> None:
        self._subject, self._condition, self._other = subject, condition, other
        self._rules = rules
        self._lookers: list[SnapshotReader] = []

    def look(self) -> tuple[Readiness, StreamSnapshot]:
        """
        Look once at all queries in question.

        :raises HomeUnavailable: a read failed.
        :raises RecordError: a record was found damaged.
        :raises SpecError: no stream of this name can be read.
        """
        if not self._lookers:
            others = [self._other] if self._other is not None else []
            self._lookers = [open_looker(one, self._rules) for one in (self._subject, *others)]
        if self._other is None:
            snapshot = self._lookers[0].snapshot()
            return gate(snapshot, self._condition), snapshot
        # The other stream first: this one need not have read its commits between the two looks.
        theirs, snapshot = (looker.snapshot() for looker in reversed(self._lookers))
        return catch_up(snapshot, theirs, self._condition), snapshot

    def lose_sight(self) -> None:
        """Take note that a look failed."""
        for looker in self._lookers:
            looker.lose_sight()

    def needs_to_listen(self, snapshot: StreamSnapshot) -> bool:
        """Tell whether a second look in a moment may give more than a single one."""
        return self._condition.needs_a_sign_of_life and not snapshot.fresh

    def describe(self, readiness: Readiness, snapshot: StreamSnapshot) -> dict[str, Any]:
        """Return the observation for later tasks: the progress of every query in question."""
        queries = asked(snapshot, self._condition.query)
        return {
            "stream": self._subject.name,
            "batch": _least(query.batch_id for query in queries),
            "watermark": encode(_least(query.watermark for query in with_watermark(queries))),
            "reason": readiness.reason,
        }


def _least(values: Iterable[Any]) -> Any:
    """Return what every query has reached; ``None`` unless all of them tell."""
    told = list(values)
    return None if None in told else min(told, default=None)


class GateTrigger(SubjectTrigger):
    """
    Fires when a stream meets a condition, or cannot without intervention.

    :param condition: ``Condition`` as JSON.
    :param other: ``Subject`` as JSON: a stream to catch up with.
    :param rules: ``HealthRules`` as JSON; default: the stream's recorded rules.
    """

    def __init__(
        self,
        *,
        condition: dict[str, Any],
        deferred_at: str,
        other: dict[str, Any] | None = None,
        rules: dict[str, Any] | None = None,
        poll_seconds: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(deferred_at=deferred_at, poll_seconds=poll_seconds, **kwargs)
        self.condition, self.other, self.rules = condition, other, rules
        self._gate: StreamGate | None = None
        self._missing = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "condition": self.condition,
            "other": self.other,
            "rules": self.rules,
            "deferred_at": self.deferred_at,
        }

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        try:
            if self._gate is None:
                self._gate = self._open()
            readiness, snapshot = self._gate.look()
        except SpecError as err:
            # Neither another look nor another try of the task would help.
            return {"state": ReadinessState.LOST.value, "reason": str(err)}, None
        state = snapshot.verdict.state
        if readiness.state is ReadinessState.WAITING:
            self._say_missing(readiness.reason)
            return None, state
        seen = self._gate.describe(readiness, snapshot)
        return {"state": readiness.state.value, "reason": readiness.reason, "seen": seen}, state

    def lose_sight(self) -> None:
        if self._gate is not None:
            self._gate.lose_sight()

    def _open(self) -> StreamGate:
        return StreamGate(
            self.subject,
            Condition.from_dict(self.condition),
            other=Subject.from_dict(self.other) if self.other is not None else None,
            rules=rules_from(self.rules),
        )

    def _say_missing(self, reason: str) -> None:
        # A log of every batch that is not the one would be long; of a reason that changes, short.
        missing = _FIGURES.sub("", reason)
        if missing != self._missing:
            self._missing = missing
            self.log.info("%s", reason)
