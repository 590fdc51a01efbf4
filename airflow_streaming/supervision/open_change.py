"""
Progress of the open upgrade or cutover of a stream.

Every look reads it while one is open, from cached records: a look at a cutover costs one read for
its next step, and one for its end.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import (
    Change,
    ChangeInProgress,
    ChangeKind,
    StreamRemoval,
)
from airflow_streaming.model.records.cutover import CutoverStanding, CutoverTerms
from airflow_streaming.model.records.cutover_table import CUTOVER, DEADLINES
from airflow_streaming.model.records.upgrade import OpenUpgrade
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage

log: Final = logging.getLogger(__name__)


def change_in_progress(home: StreamHome) -> ChangeInProgress | None:
    """Return the upgrade, cutover or removal that a stream, or a lane of it, is part of and is not closed."""
    change = home.unfinished_change()
    if change is None:
        return None
    match change.what:
        case ChangeKind.UPGRADE:
            return upgrade_in_progress(home, change)
        case ChangeKind.CUTOVER:
            return _cutover(home, change)
        case ChangeKind.REMOVE:
            return StreamRemoval(change=change)
    return None


def upgrade_in_progress(home: StreamHome, change: Change) -> OpenUpgrade:
    """Return how far an upgrade has come, and since when."""
    history = home.upgrade_steps(change.number)
    stage = UPGRADE.state_of(history)
    return OpenUpgrade(
        change=change.number,
        deployment=change.deployment,
        stage=stage,
        since=history[-1].at if history else change.at,
        soaks_for=_soaks_for(home, change) if stage is Stage.LAUNCHED else timedelta(0),
    )


def _soaks_for(home: StreamHome, change: Change) -> timedelta:
    try:
        return home.terms(change).soak.at_most
    except RecordError as err:
        log.warning("Stream %r: %s", home.name, err)
        return timedelta(0)


def _cutover(home: StreamHome, change: Change) -> CutoverStanding:
    led, number = home.leader_of(change)
    history, terms = led.steps(number), _terms(led, number)
    state = CUTOVER.state_of(history)
    deadline = DEADLINES.get(state) if terms is None else terms.deadline(state)
    return CutoverStanding(
        change=change.number,
        green=_green(terms, home.name),
        state=state,
        since=history[-1].at if history else change.at,
        deadline=deadline or timedelta(0),
    )


def _terms(led: StreamHome, number: int) -> CutoverTerms | None:
    try:
        return led.cutover_terms(led.change(number))
    except RecordError as err:
        log.warning("Stream %r: %s", led.name, err)
        return None


def _green(terms: CutoverTerms | None, lane: str) -> str:
    pairs = terms.pairs if terms is not None else ()
    return next((pair.green for pair in pairs if lane in (pair.blue, pair.green)), "")
