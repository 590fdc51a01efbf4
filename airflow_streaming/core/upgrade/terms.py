"""Terms: by what an upgrade in place is judged, and how it may go back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakTerms:
    """
    What the new deployment has to show before it is kept.

    :param batches: Batches that every query has to commit, unless its source has no data.
    :param at_least: How long it is watched after its first batch even when all goes well.
    :param at_most: After this the soak ends; what has not been shown by then counts against it.
    :param backlog_growth: Factor by which the backlog may exceed what it was at the launch.
    :param queries: Names of the queries that have to be there; empty when any will do.
    """

    batches: int = 3
    at_least: timedelta = timedelta(minutes=2)
    at_most: timedelta = timedelta(minutes=15)
    backlog_growth: float = 1.5
    queries: tuple[str, ...] = ()


class RollbackWay(StrEnum):
    """How to go back once the new deployment has written."""

    REWIND = "rewind"
    """Back to the pre-upgrade backup, with sinks put back in step: as if it had never been tried."""
    RESUME = "resume"
    """The old deployment goes on where the new one ended; what the new one wrote stays."""
    NONE = "none"
    """There is no way back once a batch is committed; an upgrade is refused, or a person agrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """
    The way back, found before anything is done.

    :param reason: Why this way.
    :param replay: What will come twice, in words; empty when nothing does.
    :param refused: Why there is no sound way back, and what to do instead; empty when there is one.
    """

    way: RollbackWay
    reason: str
    replay: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeTerms(Record):
    """
    Everything an upgrade needs to be finished by whoever finds it.

    :param proposed: The deployment to come.
    :param rollback: The way back.
    :param keeps_by_itself: End the soak by keeping a good one; else somebody has to say so.
    :param stop_grace: How long the old driver may take to reach a batch boundary.
    :param sinks: Of the old deployment: what the way back has to put in step.
    :param key: Names the wish: whoever asks with the same key means this upgrade, ended or not.
    """

    KIND: ClassVar[str] = "upgrade_terms"

    change: int
    proposed: Deployment
    rollback: RollbackPlan
    soak: SoakTerms = field(default_factory=SoakTerms)
    keeps_by_itself: bool = True
    stop_grace: timedelta = timedelta(seconds=60)
    sinks: tuple[SinkFacts, ...] = ()
    key: str = ""

    @property
    def sink_logs(self) -> dict[str, str]:
        """Return the output folder of every file sink, by the query's name."""
        logs = (sink for sink in self.sinks if sink.habit is SinkHabit.FILE_LOG)
        return {sink.query: sink.target for sink in logs}

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the terms but for their number: what names their record."""
        return hashlib.sha256(replace(self, change=0).to_bytes()).hexdigest()
