"""The changes of a stream's checkpoint, and which query owns which checkpoint meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow_streaming.core.change import Change, ChangeEnd
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import is_path_part, numbered
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.folder import StreamFolder


class Changes(StreamFolder):
    """Read and record the changes of one stream's checkpoint."""

    def newest_change(self) -> Change | None:
        """Return the newest change, ended or not; ``None`` before the first."""
        return self._newest(Change, "changes")

    def changes(self) -> list[Change]:
        """Return all changes, oldest first."""
        return [self._numbered(Change, "changes", number) for number in self._numbers("changes")]

    def change_end(self, number: int) -> ChangeEnd | None:
        """Return how a change ended, ``None`` while it has not."""
        return self._read(ChangeEnd, self._layout.change_end(number), number=number)

    def unfinished_change(self) -> Change | None:
        """Return the change that has not ended; there is never more than one."""
        newest = self.newest_change()
        return None if newest is None or self.change_end(newest.number) else newest

    def next_change(self) -> int:
        """Return the number that the next change will have."""
        return max(self._numbers("changes"), default=0) + 1

    def begin_change(self, change: Change) -> None:
        """
        Record what is about to be done.

        :raises AlreadyExists: another change was begun first.
        """
        self.store.create(self._layout.record("changes", change.number), change.to_bytes())

    def end_change(self, end: ChangeEnd) -> ChangeEnd:
        """Record how a change ended; return the end that was recorded first."""
        return self._create_or_read(end, self._layout.change_end(end.number), number=end.number)

    def claims(self, deployment: int) -> list[QueryClaim]:
        """Return which queries own which checkpoints, as recorded under one deployment."""
        folder = f"{self._layout.folder('queries')}/{numbered(deployment)}"
        names = [name.removesuffix(".json") for name in self.store.names(folder)]
        return list(self._claims(deployment, [name for name in names if is_path_part(name)]))

    def add_claim(self, deployment: int, claim: QueryClaim) -> None:
        """Record which query owns a new checkpoint, unless a driver has said so already."""
        with contextlib.suppress(AlreadyExists):
            self.store.create(self._layout.claim(deployment, claim.query), claim.to_bytes())

    def _claims(self, deployment: int, names: list[str]) -> Iterator[QueryClaim]:
        for name in names:
            path = self._layout.claim(deployment, name)
            claim = self._read(QueryClaim, path, query=name)
            if claim is not None:
                yield claim
