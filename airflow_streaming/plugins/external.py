"""
External streams on the page: streams that sensors of this provider wait for by their checkpoint.

Like the keep-alive tasks, the sensors are found by what users cannot write: their rendered fields and
their serialized dag. A checkpoint is only read, and nothing can be done to such a stream from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from airflow_streaming.exceptions import HomeNotAllowed, SpecError
from airflow_streaming.hooks.checkpoint import CheckpointHook
from airflow_streaming.hooks.connections import connection_of
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.model.uris import is_local
from airflow_streaming.plugins.access.kept import Kept, external_title
from airflow_streaming.plugins.access.trust import check_home
from airflow_streaming.plugins.page_values import cut, quoted, told
from airflow_streaming.settings import read_settings
from airflow_streaming.supervision.external.endpoint import ask
from airflow_streaming.supervision.external.observer import ExternalObserver
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.stream_status import level_of

ENDPOINT_SECONDS: Final = 1.0
"""A page waits less long for a driver's web page than a sensor does."""
_MOST_QUERIES: Final = 100


def open_observer(kept: Kept) -> ExternalObserver:
    """
    Return what looks at an external stream, if the API server may read its checkpoint.

    :raises HomeNotAllowed: it may not, or not with this connection.
    :raises StreamingError: it cannot be opened now.
    """
    settings = read_settings()
    try:
        check_home(kept.home, written=kept.written, allowed=settings.homes)
    except HomeNotAllowed as err:
        raise HomeNotAllowed(f"The checkpoint of this external stream is not read. {err}") from err
    _check_connection(kept)
    folders = CheckpointHook(kept.home, kept.home_conn_id, team=kept.dag.team).get_conn()
    asking = partial(ask, seconds=ENDPOINT_SECONDS)
    try:
        return ExternalObserver(
            folders, endpoint=kept.endpoint, allowed=settings.metrics_endpoints, asking=asking
        )
    except SpecError:
        # The endpoint is not listed; the checkpoint alone says less, and does no harm.
        return ExternalObserver(folders)


def _check_connection(kept: Kept) -> None:
    if kept.home_conn_id is None or is_local(kept.home):
        return
    found = connection_of(kept.home_conn_id, kept.dag.team).conn_type
    if found != StreamHomeHook.conn_type:
        raise HomeNotAllowed(
            f"Connection {kept.home_conn_id!r} is of type {found!r}. The API server reads checkpoints "
            f"with connections of type {StreamHomeHook.conn_type!r} only."
        )


@dataclass(slots=True)
class ExternalWatch:
    """
    Looks at one external stream again and again.

    :param observer: Remembers what only a listener can know.
    """

    kept: Kept
    observer: ExternalObserver

    def row(self, now: datetime) -> dict[str, Any]:
        return self._row(self.observer.snapshot(), now)

    def whole(self, now: datetime) -> dict[str, Any]:
        """Return what its own page shows of it."""
        seen = self.observer.snapshot()
        return {
            **self._row(seen, now),
            "queries": [_query(query) for query in seen.queries[:_MOST_QUERIES]],
            "acts": [],
        }

    def _row(self, seen: StreamSnapshot, now: datetime) -> dict[str, Any]:
        verdict = seen.verdict
        level = level_of(verdict.state)
        marks = [query.watermark for query in seen.queries if query.watermark is not None]
        since = now - verdict.healthy_for if verdict.is_well and verdict.healthy_for else None
        committed = [query.committed_at for query in seen.queries if query.committed_at]
        return {
            "external": True,
            "title": external_title(self.kept.home),
            "lane": "",
            "state": verdict.state.value,
            "level": level.value,
            "rank": level.rank,
            "reason": quoted(verdict.reason, 600),
            "remedy": "",
            "since": told(since),
            "launcher": "external",
            "queries_total": len(seen.queries),
            "seen_at": told(max(committed, default=None)),
            "watermark_delay_s": max(0.0, (now - min(marks)) / timedelta(seconds=1))
            if marks
            else None,
        }


def _query(query: QuerySnapshot) -> dict[str, Any]:
    return {
        "name": cut(query.name, 200),
        "batch": query.batch_id,
        "planned": query.planned_batch,
        "committed_at": told(query.committed_at),
        "watermark": told(query.watermark),
        "offsets": [cut(one, 300) for one in query.offsets[:20]],
    }
