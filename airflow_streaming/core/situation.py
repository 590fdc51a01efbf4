"""Situation: everything that the next step of a stream depends on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_streaming.core.alerts.alert import Alert
from airflow_streaming.core.change_in_progress import ChangeInProgress
from airflow_streaming.core.control import Circuit, DesiredState
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import StopRequest
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.observation import Observation
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.restart import RestartDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    Everything the next step depends on.

    :param deployment: The deployment that should run; ``None`` before the first.
    :param seen: The newest epoch as observed; ``None`` before the first.
    :param decision: The restart decision recorded for that epoch.
    :param alerts: What has been told of the stream, oldest first.
    :param wish: Number of the newest wish for the stream; 0 when nobody ever wished anything.
    :param stopping_for: How long this observer has seen the stop request unanswered.
    :param watched: The epoch this task has been watching; ``None`` in a fresh task.
    :param run_age: Age of the dag run, for rollover.
    :param tells: This task tells people what ``alerts`` does not hold yet.
    :param change: The upgrade or cutover in progress: while it owns the stream, only it acts.
    :param may_stand_by: Whoever asks has a driver wait at the barrier, and knows until when.
    :param follows: The lane of the stream that is live, when it is not the one that was looked at.
    :param successor_waits: Another run of the dag is queued, and this one is in its way.
    """

    desired: DesiredState
    now: datetime
    rules: HealthRules
    policy: RestartPolicy
    deployment: Deployment | None = None
    circuit: Circuit | None = None
    seen: Observation | None = None
    decision: RestartDecision | None = None
    stop: StopRequest | None = None
    wish: int = 0
    alerts: tuple[Alert, ...] = ()
    stopping_for: timedelta = timedelta(0)
    watched: int | None = None
    run_age: timedelta = timedelta(0)
    rollover_after: timedelta | None = None
    successor_waits: bool = False
    tells: bool = False
    change: ChangeInProgress | None = None
    follows: str | None = None
    may_stand_by: bool = False
