"""Supervision: the rules and the policy a stream is watched by, for whoever has no dag at hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision(Record):
    """
    What the dag asks of health and restarts; the newest number counts.

    The task that keeps the stream records it, so that the command line, sensors in other dags and
    pages judge by the same rules.
    """

    KIND: ClassVar[str] = "supervision"

    number: int
    by: str
    at: datetime
    health: HealthRules = field(default_factory=HealthRules)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
