"""
The changes of a stream, how far an upgrade has come, and which query owns which checkpoint.

The terms of an upgrade are written before its change is begun, under a name that holds their
digest, which the change names: what a dead or slower task has left stands in nobody's way.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.change import Change, ChangeEnd, ChangeSort
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import is_path_part, is_sha256, numbered
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.terms import UpgradeTerms
from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.home.folder import StreamFolder

log: Final = logging.getLogger(__name__)

_IN_HAND: Final = frozenset({ChangeSort.UPGRADE, ChangeSort.CUTOVER})


class Changes(StreamFolder):
    """Read and record the changes of one stream's checkpoint."""

    def newest_change(self) -> Change | None:
        """Return the newest change, ended or not; ``None`` before the first."""
        return self._newest(Change, "changes")

    def changes(self) -> list[Change]:
        """Return all changes, oldest first."""
        return [self.change(number) for number in self._numbers("changes")]

    def change(self, number: int) -> Change:
        """
        Return one change.

        :raises RecordError: there is none of that number.
        """
        return self._numbered(Change, "changes", number)

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

    def open_upgrade(self) -> Change | None:
        """Return the upgrade that has not ended, if the unfinished change is one."""
        found = self.unfinished_change()
        return found if found is not None and found.what is ChangeSort.UPGRADE else None

    def change_in_hand(self) -> Change | None:
        """Return the upgrade or cutover that has not ended: nothing else is deployed meanwhile."""
        found = self.unfinished_change()
        return found if found is not None and found.what in _IN_HAND else None

    def keep_terms(self, terms: UpgradeTerms) -> str:
        """Keep the terms of an upgrade that is about to be begun; return their digest."""
        digest = terms.digest
        self._create_or_read(terms, self._terms(terms.change, digest), change=terms.change)
        return digest

    def terms(self, change: Change) -> UpgradeTerms:
        """
        Return the terms of an upgrade.

        :raises RecordError: they are missing, or not what the change was begun with.
        """
        path = self._terms(change.number, change.terms)
        found = self._read(UpgradeTerms, path, change=change.number, digest=change.terms)
        if found is None:
            raise RecordError(
                f"{self._shown(path)} is missing, so change {change.number} of stream "
                f"{self.name!r} cannot go on. Put the file back, or give the upgrade up."
            )
        return found

    def wish(self, change: Change) -> str:
        """Return the key of whoever asked for an upgrade; empty when its terms cannot be read."""
        try:
            return self.terms(change).key
        except RecordError as err:
            log.warning("Who asked for change %d is not known: %s", change.number, err)
            return ""

    def stages(self, number: int) -> dict[Stage, StageReached]:
        """Return the stages that an upgrade has reached; there is no record of ``BEGUN``."""
        names = frozenset(self.store.names(self._layout.change_file(number, "").rstrip("/")))
        found: dict[Stage, StageReached] = {}
        for file in dict.fromkeys(stage.file for stage in Stage):
            path = self._layout.change_file(number, file)
            reached = self._read(StageReached, path, change=number) if file in names else None
            if reached is not None:
                found[self._checked(reached, file, path)] = reached
        return found

    def reach(self, reached: StageReached) -> StageReached:
        """
        Record a stage; return the record that counts.

        Of stages that exclude each other the first one counts: look at ``stage`` of what comes
        back.
        """
        path = self._layout.change_file(reached.change, reached.stage.file)
        return self._create_or_read(reached, path, change=reached.change)

    def claims(self, deployment: int) -> list[QueryClaim]:
        """Return which queries own which checkpoints, as recorded under one deployment."""
        folder = f"{self._layout.folder('queries')}/{numbered(deployment)}"
        names = [name.removesuffix(".json") for name in self.store.names(folder)]
        return list(self._claims(deployment, [name for name in names if is_path_part(name)]))

    def add_claim(self, deployment: int, claim: QueryClaim) -> None:
        """Record which query owns a new checkpoint, unless a driver has said so already."""
        with contextlib.suppress(AlreadyExists):
            self.store.create(self._layout.claim(deployment, claim.query), claim.to_bytes())

    def _terms(self, number: int, digest: str) -> str:
        if not is_sha256(digest):
            raise RecordError(
                f"Change {number} of stream {self.name!r} names no terms. It is no upgrade, or its "
                "record was changed."
            )
        return self._layout.change_file(number, f"terms-{digest[:16]}.json")

    def _checked(self, reached: StageReached, file: str, path: str) -> Stage:
        if reached.stage.file != file:
            raise RecordError(
                f"{self._shown(path)} is not what its name says: it tells of stage "
                f"{reached.stage.value!r}. Move the file out of the home."
            )
        return reached.stage

    def _claims(self, deployment: int, names: list[str]) -> Iterator[QueryClaim]:
        for name in names:
            path = self._layout.claim(deployment, name)
            claim = self._read(QueryClaim, path, query=name)
            if claim is not None:
                yield claim
