"""
Home + observer → state: one look at an upgrade.

The stages are read before and after the stream is looked at, until both readings agree. So no act
is decided from a stage and a sight of the stream that never were at the same time.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.upgrade.soak import (
    SoakBaseline,
    SoakFigures,
    SoakVerdict,
    judge_soak,
)
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.state import UpgradeState
from airflow_streaming.core.upgrade.terms import UpgradeTerms
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.observe.stream import Observer

_TRIES: Final = 20
_BATCHES: Final = 500
"""Batches of the new deployment that are looked at."""


def look(home: StreamHome, observer: Observer, change: Change, terms: UpgradeTerms) -> UpgradeState:
    """
    Look once.

    :param terms: Of the change.
    :raises HomeUnavailable: the home could not be read.
    """
    for _ in range(_TRIES):
        reached = home.stages(change.number)
        is_closed = home.change_end(change.number) is not None
        situation = observer.situation()
        if home.stages(change.number) == reached:
            return UpgradeState(
                change=change,
                terms=terms,
                situation=situation,
                reached=reached,
                soak=_soak(home, terms, reached, situation),
                is_closed=is_closed,
            )
    raise HomeUnavailable(
        f"The stages of change {change.number} of stream {home.name!r} changed under {_TRIES} "
        "looks in a row. Look again."
    )


def _soak(
    home: StreamHome,
    terms: UpgradeTerms,
    reached: dict[Stage, StageReached],
    situation: Situation,
) -> SoakVerdict | None:
    launched = reached.get(Stage.LAUNCHED)
    if launched is None or not reached.keys().isdisjoint({Stage.JUDGED, Stage.ROLLING_BACK}):
        return None
    epoch, before = int(launched.facts["epoch"]), reached.get(Stage.BACKED_UP)
    fired = before.facts.get("firing", "") if before is not None else ""
    return judge_soak(
        SoakBaseline(
            launched_at=launched.at,
            epoch=epoch,
            firing=frozenset(filter(None, fired.split("\n"))),
        ),
        SoakFigures(
            seen=situation.seen,
            rules=situation.rules,
            batches=home.read_progress(epoch, limit=_BATCHES),
        ),
        terms.soak,
        situation.now,
    )
