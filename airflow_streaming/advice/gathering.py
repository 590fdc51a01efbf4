"""
Reads the doctor's input: the records of a stream, and the pinned settings of its checkpoints.

Of each query's checkpoint only the newest file of the offset log is read. Unreadable parts are
listed in the facts, and are not a risk by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Final

from airflow_streaming.advice.cost.request_cost import Prices
from airflow_streaming.advice.cost.restart_forecast import MOST, Restart
from airflow_streaming.advice.examined import BackupPlace, Facts, OtherStream, pinned_conf
from airflow_streaming.advice.state_size import stored_bytes
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.names import is_lane
from airflow_streaming.model.progress import BatchProgress, moment
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.model.uris import to_fsspec
from airflow_streaming.storage.fsspec_store import open_store
from airflow_streaming.storage.known_stores import MARK, absence, known_stores
from airflow_streaming.storage.one_look import look_at_each

EPOCHS: Final = 5
"""How many epochs to look back for a status and for figures."""
BATCHES: Final = 500
RESTARTS: Final = MOST
LEAST_BATCHES: Final = 4
"""Batches of an epoch of which the first one can be told from the usual."""


def gather(
    home: Home, stream: StreamHome, cores: int | None, prices: Prices | None = None
) -> Facts:
    """
    Read the facts about a stream that has a deployment.

    :param cores: Cores of all executors, where the user gives them.
    :param prices: Prices of requests, likewise.
    :raises StreamingError: the stream's own records cannot be read.
    """
    deployment = stream.newest_deployment()
    if deployment is None:
        raise StreamingError(f"Stream {stream.name!r} has no deployment to examine.")
    unread: list[str] = []
    status = _last_status(stream)
    queries = status.queries if status is not None else ()
    return Facts(
        deployment=deployment,
        status=status,
        history=_history(stream),
        pinned=dict(_pinned(queries, unread)),
        others=tuple(_others(home, stream.name, unread)),
        stores=tuple(_stores(home, unread)),
        plans=_plans(stream, unread),
        script=_script(stream, deployment.number, unread),
        cores=cores,
        restarts=restarts_of(stream),
        home=home.store.uri,
        prices=prices,
        unread=tuple(unread),
    )


def _epochs(stream: StreamHome) -> Iterator[int]:
    yield from reversed(stream.epoch_numbers()[-EPOCHS:])


def _last_status(stream: StreamHome) -> Status | None:
    found = (stream.status(epoch) for epoch in _epochs(stream))
    return next((status for status in found if status is not None and status.queries), None)


def _history(stream: StreamHome) -> tuple[BatchProgress, ...]:
    batches: list[BatchProgress] = []
    for epoch in _epochs(stream):
        if len(batches) >= BATCHES:
            break
        batches = [*stream.read_progress(epoch, BATCHES - len(batches)), *batches]
    return tuple(batches)


def restarts_of(stream: StreamHome) -> tuple[Restart, ...]:
    """Return the newest restarts of a stream that came to a batch, oldest first."""
    numbers = stream.epoch_numbers()[-RESTARTS:]
    return tuple(one for number in numbers if (one := _restart(stream, number)) is not None)


def _restart(stream: StreamHome, number: int) -> Restart | None:
    with contextlib.suppress(StreamingError):
        epoch, chunks = stream.epoch(number), stream.progress_chunks(number)
        # The driver of a promoted standby had started long before.
        if epoch.promotes is not None or not chunks:
            return None
        batches, _ = stream.progress_rows(number, chunks[0])
        return restart_in(epoch.created_at, batches)
    return None


def restart_in(created_at: datetime, batches: Sequence[BatchProgress]) -> Restart | None:
    """
    Return the restart that the first batches of an epoch show; ``None`` where they do not.

    :param created_at: The record of the epoch.
    """
    if len(batches) < LEAST_BATCHES:
        return None
    first, later = batches[0], [one for one in batches[1:] if one.query == batches[0].query]
    begun = moment(first.at)
    if begun is None or not later or begun < created_at:
        return None
    return Restart(
        start_up=(begun - created_at).total_seconds(),
        first=first.duration_ms / 1000,
        usual=median(one.duration_ms for one in later) / 1000,
        state=float(stored_bytes(first)),
    )


def _pinned(
    queries: tuple[QueryStatus, ...], unread: list[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    for query in queries:
        try:
            conf = _newest_offsets(query.checkpoint)
        except StreamingError as err:
            unread.append(f"The checkpoint of query {query.name} cannot be read: {err}")
            continue
        if conf is not None:
            yield query.name, conf


def _newest_offsets(checkpoint: str) -> dict[str, str] | None:
    store = open_store(to_fsspec(checkpoint))
    newest = max((int(n) for n in store.names("offsets") if n.isdecimal()), default=None)
    data = None if newest is None else store.read(f"offsets/{newest}")
    return None if data is None else pinned_conf(data)


def _others(home: Home, own: str, unread: list[str]) -> Iterator[OtherStream]:
    def look(name: str) -> OtherStream | str | None:
        try:
            # No store of one look: it would list each stream's folder, and nothing is read twice.
            return _other(home.stream(name))
        except StreamingError as err:
            return f"Stream {name}, which may share a checkpoint, cannot be read: {err}"

    names = [name for name in filter(is_lane, home.store.names("")) if name != own]
    for found in look_at_each(home.store, look, names, may_fork=True):
        if isinstance(found, str):
            unread.append(found)
        elif found is not None:
            yield found


def _other(stream: StreamHome) -> OtherStream | None:
    deployment, status = stream.newest_deployment(), _last_status(stream)
    if deployment is None:
        return None
    return OtherStream(
        name=stream.name,
        folder=deployment.checkpoint,
        checkpoints=tuple(q.checkpoint for q in status.queries) if status else (),
    )


def _stores(home: Home, unread: list[str]) -> Iterator[BackupPlace]:
    try:
        known = known_stores(home.store)
    except StreamingError as err:
        unread.append(f"The backup stores of the home are not known: {err}")
        return
    for one in known:
        try:
            mark = open_store(to_fsspec(one.uri)).read(MARK)
        except StreamingError as err:
            unread.append(f"The backup store {one.uri} cannot be read: {err}")
            continue
        yield BackupPlace(uri=one.uri, absence=absence(one, mark))


def _plans(stream: StreamHome, unread: list[str]) -> tuple[QueryPlan, ...]:
    try:
        return tuple(stream.newest_plans(epochs=EPOCHS))
    except StreamingError as err:
        unread.append(f"The recorded plans cannot be read: {err}")
        return ()


def _script(stream: StreamHome, deployment: int, unread: list[str]) -> str | None:
    try:
        return stream.application(deployment).decode("utf-8", errors="replace")
    except StreamingError as err:
        unread.append(str(err))
        return None
