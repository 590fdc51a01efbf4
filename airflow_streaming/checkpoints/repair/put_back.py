"""Moves the batch of a repair back into its file sink: on a user's undo, or after a late commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES
from airflow_streaming.checkpoints.repair.sink_position import newest_commit
from airflow_streaming.checkpoints.restore.sink_log import (
    batch_of_entry,
    files_of,
    newest_batch,
    path_in_output,
)
from airflow_streaming.checkpoints.restore.sink_output import names_in, open_output
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.repair import (
    RepairOutcome,
    SinkRepair,
    SinkRepairEnd,
    SinkRepairUndoEnd,
)
from airflow_streaming.storage.folders import open_folders

COMPACT: Final = ".compact"


class PutBack:
    """Moves the batch of a repair back into its sink."""

    def __init__(self, repair: SinkRepair, options: Mapping[str, Any] | None = None) -> None:
        self._repair, self._options = repair, options
        self._output = open_output(repair.output, options)
        self._aside = repair.aside.removeprefix(repair.output.rstrip("/")).lstrip("/")

    def check(self) -> None:
        """
        Do nothing when the batch can be moved back, or lies there already.

        :raises CheckpointRefused: the batch was written or committed anew since.
        :raises HomeUnavailable: the sink or the checkpoint cannot be reached.
        """
        batch, entries = self._repair.batch, self._entries()
        found = newest_batch(names_in(self._output.folders, SINK_LOG))
        newest = -1 if found is None else found
        if (not entries and newest >= batch) or self._was_cut_off(entries):
            return
        if self._is_committed() or newest != batch - 1:
            raise CheckpointRefused(
                f"The sink of query {self._repair.query!r} ends at batch {newest}, and repair "
                f"{self._repair.number} can be undone while it ends at {batch - 1} and the batch is not "
                f"committed. The files of before stay in {self._repair.aside}. Nothing was changed."
            )

    @property
    def is_done(self) -> bool:
        """Tell whether nothing of the batch is left to move back."""
        return not self._entries()

    def run(self) -> None:
        """
        Move it back; again changes nothing.

        :raises CheckpointRefused: as ``check``.
        :raises HomeUnavailable: as ``check``.
        """
        self.check()
        self._move_back()

    def after_commit(self) -> bool:
        """
        Move the batch back where the checkpoint has committed it and the sink lacks it; tell whether it has.

        A driver that was executing the batch anew has written entries of its own, and they stay.

        :raises HomeUnavailable: as ``check``.
        """
        if not self._is_committed():
            return False
        entries = self._entries()
        names = names_in(self._output.folders, SINK_LOG)
        if not has_batch(names, self._repair.batch) or self._was_cut_off(entries):
            self._move_back()
        return True

    def _move_back(self) -> None:
        # The data first: a reader that meets the entry expects its files.
        for uri in files_of(self._entries(), f"{self._repair.aside}/log"):
            path = path_in_output(uri, self._output.uri)
            folder, _, name = path.rpartition("/")
            for one in (f"{folder}/.{name}.crc".lstrip("/"), path):
                self._output.move([(f"{self._aside}/data/{one}", one)])
        for name in names_in(self._output.folders, f"{self._aside}/log"):
            self._output.move([(f"{self._aside}/log/{name}", f"{SINK_LOG}/{name}")])

    def _is_committed(self) -> bool:
        folders = open_folders(self._repair.checkpoint, self._options)
        return newest_commit(folders) >= self._repair.batch

    def _was_cut_off(self, entries: Mapping[str, bytes]) -> bool:
        """Tell whether an entry was copied into the log and not yet deleted where it was moved from."""
        read = self._output.folders.read
        return any(
            read(f"{SINK_LOG}/{name}", MAX_SINK_LOG_BYTES) == data for name, data in entries.items()
        )

    def _entries(self) -> dict[str, bytes]:
        folders, place = self._output.folders, f"{self._aside}/log"
        names = [name for name in names_in(folders, place) if newest_batch([name]) is not None]
        return {name: folders.read(f"{place}/{name}", MAX_SINK_LOG_BYTES) or b"" for name in names}


def has_batch(names: Iterable[str], batch: int) -> bool:
    """Tell whether a sink's log has a batch: as an entry of its own, or in a later compacted one."""
    found = {name: number for name in names if (number := batch_of_entry(name)) is not None}
    return any(
        number == batch or (number > batch and name.endswith(COMPACT))
        for name, number in found.items()
    )


def finish_undo(
    home: StreamHome,
    repair: SinkRepair,
    options: Mapping[str, Any] | None = None,
    *,
    by: str,
    now: Callable[[], datetime],
) -> None:
    """
    Move the batch of a repair back that a user undoes, and record the end of repair and undo.

    :raises CheckpointRefused: see ``PutBack.check``; nothing is recorded.
    :raises HomeUnavailable: the sink or the checkpoint cannot be reached; nothing is recorded.
    """
    PutBack(repair, options).run()
    end_undo(home, repair, RepairOutcome.DONE, by=by, now=now)


def end_undo(
    home: StreamHome,
    repair: SinkRepair,
    outcome: RepairOutcome,
    *,
    by: str,
    now: Callable[[], datetime],
) -> None:
    """Record the end of an undo, and of a repair that has not ended."""
    abandoned = RepairOutcome.ABANDONED
    home.end_repair(SinkRepairEnd(number=repair.number, outcome=abandoned, by=by, at=now()))
    home.end_undo(SinkRepairUndoEnd(number=repair.number, outcome=outcome, by=by, at=now()))
