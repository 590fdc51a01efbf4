"""
Putting the sinks of a stream back in step with checkpoints that were rewound.

A sink that knows more batches than the checkpoint passes over the next ones, and loses their rows
silently. A file sink can be put back by us: entries of its log and data files of batches after
the boundary are moved aside, to ``<output>/_rolled_back/<change>-<backup>/``. Any other sink is its
author's, who may give a function for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES
from airflow_streaming.checkpoints.restore.file_sink_rewind import (
    ADVICE,
    Boundary,
    FileSinkRewind,
    RewindPlan,
)
from airflow_streaming.checkpoints.restore.sink_output import open_output
from airflow_streaming.checkpoints.vault.contents import Contents, Verified
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointRefused, StreamingError
from airflow_streaming.model.arguments.calls import run
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.rewinding import AuthorsRewind, Rewinding
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.spark.plan import KAFKA
from airflow_streaming.model.uris import is_same_place, join

log: Final = logging.getLogger(__name__)


class SinkRewind:
    """
    Rewinds the sinks of one stream to a backup.

    The caller must have proved that its driver is gone.

    :param author: Takes batches back out of every sink other than files and Kafka.
    :param storage_options: Passed to fsspec for remote outputs.
    """

    def __init__(
        self,
        author: AuthorsRewind | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
    ) -> None:
        self._author = author
        self._storage_options, self._filesystem = storage_options, filesystem

    def plan(
        self,
        store: BackupStore,
        backup: Backup,
        change: int,
        sinks: Sequence[SinkFacts],
        newest: Mapping[str, int | None],
    ) -> list[RewindPlan]:
        """
        Return the effects of ``run`` on the file sinks.

        :raises CheckpointRefused: As ``run``.
        """
        return [rewind.plan() for rewind in self._files(store, backup, change, sinks, newest)]

    def run(
        self,
        store: BackupStore,
        backup: Backup,
        change: int,
        sinks: Sequence[SinkFacts],
        newest: Mapping[str, int | None],
        *,
        is_needed: Callable[[], bool] = lambda: True,
    ) -> list[RewindPlan]:
        """
        Rewind the sinks; a second call continues, and changes nothing after the end.

        :param change: Number of the change, which names the folder for moved files.
        :param newest: The newest batch that each query's present checkpoint has planned.
        :param is_needed: Called before every removing step; stops the rewind when it returns false.
        :raises CheckpointRefused: The log belongs to another sink, or another process writes to it,
            and no sink was changed; or the author's function failed.
        """
        files = list(self._files(store, backup, change, sinks, newest))
        for rewind in files:
            # All are judged before the first is touched.
            rewind.plan()
        done = [rewind.run(is_needed) for rewind in files]
        for asked in self._asking(backup, change, sinks, newest):
            if is_needed():
                self._ask(asked)
            done.append(_planned(asked))
        return done

    def _files(
        self,
        store: BackupStore,
        backup: Backup,
        change: int,
        sinks: Sequence[SinkFacts],
        newest: Mapping[str, int | None],
    ) -> Iterator[FileSinkRewind]:
        reading = Verified(store, backup)
        for facts in sinks:
            if facts.habit is not SinkReplaySemantics.FILE_LOG:
                continue
            query = _query(backup, facts.query)
            boundary = Boundary(
                stream=backup.stream,
                query=facts.query,
                change=change,
                backup=backup.id,
                batch=-1 if query is None else query.batch,
                planned=newest.get(facts.query),
                kept=None if query is None else _kept(query, facts, reading, backup),
                since=backup.begun_at,
            )
            output = open_output(facts.target, self._storage_options, self._filesystem)
            yield FileSinkRewind(output, boundary)

    def _asking(
        self,
        backup: Backup,
        change: int,
        sinks: Sequence[SinkFacts],
        newest: Mapping[str, int | None],
    ) -> Iterator[Rewinding]:
        for facts in sinks if self._author is not None else ():
            if (
                facts.habit in (SinkReplaySemantics.FILE_LOG, SinkReplaySemantics.NOTHING)
                or facts.sink == KAFKA
            ):
                continue
            query = _query(backup, facts.query)
            yield Rewinding(
                stream=backup.stream,
                query=facts.query,
                change=change,
                batch=-1 if query is None else query.batch,
                newest=newest.get(facts.query),
                sink=facts.sink,
                target=facts.target,
            )

    def _ask(self, rewinding: Rewinding) -> None:
        if self._author is None:
            return
        try:
            run(self._author, rewinding)
        except StreamingError:
            raise
        except Exception as err:
            # The author's code: any error means that the sink is not rewound.
            raise CheckpointRefused(
                f"The function that takes batches after {rewinding.batch} out of the sink of query "
                f"{rewinding.query!r} failed: {err} ({type(err).__name__}). The stream stays stopped. "
                "Fix the function or the sink, and ask again for the same to continue."
            ) from err
        log.info("Query %s: its sink was put back to batch %s.", rewinding.query, rewinding.batch)


def _planned(rewinding: Rewinding) -> RewindPlan:
    newest = rewinding.batch if rewinding.newest is None else rewinding.newest
    return RewindPlan(
        query=rewinding.query,
        output=rewinding.target or rewinding.sink,
        batch=rewinding.batch,
        batches=tuple(range(rewinding.batch + 1, newest + 1)),
    )


def _query(backup: Backup, name: str) -> QueryBackup | None:
    named = next((query for query in backup.queries if query.folder == name), None)
    # A backup of a single checkpoint has no name for its query.
    is_nameless = [query.folder for query in backup.queries] == [""]
    return backup.queries[0] if named is None and is_nameless else named


def _kept(
    query: QueryBackup, facts: SinkFacts, reading: Verified, backup: Backup
) -> dict[str, bytes]:
    if not query.sink_log or not is_same_place(query.sink_log, join(facts.target, SINK_LOG)):
        raise CheckpointRefused(
            f"Backup {backup.id} has not the sink's log of query {facts.query!r}, which writes to "
            f"{facts.target}: it has {query.sink_log or 'none'}. {ADVICE}"
        )
    contents = reading.contents(query.folder)
    return dict(_entries(contents))


def _entries(contents: Contents) -> Iterator[tuple[str, bytes]]:
    prefix = f"{SINK_LOG}/"
    for path in sorted(contents.members):
        if path.startswith(prefix):
            data = contents.read(path, MAX_SINK_LOG_BYTES)
            if data is not None:
                yield path.removeprefix(prefix), data
