"""What a person asks of an upgrade, and what he is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import RollbackPlan, SoakTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    What is asked of an upgrade besides the deployment itself.

    :param rollback: The way back, found before anything is done (``core.upgrade.rollback``).
    :param keeps_by_itself: A good soak is kept without asking anybody.
    :param stop_grace: How long the old driver may take to reach a batch boundary.
    :param sinks: Of the old deployment: what the way back has to put in step.
    :param accepts_no_way_back: A person has agreed that there is none.
    :param key: Names the wish, e.g. the dag run: whoever begins with the same key is given the same
        upgrade, ended or not, so that a retry never begins a second one.
    :param reason: Why, for the records.
    """

    rollback: RollbackPlan
    soak: SoakTerms = field(default_factory=SoakTerms)
    keeps_by_itself: bool = True
    stop_grace: timedelta = timedelta(seconds=60)
    sinks: tuple[SinkFacts, ...] = ()
    accepts_no_way_back: bool = False
    key: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    How far an upgrade has come.

    :param stage: The newest stage reached; an end stage means that the upgrade is over.
    :param reason: Why that stage was reached; of an end that is not ``kept``, what went wrong.
    :param is_there: The stage asked for, or an end, is reached: nothing more to do for the caller.
    :param waiting: Otherwise: what is waited for, in a sentence. Look again after some seconds,
        with an observer that remembers what this one has seen (``Observer.memory``).
    :param needs_person: Nothing goes on until somebody gives a word, or looks after a driver on a
        host that cannot be seen.
    :param facts: The facts of all stages together: ``backup``, ``boundary``, ``fence``,
        ``deployment``, ``epoch``, ``verdict`` (``good`` or ``bad``), ``checkpoint``, and the
        figures of the soak as ``soak.QUERY``.
    """

    change: int
    stage: Stage
    reason: str
    is_there: bool
    waiting: str = ""
    needs_person: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
