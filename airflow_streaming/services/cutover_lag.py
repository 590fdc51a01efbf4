"""Read how far the green lanes of an open cutover are behind blue."""

from __future__ import annotations

from typing import Final

from airflow_streaming.changes.judging.lag import QueryLag, lags_of
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.status import Status

_BATCHES: Final = 200
"""Newest batches of green that are read, over all its queries."""
BESIDE_BLUE: Final = frozenset(
    {
        CutoverState.CATCHING_UP,
        CutoverState.SHADOWING,
        CutoverState.COMPARING,
        CutoverState.READY,
        CutoverState.HELD,
    }
)
"""States in which green runs beside a live blue."""


def read_lags(home: StreamHome, pair: Pair) -> tuple[QueryLag, ...]:
    """
    Return the distance of each query of a green lane to blue.

    :param home: Records of any lane of the home.
    :raises RecordError: a record of one of the lanes is damaged.
    """
    green = home.beside(pair.green)
    status = _status(green)
    batches = green.read_progress(status.epoch, limit=_BATCHES) if status is not None else []
    return lags_of(status, _status(home.beside(pair.blue)), batches)


def _status(lane: StreamHome) -> Status | None:
    epoch = lane.newest_epoch()
    return None if epoch is None else lane.status(epoch.number)
