"""The repairs of a stream's file sinks, as records."""

from __future__ import annotations

from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.model.records.repair import (
    SinkRepair,
    SinkRepairEnd,
    SinkRepairUndo,
    SinkRepairUndoEnd,
)


class Repairs(StreamFolder):
    """Read and record the repairs of one stream's file sinks."""

    def repairs(self) -> list[SinkRepair]:
        """Return all repairs, oldest first."""
        return [self._numbered(SinkRepair, number) for number in self._numbers_of(SinkRepair)]

    def next_repair(self) -> int:
        return max(self._numbers_of(SinkRepair), default=0) + 1

    def begin_repair(self, repair: SinkRepair) -> bool:
        """Record a repair that is about to be made; tell whether its number was free."""
        return self._create(repair)

    def repair_end(self, number: int) -> SinkRepairEnd | None:
        """Return how a repair ended, ``None`` while it has not."""
        return self._get(SinkRepairEnd, number=number)

    def end_repair(self, end: SinkRepairEnd) -> SinkRepairEnd:
        """Record how a repair ended; return the end that was recorded first."""
        return self._put(end)

    def repair_undo(self, number: int) -> SinkRepairUndo | None:
        """Return the undo of a repair, ``None`` before one."""
        return self._get(SinkRepairUndo, number=number)

    def undo_repair(self, undo: SinkRepairUndo) -> SinkRepairUndo:
        """Record that a repair is undone; return the record that counts."""
        return self._put(undo)

    def undo_end(self, number: int) -> SinkRepairUndoEnd | None:
        """Return how the undo of a repair ended, ``None`` while it has not."""
        return self._get(SinkRepairUndoEnd, number=number)

    def end_undo(self, end: SinkRepairUndoEnd) -> SinkRepairUndoEnd:
        """Record how an undo ended; return the end that was recorded first."""
        return self._put(end)

    def unfinished_undos(self) -> list[SinkRepair]:
        """Return the repairs with an undo that was begun and has not ended, oldest first."""
        return [
            one
            for one in self.repairs()
            if self.repair_undo(one.number) is not None and self.undo_end(one.number) is None
        ]

    def unfinished_repairs(self) -> list[SinkRepair]:
        """Return the repairs that were begun and have not ended, oldest first."""
        return [one for one in self.repairs() if self.repair_end(one.number) is None]

    def undone_batches(self, query: str, checkpoint: str) -> frozenset[int]:
        """Return the batches of a query that a user has put back into its sink."""
        return frozenset(
            one.batch
            for one in self.repairs()
            if (one.query, one.checkpoint) == (query, checkpoint)
            and self.repair_undo(one.number) is not None
        )
