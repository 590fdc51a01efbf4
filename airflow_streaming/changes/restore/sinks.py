"""
Rewind the file sinks of a stream together with its checkpoint.

Spark skips a batch that is in a file sink's log: it neither writes its rows nor updates its state.
So a query that goes back and writes to the same folder needs a sink that goes back too. Later
output is moved aside, not deleted (``checkpoints.restore.sink_rewind``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.checkpoints.backup.recorded_sinks import known_logs, known_sinks
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.checkpoints.repair.sink_position import other_writers
from airflow_streaming.checkpoints.restore.file_sink_rewind import RewindPlan
from airflow_streaming.checkpoints.restore.replay import Refusal
from airflow_streaming.checkpoints.restore.sink_output import look_at_sink
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.restore.sink_step import refusal_of, step_of, unseen_refusal
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SinkFacts, without_facts
from airflow_streaming.model.uris import join
from airflow_streaming.storage.folders import open_folders

Options = Mapping[str, Any] | None
BY_HAND: Final = (
    "Nothing was changed. Take the batches after the backup out of the output by hand, or let the "
    "stream write to a new folder."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSinks:
    """
    The file sinks of one restore.

    :param replaced: The deployment that wrote to them.
    :param options: Passed to fsspec for remote checkpoints and outputs.
    """

    home: StreamHome
    store: BackupStore
    backup: Backup
    replaced: Deployment
    options: Options = None

    def plan(self, change: int) -> list[RewindPlan]:
        """
        Plan the rewind; writes no files.

        :param change: Number of the change, which names the folder for moved files.
        :raises CheckpointRefused: The outputs of a query are unknown, the log belongs to another
            sink, or another process writes to it.
        """
        sinks = self._facts()
        return self._rewind().plan(self.store, self.backup, change, sinks, self._newest(sinks))

    def run(self, change: int, is_needed: Callable[[], bool]) -> list[RewindPlan]:
        """
        Put them back; asking again continues, and changes nothing after the end.

        The driver must be proved gone meanwhile.

        :param is_needed: Asked before every step that takes something away.
        :raises CheckpointRefused: as ``plan``.
        :raises RestoreTaken: another task has finished it.
        """
        sinks = self._facts()
        newest = self._newest(sinks)
        return self._rewind().run(
            self.store, self.backup, change, sinks, newest, is_needed=is_needed
        )

    def _rewind(self) -> SinkRewind:
        return SinkRewind(storage_options=self.options)

    def _facts(self) -> tuple[SinkFacts, ...]:
        sinks = known_sinks(self.home, self.replaced)
        unknown = without_facts([query.folder for query in self.backup.queries], sinks)
        if unknown:
            raise CheckpointRefused(
                f"No driver of stream {self.home.name!r} has recorded what query "
                f"{', '.join(map(repr, unknown))} writes to, so its sink cannot be rewound. {BY_HAND}"
            )
        self._check_unshared(sinks)
        return sinks

    def _check_unshared(self, sinks: tuple[SinkFacts, ...]) -> None:
        files = [one for one in sinks if one.habit is SinkReplaySemantics.FILE_LOG]
        for facts in files:
            writers = other_writers(self.home, files, facts.query, facts.target)
            if writers:
                raise CheckpointRefused(
                    f"The folder {facts.target} of query {facts.query!r} is also used by "
                    f"{' and '.join(writers)}. All share one log, so a rewind of one would take "
                    f"the others' batches. {BY_HAND}"
                )

    def _newest(self, sinks: tuple[SinkFacts, ...]) -> dict[str, int | None]:
        places = {facts.query: join(self.replaced.checkpoint, facts.query) for facts in sinks}
        return newest_planned(places, self.options)


def of_sinks(
    home: StreamHome, writer: Deployment, checkpoint: str, options: Options
) -> list[Refusal]:
    """
    Say which file sinks of a stream do not fit checkpoints that its queries would continue from.

    :param writer: The deployment that wrote to the sinks last.
    """
    found = []
    for query, log in sorted(known_logs(home, writer).items()):
        report = inspected(join(checkpoint, query), options)
        if report is None or report.last_committed_batch is None:
            continue
        seen = look_at_sink(log, options)
        step = step_of(report, seen.newest)
        if seen.unseen:
            found.append(unseen_refusal(query, seen))
        if step is not None:
            found.append(refusal_of(query, report.last_committed_batch, step, seen.aside))
    return found


def newest_planned(places: Mapping[str, str], options: Options) -> dict[str, int | None]:
    """
    Return the newest planned batch of each query.

    :param places: URI of each query's checkpoint, by its name; an unreadable one gives ``None``.
    """
    found = {query: inspected(uri, options) for query, uri in places.items()}
    return {query: one.last_planned_batch if one else None for query, one in found.items()}


def inspected(uri: str, options: Options) -> Checkpoint | None:
    """Read a checkpoint by its file names; ``None`` if unreadable."""
    if not uri:
        return None
    try:
        return Reader(open_folders(uri, options)).inspect(contents=False)
    except CheckpointError:
        return None


def rewound_words(plan: RewindPlan) -> str:
    """Return what putting one sink back does, in a sentence."""
    if not plan.batches:
        return f"The file sink of query {plan.query!r} has nothing after batch {plan.batch}."
    return (
        f"The file sink of query {plan.query!r} is put back to batch {plan.batch}: {plan.files} files of "
        f"batches {plan.batches[0]} to {plan.batches[-1]} are moved to {plan.aside}."
    )
