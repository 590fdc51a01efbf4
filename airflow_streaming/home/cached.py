"""
A stream's records for repeated looks.

Nearly all files in a home are created once and never change, so a file that was read once is
cached. Of numbered records the next number is tried instead of listing their folder: on an object
store a listing costs twelve reads. A look at a stream at rest then costs one try for each kind of
record that people write, one listing of the epoch's folder, and the status.

The cache is bounded by its bytes, for one stream and for all streams of the process.

The cache is dropped when the home contradicts it (a folder that is suddenly empty is probably
unmounted), and every five minutes anyway. Missing files are never cached.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.byte_cache import ByteCache
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.alert import Alert
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import Record

FORGET_AFTER: Final = 300.0
"""Seconds. For files that are moved or deleted by hand, which should not happen but does."""
RARE: Final = (Deployment, Supervision, Change)
"""
Only a working task writes these records, so no trigger of its own waits for them; and a new
deployment leads to a new epoch. A look that misses a change only wakes a task in vain: the task
looks again itself.
"""
TRY_RARE_AFTER: Final = 60.0
"""Seconds between two tries for a newer record of a rare kind while the epoch stays the same."""
MOST_RECORDS: Final = 256
"""Of one stream. A look reads about ten, and one for each recorded alert."""
MOST_BYTES: Final = 1024 * 1024
"""Limit for the records of one stream: a hundred times the usual size."""
_RECORDS: Final[ByteCache[Record]] = ByteCache(48 * 1024 * 1024)
"""Records of all streams that this process watches."""
R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class _Known:
    """The numbers of one kind, and when a newer one was last tried for."""

    numbers: list[int]
    tried_at: float


class CachedStream(StreamHome):
    """
    Every record of one stream, each one read once.

    :param clock: Monotonic seconds.
    """

    def __init__(
        self, store: Store, name: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(store, name)
        self._clock = clock
        self._key = object()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._known: dict[str, _Known] = {}
        self._others: dict[str, CachedStream] = {}
        self._learning_since = clock()
        self._rare = frozenset(map(self._layout.folder, RARE))

    def beside(self, name: str) -> CachedStream:
        """Return another stream of the same home, whose records are read once too."""
        if name not in self._others:
            self._others[name] = CachedStream(self.store, name, clock=self._clock)
        return self._others[name]

    def forget(self) -> None:
        """Know nothing any more, so that the next look reads everything."""
        while self._sizes:
            self._forget_oldest()
        self._known.clear()
        self._learning_since = self._clock()

    def _file_names(self, epoch: int) -> frozenset[str]:
        names = super()._file_names(epoch)
        folder = self._layout.epoch(epoch, "")
        known = (path.removeprefix(folder) for path in self._sizes if path.startswith(folder))
        if not names.issuperset(known):
            self.forget()
            raise HomeUnavailable(
                f"{self._shown(folder)} lacks files that were there before. Perhaps the home is "
                "not mounted, or was restored. It is read anew."
            )
        return names

    def _read(self, cls: type[R], path: str, **fields: int | str) -> R | None:
        known = _RECORDS.get((self._key, path))
        if known is not None:
            return cast("R", known)
        data = self.store.read(path)
        if data is None:
            return None
        record = self._parsed(cls, path, data, **fields)
        # A status is the one record that is written again and again.
        if not isinstance(record, Status):
            self._keep(path, record, len(data))
        return record

    def newest_alerts(self) -> tuple[Alert, ...]:
        # Decoded alerts are in the cache; reading their files again would cost more.
        newest: dict[str, Alert] = {}
        for alert in self.alerts():
            newest.pop(alert.key, None)
            newest[alert.key] = alert
        return tuple(newest.values())

    def _keep(self, path: str, record: Record, size: int) -> None:
        self._sizes[path] = size
        _RECORDS.put((self._key, path), record, size)
        while len(self._sizes) > MOST_RECORDS or sum(self._sizes.values()) > MOST_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        path, _ = self._sizes.popitem(last=False)
        _RECORDS.drop((self._key, path))

    def _numbers(self, folder: str) -> list[int]:
        now = self._clock()
        if now - self._learning_since >= FORGET_AFTER:
            self.forget()
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = _Known(super()._numbers(folder), now)
        elif folder not in self._rare or now - known.tried_at >= TRY_RARE_AFTER:
            known.tried_at = now
            self._try_newer(folder, known.numbers)
        return list(known.numbers)

    def _try_newer(self, folder: str, numbers: list[int]) -> None:
        newest = numbers[-1] if numbers else 0
        while self.store.read(f"{folder}/{numbered(newest + 1)}.json") is not None:
            newest += 1
            numbers.append(newest)
            if folder == self._layout.folder(Epoch):
                for rare in self._rare & self._known.keys():
                    self._known[rare].tried_at = float("-inf")
