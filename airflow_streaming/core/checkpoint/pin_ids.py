"""
The ids that a chain of state goes by, read from the commit log as far down as it takes.

In state checkpoint format 2 a changelog names its own ancestors, but only one that is compressed
with LZ4 can be asked here. For any other codec every commit tells the ids that its batch left
behind, and the chain is followed from commit to commit, down to a snapshot or to the empty state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_streaming.core.checkpoint.journal import COMMITS, MOST_READ
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.logs import parse_commit_log
from airflow_streaming.core.checkpoint.state.chain import Chain, Missing, files_for
from airflow_streaming.core.checkpoint.state.names import StateForm
from airflow_streaming.core.checkpoint.state.stores import StateIds, StoreRef, ids_of
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.exceptions import RecordError

_WHOLE: Final = (StateForm.SNAPSHOT, StateForm.ZIP)


class ToldIds:
    """
    Ids of state by batch, to which older commits are added when somebody lacks them.

    :param commits: Ids of the newest commits, which were read already.
    """

    def __init__(self, listing: Listing, read: Read, commits: Mapping[int, StateIds]) -> None:
        self._listing, self._read = listing, read
        self._ids = dict(commits)
        self._is_ended = not any(commits.values())

    @property
    def oldest(self) -> int:
        """Return the oldest commit that was read."""
        return min(self._ids)

    def chain(self, ref: StoreRef, version: int) -> Chain | Missing:
        """
        Return the files that load a version of a store; see ``files_for``.

        :raises HomeUnavailable: the checkpoint cannot be read.
        """
        while True:
            ids = ids_of(ref, self._ids, self._listing)
            found = files_for(self._listing, self._read, ref, version, ids)
            if isinstance(found, Chain) or not _lacks_ids(found) or not self._went_back(ref):
                return found

    def _went_back(self, ref: StoreRef) -> bool:
        """Read on, down to a commit whose batch left a whole snapshot of the store behind."""
        before = self.oldest
        while self._read_one():
            if self._has_whole(ref, self.oldest):
                return True
        return self.oldest < before

    def _read_one(self) -> bool:
        batch = self.oldest - 1
        path = f"{COMMITS}/{batch}"
        if self._is_ended or len(self._ids) >= MOST_READ or self._listing.stat(path) is None:
            return False
        try:
            data = self._read(path, MAX_LOG_BYTES)
            ids = None if data is None else parse_commit_log(data).state_ids
        except RecordError:
            ids = None
        if ids is None:
            # Purged or damaged; what lies below it leads nowhere.
            self._is_ended = True
            return False
        self._ids[batch] = ids
        return True

    def _has_whole(self, ref: StoreRef, batch: int) -> bool:
        ids = ids_of(ref, {batch: self._ids[batch]}, self._listing) or {}
        unique_id = ids.get(batch + 1)
        names = self._listing.files(ref.folder)
        return any(f"{batch + 1}_{unique_id}.{form}" in names for form in _WHOLE)


def _lacks_ids(found: Missing) -> bool:
    # A file that is too large to be read is named; an id that nobody tells has no file.
    return found.is_unknown and found.path == found.store.folder
