"""What the running deployment says of itself, to compare a rehearsal with."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from airflow_streaming.core.plan.plan import QueryPlan
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.rehearsal.judge import pace_of
from airflow_streaming.core.rehearsal.rehearsed import Pace
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)

_BATCHES: Final = 200


class Live(NamedTuple):
    """
    What is known of the running deployment.

    :param paces: How fast each query is, by its name.
    :param plans: The plan of each, where its driver recorded them.
    """

    paces: Mapping[str, Pace] = {}
    plans: Sequence[QueryPlan] = ()


def live_figures(home: StreamHome | None) -> Live:
    """Return what a home tells; what cannot be read is left out, for a rehearsal needs none."""
    if home is None:
        return Live()
    try:
        epoch = home.newest_epoch()
        batches = [] if epoch is None else home.read_progress(epoch.number, _BATCHES)
        return Live(paces=_paces(batches), plans=home.newest_plans())
    except StreamingError as err:
        log.warning("The rehearsal is not compared with stream %s: %s", home.name, err)
        return Live()


def _paces(batches: Sequence[BatchProgress]) -> dict[str, Pace]:
    names = {batch.query for batch in batches}
    paces = {name: pace_of([b for b in batches if b.query == name]) for name in names}
    return {name: pace for name, pace in paces.items() if pace is not None}
