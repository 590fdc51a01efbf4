"""
The folder of one stream: records of a known kind, read and written by number.

The codec checks every record that is read. ``Layout.check`` then compares it with the folder and the
file that it was read from, so that no copied, renamed or forged file passes for another stream's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Self, TypeVar, cast

from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    RecordError,
    RecordFormatError,
)
from airflow_streaming.model.names import Layout, is_absurd, number_of, place_fields
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import join
from airflow_streaming.model.wire import Record

log: Final = logging.getLogger(__name__)
R = TypeVar("R", bound=Record)
Stored = tuple[Record, Mapping[str, object]]
_KEPT: Final = frozenset({"cutover_terms", "cutover_transition", "live", "upgrade_transition"})
"""
Records that are never written a second time: later records are right only with the original
content.
"""
APPEND_TRIES: Final = 100
"""Every lost try means that another writer got one record in; a hundred in a row is a fault."""
_SMALL: Final = 8 * 1024
"""Bytes. Larger than nearly every record that is created once."""


class StreamFolder:
    """
    Typed access to the files of one stream.

    :raises SpecError: the name cannot be a folder.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._layout = Layout(name)

    def beside(self, name: str) -> Self:
        """Return the records of another stream, or lane, of the same home."""
        return type(self)(self.store, name)

    def _read(self, cls: type[R], path: str, **fields: int | str) -> R | None:
        data = self.store.read(path)
        return None if data is None else self._parsed(cls, path, data, **fields)

    def _parsed(self, cls: type[R], path: str, data: bytes, **fields: int | str) -> R:
        try:
            record, beside = _record(cls, data)
        except RecordError as err:
            raise type(err)(
                f"{self._shown(path)} cannot be read: {err}{self._what_to_do(cls, err)}"
            ) from err
        try:
            self._layout.check(record, beside, **fields)
        except RecordError as err:
            raise RecordError(f"{self._shown(path)} is not what its name says: {err}") from None
        return record

    def _get(self, cls: type[R], **fields: int | str) -> R | None:
        """
        Return the record at a place of the catalog, if it exists.

        :param fields: The fields of its place.
        :raises RecordError: it is malformed, or of another stream, number or name.
        """
        return self._read(cls, self._layout.place(cls, **fields), **fields)

    def _create(self, record: Record, **beside: int | str) -> bool:
        """
        Create a record in its place; tell whether none was there.

        :param beside: Fields of the place that the record does not have.
        """
        try:
            self.store.create(
                self._place(record, **beside), self._layout.bytes_of(record, **beside)
            )
        except AlreadyExists:
            return False
        return True

    def _put(self, record: R, **beside: int | str) -> R:
        """Create the record; return it, or the record that was created first."""
        if self._create(record, **beside):
            return record
        fields = self._fields(record, **beside)
        first = self._get(type(record), **fields)
        if first is None:
            path = self._place(record, **beside)
            raise HomeUnavailable(f"{self._shown(path)} exists and cannot be read.")
        return first

    def _place(self, record: Record, **beside: int | str) -> str:
        return self._layout.place(type(record), **self._fields(record, **beside))

    @staticmethod
    def _fields(record: Record, **beside: int | str) -> dict[str, int | str]:
        names = place_fields(record.KIND)
        return {name: beside[name] if name in beside else getattr(record, name) for name in names}

    def _numbers(self, folder: str) -> list[int]:
        numbers = []
        for name in self.store.names(folder):
            number = number_of(name)
            if number is not None:
                numbers.append(number)
            elif is_absurd(name):
                log.warning(
                    "%s was not written by this provider, whose numbers are smaller; it is not read. "
                    "Find out who wrote it, and move it out of the home.",
                    self._shown(f"{folder}/{name}"),
                )
        return sorted(numbers)

    def _numbers_of(self, cls: type[Record], **fields: int) -> list[int]:
        """Return the numbers of all records of a kind, in order."""
        return self._numbers(self._layout.folder(cls, **fields))

    def _numbered(self, cls: type[R], number: int) -> R:
        """
        Return one numbered record.

        :raises RecordError: this number does not exist.
        """
        record = self._get(cls, number=number)
        if record is None:
            path = self._layout.place(cls, number=number)
            raise RecordError(f"{self._shown(path)} does not exist.")
        return record

    def _newest(self, cls: type[R]) -> R | None:
        numbers = self._numbers_of(cls)
        return self._numbered(cls, numbers[-1]) if numbers else None

    def _append(self, cls: type[R], change: Callable[[R | None, int], R | None]) -> R | None:
        """
        Append the record that ``change`` makes of the newest one and the next number.

        A task that loses the number reads again, so ``change`` always judges the newest record.

        :returns: The newest record; the one found when ``change`` returned ``None``.
        """
        for _ in range(APPEND_TRIES):
            numbers = self._numbers_of(cls)
            number = numbers[-1] + 1 if numbers else 1
            newest = self._numbered(cls, number - 1) if numbers else None
            record = change(newest, number)
            if record is None:
                return newest
            if self._create(record):
                return record
        raise self._never_first(cls)

    def _never_first(self, cls: type[Record]) -> HomeUnavailable:
        return HomeUnavailable(
            f"No record could be added to {self._shown(self._layout.folder(cls))}: {APPEND_TRIES} "
            "times another one was there first. Check that the store lists its newest files."
        )

    def _shown(self, path: str) -> str:
        return join(self.store.uri, path)

    def _what_to_do(self, cls: type[Record], err: RecordError) -> str:
        if cls.KIND not in _KEPT or isinstance(err, RecordFormatError):
            return ""
        return f" Stream {self.name!r} cannot continue without it: restore the original file."


def _record(cls: type[R], data: bytes) -> tuple[R, Mapping[str, object]]:
    # No two heartbeats are equal: within minutes they would take the place of every other record.
    if cls is Status or len(data) > _SMALL:
        return cls.stored(data)
    return cast("tuple[R, Mapping[str, object]]", _decoded(cls.stored, data))


# A change reads the same records at every step, to act on the home's state and not on its memory.
# The bytes are read each time but parsed once.
@lru_cache(maxsize=512)
def _decoded(read: Callable[[bytes], Stored], data: bytes) -> Stored:
    return read(data)
