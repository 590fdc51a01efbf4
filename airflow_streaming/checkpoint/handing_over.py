"""
Handing over: from blue's checkpoint to green's, at one batch boundary.

Blue's checkpoint is only ever read. In green's, whose driver waits at the barrier, at most the next
batch is planned: its sources' logs first, its plan last, so that whoever is killed leaves a
checkpoint from which the same is done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_streaming.checkpoint.apart import check_apart
from airflow_streaming.checkpoint.begun import check_empty_but_for, id_in
from airflow_streaming.checkpoint.clone import carried_files
from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.query_view import read_view
from airflow_streaming.checkpoint.writing import LATE, read_back
from airflow_streaming.core.checkpoint.sources import MAX_SOURCE_LOG_BYTES
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.cutover.handover.absorbing import (
    Absorption,
    NotThere,
    plan_absorption,
    plan_planned,
)
from airflow_streaming.core.cutover.handover.file_log import DEFAULT_INTERVAL
from airflow_streaming.core.cutover.handover.position import Position
from airflow_streaming.exceptions import AlreadyExists, CheckpointBusy, CheckpointRefused
from airflow_streaming.files.store import Store
from airflow_streaming.home.opening import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """
    What has to be done for one query before green may be released.

    Done in this order, looking again after each: while ``absorb`` is given, write it and have it
    run with its output thrown away; then, with blue drained, write ``planned``; then release.

    :param blue: Where blue is, by its newest committed batch; ``green`` likewise.
    :param absorb: The batch of green that is to be run next with its output thrown away; ``None``
        when green stands where blue stands.
    :param planned: What blue has planned and not committed, as green's next batch: its output
        counts. Given only when nothing has to be absorbed. Also given, without any rows, when blue
        has learnt a later watermark with its last batch.
    :param planned_in_blue: Blue's own number of it; ``None`` when it has planned nothing.
    :param waiting: Why blue has to come further first; empty when it has.
    """

    blue: Position
    green: Position
    absorb: Absorption | None = None
    planned: Absorption | None = None
    planned_in_blue: int | None = None
    waiting: str = ""


def absorb_plan(
    blue_uri: str,
    green_uri: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    compact_interval: int = DEFAULT_INTERVAL,
) -> HandOver:
    """
    Say what has to be done in green's checkpoint; both are only read.

    :param blue_uri: One query's checkpoint of the lane that hands over; it may be running.
    :param green_uri: The same query's of the other lane; nobody may be running it.
    :param compact_interval: ``spark.sql.streaming.fileSource.log.compactInterval`` of green.
    :raises CheckpointRefused: green can never stand where blue stands: other sources, or sources
        whose positions cannot be compared.
    :raises CheckpointBusy: blue changed under every attempt to read it.
    :raises HomeUnavailable: a store cannot be reached.
    """
    green = read_view(
        open_folders(green_uri, storage_options, filesystem), interval=compact_interval
    )
    blue = read_view(open_folders(blue_uri, storage_options, filesystem))
    found = plan_absorption(green, blue)
    return HandOver(
        blue=blue.position,
        green=green.position,
        absorb=found if isinstance(found, Absorption) else None,
        planned=plan_planned(green, blue) if found is None else None,
        planned_in_blue=blue.planned.batch if blue.planned else None,
        waiting=found.reason if isinstance(found, NotThere) else "",
    )


def write_plan(
    green_uri: str,
    plan: Absorption,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> None:
    """
    Write a planned batch into green's checkpoint; again does the same.

    Somebody else may be at the same with an older or newer look at blue. So nothing is written over
    what is there, and nothing is taken away once a plan is made.

    :raises CheckpointRefused: another plan of that number is there.
    :raises CheckpointBusy: somebody else plans it at the same time; look again.
    :raises HomeUnavailable: the store cannot be reached.
    """
    if plan.written:
        folders = open_folders(green_uri, storage_options, filesystem)
        _Writing(plan, folders, open_store(green_uri, storage_options, filesystem)).run()


class _Writing:
    def __init__(self, plan: Absorption, folders: Folders, store: Store) -> None:
        self._plan, self._folders, self._store = plan, folders, store
        *self._logs, self._last = plan.written

    def run(self) -> None:
        self._clear()
        for path in self._plan.written:
            if self._is_made():
                break
            # Hadoop would compare what is new with its checksum of what was there.
            self._store.delete(_checksum(path))
            self._create(path)
        self._is_made()
        for path in self._logs:
            self._check(path)

    def _clear(self) -> None:
        for path in self._plan.removed:
            is_wanted = self._read(path) == self._plan.written.get(path, b"")
            if self._is_made():
                return
            if not is_wanted:
                self._store.delete(_checksum(path))
                self._store.delete(path)

    def _is_made(self) -> bool:
        there = self._folders.read(self._last, MAX_LOG_BYTES)
        if there is None:
            return False
        if there == self._plan.written[self._last]:
            return True
        raise CheckpointRefused(
            f"{self._last} of {self._folders.uri} was planned otherwise meanwhile. Look again, and "
            "go on from what is there."
        )

    def _create(self, path: str) -> None:
        try:
            self._store.create(path, self._plan.written[path])
        except AlreadyExists:
            if path != self._last:
                self._check(path)

    def _check(self, path: str) -> None:
        if self._read(path) != self._plan.written[path]:
            raise CheckpointBusy(
                f"{path} of {self._folders.uri} was written otherwise by somebody else meanwhile. "
                "Look again, and go on from what is there."
            )

    def _read(self, path: str) -> bytes | None:
        return self._folders.read(path, MAX_SOURCE_LOG_BYTES)


def _checksum(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def carry(
    blue_uri: str,
    green_uri: str,
    *,
    query_id: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> int:
    """
    Make green's checkpoint of a query without state from that of a drained blue.

    Numbers of batches stay, and so does a batch that blue has planned. What an attempt that was
    killed has left is made whole; what is whole is left as it is.

    :param query_id: Green's, the same in every attempt.
    :return: The newest batch that blue has committed.
    :raises CheckpointRefused: the query has state, or something else lies there.
    :raises HomeUnavailable: a store cannot be reached.
    """
    check_apart(blue_uri, green_uri, other="new checkpoint")
    source = open_folders(blue_uri, storage_options, filesystem)
    target = open_folders(green_uri, storage_options, filesystem)
    store = open_store(green_uri, storage_options, filesystem)
    # Whoever asks for a handover has looked at the plan of the query: it keeps no state.
    plan, files = carried_files(source, query_id, stateless=True)
    if id_in(target) == query_id:
        _check_same_batch(target, blue_uri, plan.batch)
        return plan.batch
    check_empty_but_for(target, files)
    late = [path for stage in LATE for path in sorted(files) if path.startswith(stage)]
    there = target.tree()
    for path in (*(path for path in files if not path.startswith(LATE)), *late):
        data, stat = files[path], there.stat(path) if there else None
        # Whoever follows one that was killed goes on where that one was.
        if stat is None or stat.size != len(data) or target.read(path, stat.size) != data:
            store.replace(path, data)
    read_back(target, green_uri, batch=plan.batch, query_id=query_id)
    return plan.batch


def _check_same_batch(target: Folders, blue_uri: str, batch: int) -> None:
    there = read_view(target).committed
    if there is None or there.batch < batch:
        raise CheckpointRefused(
            f"{target.uri} was made of {blue_uri} before that came to batch {batch}: what it has "
            "written since would be written again. Choose a new place for the checkpoint."
        )


def batch_shift(*, blue_batch: int, green_batch: int, blue_shift: int = 0) -> int:
    """
    Return what is to be added to green's batch ids so that they go on from blue's.

    :param blue_batch: Blue's newest committed batch; its sink has seen ``blue_batch + blue_shift``.
    :param green_batch: Green's newest committed batch after absorbing; its output is not the sink's.
    :param blue_shift: What is added to blue's own ids, see ``QueryClaim.batch_shift``.
    """
    return blue_batch + blue_shift - green_batch
