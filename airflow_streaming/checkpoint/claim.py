"""
The claim on a place on an object store: markers in every folder, which hold the claimer's token.

Nothing on an object store can be held by a living process alone, so a claim may be taken over by
whoever writes the same. Whoever had it before finds another token, and has to leave the place alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from airflow_streaming.core.checkpoint.marker import COPY, RestoreMarker
from airflow_streaming.exceptions import AlreadyExists, RecordError, RestoreTaken
from airflow_streaming.files.store import Store

_GONE: Final = (
    "is no longer held by this attempt: another one for the same has taken it over or finished it. "
    "Nothing was removed. Look at what lies there before you ask again."
)


class Claim:
    """
    One attempt's claim on the folders that it is going to write.

    :param records: The place, as a store of records.
    :param source: What is going to be written.
    :param folders: The checkpoints' folders; the marker in the first of them is the claim proper.
    """

    def __init__(self, records: Store, source: str, folders: Sequence[str]) -> None:
        self._records = records
        self._record = RestoreMarker(
            source=source,
            folders=tuple(sorted(folders)),
            begun_at=datetime.now(UTC),
            token=uuid.uuid4().hex,
        )
        self.markers = [join_path(folder, RESTORE_MARKER) for folder in self._record.folders]

    def make(self, paths: Callable[[], list[str]]) -> bool:
        """
        Put the markers there; return whether nobody had begun before.

        :param paths: Lists the place; a new claim is only good on an empty one.
        :raises RestoreTaken: somebody else has it, or it is not empty.
        """
        is_new = self._mark(self.markers[0])
        try:
            for path in self.markers[1:]:
                self._mark(path)
            # A restore that was seen here may have been finished before the marker was made anew.
            if is_new and not set(paths()) <= set(self.markers):
                raise taken(self._records.uri)
        except RestoreTaken:
            # The claim on what another attempt has left stays: without it half of it is unmarked.
            if is_new:
                self.release()
            raise
        return is_new

    def check(self) -> None:
        """
        Make sure that the claim is still this one's.

        :raises RestoreTaken: it was taken over, or is gone.
        """
        if not self._is_held(self.markers[0]):
            raise RestoreTaken(f"{self._records.uri} {_GONE}")

    def release(self) -> None:
        """Remove the markers that are still this one's."""
        # The claim goes last: as long as it is there, what lies here is a restore of ours.
        for path in reversed(self.markers):
            if self._is_held(path):
                self._records.delete(path)

    def _mark(self, path: str) -> bool:
        try:
            self._records.create(path, self._record.to_bytes())
        except AlreadyExists as err:
            found = read_marker(self._records, path)
            if found is None or found.source != self._record.source:
                raise taken(self._records.uri, found.source if found else "") from err
            if found.token == self._record.token:
                # It was created, and only the answer to that was lost.
                return True
            self._records.replace(path, self._record.to_bytes())
            return False
        return True

    def _is_held(self, path: str) -> bool:
        try:
            found = read_marker(self._records, path)
        except RecordError:
            return False
        return found is not None and found.token == self._record.token


def read_marker(records: Store, path: str) -> RestoreMarker | None:
    """
    Return a marker, or ``None`` when there is none.

    :raises RecordError: it is none of ours.
    """
    data = records.read(path)
    return None if data is None else RestoreMarker.from_bytes(data)


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder; the folder may be the empty one."""
    return f"{folder}/{name}" if folder else name


def taken(uri: str, source: str = "") -> RestoreTaken:
    """
    Return the error for a place that somebody else has.

    :param source: What is being written there, as far as it is known.
    """
    if source.startswith(COPY):
        return RestoreTaken(
            f"{uri} is not empty: a clone or carry-over to there was not finished. If it was cut "
            f"off it cannot go on: delete the folder {uri}, or choose another place."
        )
    return RestoreTaken(
        f"{uri} is not empty: it holds something else, or another restore that was not finished. "
        "Choose a place that is missing or empty."
    )
