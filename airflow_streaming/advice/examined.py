"""
Facts that the doctor examines, and the answers of its rules.

``advice.gathering`` reads the facts: the deployment, the driver's last status, the progress history, the confs
pinned in the checkpoints. A rule reads the facts and answers risk, fine or unknown. Unknown is never fine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.model.wire import MAX_RECORD_BYTES, parse_json

if TYPE_CHECKING:
    from airflow_streaming.advice.cost.request_cost import Prices
    from airflow_streaming.advice.cost.restart_forecast import Restart

NO_DRIVER: Final = "No driver of the stream has reported its queries yet."
NO_PLANS: Final = "No driver of the stream has recorded its plans yet."


class Outcome(StrEnum):
    """Result of one examination."""

    RISK = "risk"
    UNKNOWN = "unknown"
    """A fact is missing, and the answer names it."""
    FINE = "fine"


class RiskLevel(StrEnum):
    """Gravity of a risk."""

    HIGH = "high"
    """Rows or state may be lost or doubled, or the stream dies."""
    MEDIUM = "medium"
    """It gets slow, or costs far more than needed."""
    LOW = "low"
    """Something has no effect, or is not seen when it is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """
    Answer of one rule about a stream or about one of its queries.

    :param level: Gravity; ``None`` without a risk.
    :param query: The query; ``None`` for the whole stream.
    :param what: One sentence.
    :param evidence: The figures or values that show it.
    :param remedy: The next step.
    """

    rule: str
    outcome: Outcome
    what: str
    level: RiskLevel | None = None
    query: str | None = None
    evidence: str = ""
    remedy: str = ""


def risk(
    rule: str, level: RiskLevel, what: str, *, evidence: str, remedy: str, query: str | None = None
) -> Advice:
    """Return a risk."""
    return Advice(
        rule=rule,
        outcome=Outcome.RISK,
        level=level,
        what=what,
        query=query,
        evidence=evidence,
        remedy=remedy,
    )


def unknown(rule: str, what: str, *, query: str | None = None, remedy: str = "") -> Advice:
    """Return that a rule could not examine something, with the missing fact."""
    return Advice(rule=rule, outcome=Outcome.UNKNOWN, what=what, query=query, remedy=remedy)


def fine(rule: str, what: str, *, query: str | None = None) -> Advice:
    """Return that a rule found no risk."""
    return Advice(rule=rule, outcome=Outcome.FINE, what=what, query=query)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherStream:
    """
    The checkpoints of another stream of the home.

    :param folder: The folder of its deployment's checkpoints.
    :param checkpoints: Checkpoints of its queries that a driver has recorded.
    """

    name: str
    folder: str
    checkpoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlace:
    """
    A backup store that the home has used.

    :param absence: Why the store is not in its place; empty when it is.
    """

    uri: str
    absence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    Known facts of a stream.

    :param status: The last status of its newest driver; ``None`` before the first.
    :param history: Batches, the oldest first.
    :param pinned: Confs written in each query's checkpoint, by query name.
    :param others: The other streams of the home.
    :param stores: The backup stores that the home has used.
    :param plans: The newest plan of each query, as drivers recorded it.
    :param script: The deployed script; ``None`` when it could not be read.
    :param cores: Cores of all executors together, where the user gives them.
    :param restarts: Recorded restarts, oldest first.
    :param prices: Prices of requests, where the user gives them.
    :param unread: Records and files that could not be read, one sentence each.
    """

    deployment: Deployment
    status: Status | None = None
    history: tuple[BatchProgress, ...] = ()
    pinned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: tuple[OtherStream, ...] = ()
    stores: tuple[BackupPlace, ...] = ()
    plans: tuple[QueryPlan, ...] = ()
    script: str | None = None
    cores: int | None = None
    restarts: tuple[Restart, ...] = ()
    home: str = ""
    prices: Prices | None = None
    unread: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[QueryStatus, ...]:
        return self.status.queries if self.status is not None else ()

    @property
    def conf(self) -> Mapping[str, str]:
        """Return the deployment's configuration; other settings of Spark are not recorded."""
        return self.deployment.conf

    def batches(self, query: str) -> list[BatchProgress]:
        """Return one query's batches, the oldest first, each once."""
        by_id = {batch.batch_id: batch for batch in self.history if batch.query == query}
        return [by_id[number] for number in sorted(by_id)]

    def latest(self, query: QueryStatus) -> BatchProgress | None:
        """Return the last figures of a query."""
        if query.progress is not None:
            return query.progress
        known = self.batches(query.name)
        return known[-1] if known else None

    def setting(self, query: str, key: str) -> str | None:
        """Return a query's setting: the value in its checkpoint, else the deployment's."""
        return self.pinned.get(query, {}).get(key) or self.conf.get(key)


def pinned_conf(offsets: bytes) -> dict[str, str]:
    """
    Return the confs that Spark wrote into one file of a checkpoint's ``offsets`` log.

    :raises RecordError: not such a file.
    """
    lines = offsets[:MAX_RECORD_BYTES].split(b"\n")
    if len(lines) < 2 or lines[0] not in (b"v1", b"v2"):
        raise RecordError("It does not begin as a file of Spark's offset log.")
    conf: Any = parse_json(lines[1]).get("conf", {})
    if not isinstance(conf, dict):
        raise RecordError(f"Its conf is not an object: {json.dumps(conf)[:80]}.")
    return {str(key): value for key, value in conf.items() if isinstance(value, str)}
