"""
Home + observer → state: one look at an upgrade.

The stages are read before and after the stream is looked at, until both readings agree. So no act
is decided from a stage and a sight of the stream that never were at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.upgrade.soak import (
    SoakBaseline,
    SoakFigures,
    SoakVerdict,
    backlog_of,
    judge_soak,
)
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.state import UpgradeState
from airflow_streaming.core.upgrade.terms import RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.observe.stream import Observer
from airflow_streaming.upgrade.committed import Committed

_TRIES: Final = 20
_BATCHES: Final = 500
"""The newest batches of the new deployment that are looked at."""
_CHUNKS: Final = 3
"""Oldest chunks of its history in which every query's first batch is looked for."""


def look(
    home: StreamHome,
    observer: Observer,
    change: Change,
    terms: UpgradeTerms,
    committed: Committed | None = None,
) -> UpgradeState:
    """
    Look once.

    :param terms: Of the change.
    :param committed: Looks what the stream has committed; by default without credentials.
    :raises HomeUnavailable: the home could not be read.
    """
    for _ in range(_TRIES):
        reached = home.stages(change.number)
        is_closed = home.change_end(change.number) is not None
        situation = observer.situation()
        has_committed = _may_matter(terms, reached) and (committed or Committed(home)).since(
            reached
        )
        if home.stages(change.number) == reached:
            return UpgradeState(
                change=change,
                terms=terms,
                situation=situation,
                reached=reached,
                soak=_soak(home, terms, reached, situation),
                has_committed=has_committed,
                is_closed=is_closed,
            )
    raise HomeUnavailable(
        f"The stages of change {change.number} of stream {home.name!r} changed under {_TRIES} "
        "looks in a row. Look again."
    )


def _may_matter(terms: UpgradeTerms, reached: dict[Stage, StageReached]) -> bool:
    decided = {Stage.KEPT, Stage.LEFT, Stage.RESTORED}
    is_between = Stage.APPLYING in reached and decided.isdisjoint(reached)
    return is_between and terms.rollback.way is RollbackWay.NONE


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
    batches = home.read_progress(epoch, limit=_BATCHES)
    return judge_soak(
        SoakBaseline(
            launched_at=launched.at,
            epoch=epoch,
            firing=frozenset(filter(None, fired.split("\n"))),
        ),
        SoakFigures(
            seen=situation.seen,
            rules=situation.rules,
            batches=batches,
            first=first_batches(home, epoch, batches),
        ),
        terms.soak,
        situation.now,
    )


def first_batches(
    home: StreamHome, epoch: int, batches: Sequence[BatchProgress]
) -> dict[str, BatchProgress]:
    """Return each query's first batch of the epoch, as far as its source tells of a backlog."""
    wanted = {batch.query for batch in batches if backlog_of(batch) is not None}
    found: dict[str, BatchProgress] = {}
    for chunk in home.progress_chunks(epoch)[:_CHUNKS]:
        if wanted <= found.keys():
            break
        for row in home.progress_rows(epoch, chunk)[0]:
            if backlog_of(row) is not None:
                found.setdefault(row.query, row)
    return found
