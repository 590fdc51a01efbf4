"""Which checkpoints and outputs of a stream are removed for good, as records."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder
from airflow_streaming.model.records.removal import Removal, RemovalEnd, RemovalKind
from airflow_streaming.model.uris import join


class Removals(StreamFolder):
    """Read and record the removals of one stream, or lane."""

    def removals(self) -> list[Removal]:
        """Return all removals, oldest first, those that have not ended included."""
        return [self._numbered(Removal, number) for number in self._numbers_of(Removal)]

    def removal_end(self, number: int) -> RemovalEnd | None:
        """Return how a removal ended, ``None`` while files of it may be left."""
        return self._get(RemovalEnd, number=number)

    def record_removal(self, removal: Removal) -> Removal:
        """
        Record a removal under the next number; return the one that counts for its folder.

        :param removal: Its number is not read.
        :raises HomeUnavailable: it could not be recorded; nothing may be removed.
        """
        for _ in range(APPEND_TRIES):
            known = self.removals()
            same = [one for one in known if (one.what, one.name) == (removal.what, removal.name)]
            if same:
                return same[0]
            number = known[-1].number + 1 if known else 1
            new = replace(removal, number=number)
            if self._create(new):
                return new
        raise self._never_first(Removal)

    def end_removal(self, end: RemovalEnd) -> RemovalEnd:
        """Record that nothing of a removal's folder is left; the first record counts."""
        return self._put(end)

    def removal_of(self, checkpoint: str) -> Removal | None:
        """
        Return the removal of a checkpoint, begun or done; ``None`` when it is not removed.

        :param checkpoint: URI of a deployment's checkpoint.
        """
        own = join(self.store.uri, self._layout.folder("checkpoints"))
        for removal in self.removals():
            is_it = checkpoint.rstrip("/") == join(own, removal.name)
            if removal.what is RemovalKind.CHECKPOINT and is_it:
                return removal
        return None
