"""
The port through which a backup store is read and written.

A backup store keeps objects, most of them named by the SHA-256 of their bytes. Nothing is ever
changed in place: an object appears whole under its name, or not at all. Two implementations, a
folder of this machine and any file system of fsspec, have one contract test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

CHUNK: Final = 1024 * 1024
"""Bytes of a large object that are held at once."""

_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


class Stored(NamedTuple):
    """
    One name in a folder of the store.

    :param size: Bytes; 0 for a folder.
    :param modified: When it was stored, by the store's clock; ``None`` where it does not tell.
    :param strange: What it is when it is neither file nor folder, e.g. ``symbolic link``.
    """

    name: str
    size: int
    modified: datetime | None = None
    is_folder: bool = False
    strange: str = ""


class Elsewhere(NamedTuple):
    """
    A file on an fsspec file system that may be the store's own.

    :param filesystem: The fsspec file system that the file is read through.
    :param path: The file as that file system spells it, e.g. ``bucket/checkpoint/offsets/17``.
    """

    filesystem: Any
    path: str


class ServerCopy(Protocol):
    """A copy that the store's own server makes of a file that lies on the same store."""

    def to(self, path: str) -> bool:
        """
        Copy the file to an object of the store.

        :return: Whether the object now is what the file was when this copy was asked for, and the
            file has not been written since; ``False`` as well when the server cannot copy.
        """


class Blobs(Protocol):
    """
    Objects under one root, addressed by relative paths that were built from checked parts.

    Every method raises ``HomeUnavailable`` when the store cannot be reached, and ``RecordError``
    for a path that would leave the root or for what is no file.
    """

    uri: str
    """The root, as the user wrote it."""

    workers: int
    """How many objects are read or written at once with profit."""

    def create(self, path: str, data: bytes) -> None:
        """
        Create an object whole; of any number of racing callers one succeeds.

        :raises AlreadyExists: the object is there already.
        """

    def put(self, path: str, data: bytes) -> None:
        """
        Write an object whole, over an older one; a reader sees the old or the new bytes.

        On HDFS, where nothing is renamed over a file, there is a moment without one when the bytes
        differ.
        """

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        """
        Store a large object under the SHA-256 of its bytes; memory is bounded.

        :return: The digest and the number of bytes.
        """

    def read(self, path: str, limit: int) -> bytes | None:
        """
        Return an object's bytes, ``None`` when there is none.

        :raises RecordError: larger than the limit.
        """

    def stream(self, path: str) -> Iterator[bytes] | None:
        """Return an object's bytes in chunks, ``None`` when there is none."""

    def size(self, path: str) -> int | None:
        """Return an object's bytes, ``None`` when there is none."""

    def entries(self, folder: str) -> list[Stored]:
        """
        Return what is in a folder by name; empty when it is missing.

        Files that are still being written, or that a killed writer left, are there as well: see
        ``is_unfinished``.
        """

    def delete(self, path: str) -> None:
        """Delete an object; no error when it is missing."""

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        """Prepare a copy on the server; ``None`` when the file is not on this store."""


def is_unfinished(name: str) -> bool:
    """Tell whether a name is that of a file still being written, or left by a killed writer."""
    return _TEMPORARY.fullmatch(name) is not None
