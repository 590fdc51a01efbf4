"""
Objects of a backup store through fsspec: kept whole or not at all, read in ranges, copied by the server.

Small objects are written and read like records of a home, with the same exclusive create. A large
object is spooled to this machine's disk first, because its name is known only when all of it has
been seen; unless the server can copy it.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.model.uris import check_uri, is_local
from airflow_streaming.storage.blobs import (
    Blobs,
    Elsewhere,
    LocalBlobs,
    ServerCopy,
    Stored,
    below_the_root,
    time_in,
)
from airflow_streaming.storage.fsspec_store import FsspecStore, give_up_soon, open_filesystem

RANGE: Final = 8 * 1024 * 1024
"""Bytes of a large object asked for at once."""
_IN_MEMORY: Final = 4 * 1024 * 1024
_TAGS: Final = ("ETag", "etag", "md5Hash", "generation", "content_md5")
_OF_NO_IMPORTANCE: Final = frozenset({"use_listings_cache", "skip_instance_cache", "asynchronous"})


class FsspecBlobs(FsspecStore):
    """Objects on an fsspec file system."""

    workers = 8

    def put(self, path: str, data: bytes) -> None:
        with self._reporting(path) as full:
            if not self._renames:
                self._fs.pipe_file(full, data)
                return
            try:
                self._create_by_rename(path, full, data)
            except AlreadyExists:
                # Most objects are named by their bytes: the same ones need no writing.
                if self._fs.cat_file(full) != data:
                    self.replace(path, data)

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        with tempfile.NamedTemporaryFile(prefix="airflow-streaming-", buffering=_IN_MEMORY) as file:
            digest, size = _spooled(chunks, file)
            with self._reporting(f"{folder}/{digest}") as full:
                self._upload(file.name, full, digest, size)
        return digest, size

    def stream(self, path: str) -> Iterator[bytes] | None:
        size = self.size(path)
        return None if size is None else self._ranges(path, size)

    def size(self, path: str) -> int | None:
        with self._reporting(path) as full:
            info = self._info(full)
        return None if info is None else int(info.get("size") or 0)

    def entries(self, folder: str) -> list[Stored]:
        with self._reporting(folder) as full:
            self._fs.invalidate_cache(full)
            try:
                found = self._fs.ls(full, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        stored = [_stored(info) for info in found if _path(info) != full.strip("/")]
        return sorted((one for one in stored if one.name), key=lambda one: one.name)

    def delete_tree(self, folder: str) -> None:
        with (
            self._reporting(below_the_root(folder, self.uri)) as full,
            contextlib.suppress(FileNotFoundError),
        ):
            self._fs.invalidate_cache(full)
            self._fs.rm(full, recursive=True)

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        if self._renames or not _same_place(source.filesystem, self._fs):
            return None
        with self._reporting(""):
            info = self._info(source.path)
        tag = _tag(info)
        return _ServerCopy(self, source.path, tag) if tag else None

    def copied(self, source: str, tag: str, path: str) -> bool:
        """
        Have the server copy a file that has a tag; tell whether it has the tag afterwards.

        The object gets its name in a second copy: nothing unchecked is ever to be found there.
        """
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        with self._reporting(temporary) as full:
            try:
                self._fs.cp_file(source, full)
                info, copy = self._info(source), self._info(full)
                same_size = info is not None and copy is not None and info["size"] == copy["size"]
                if not same_size or _tag(info) != tag:
                    return False
                self._fs.cp_file(full, f"{self._root}/{path}")
            finally:
                self.delete(temporary)
        return True

    def _info(self, full: str) -> Mapping[str, Any] | None:
        self._fs.invalidate_cache(full)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            info: Mapping[str, Any] = self._fs.info(full)
            if info.get("type") != "directory":
                return info
        return None

    def _upload(self, local: str, full: str, digest: str, size: int) -> None:
        if not self._renames:
            self._fs.put_file(local, full)
            return
        info = self._info(full)
        if info is not None and info.get("size") == size and self._hash(full, size) == digest:
            return
        with self._temporary(full, b"") as temporary:
            self._fs.rm_file(temporary)
            self._fs.put_file(local, temporary)
            if info is not None:
                self._fs.rm_file(full)
            self._fs.mv(temporary, full)

    def _hash(self, full: str, size: int) -> str:
        digest = hashlib.sha256()
        for start in range(0, size, RANGE):
            digest.update(self._fs.cat_file(full, start=start, end=min(start + RANGE, size)))
        return digest.hexdigest()

    def _ranges(self, path: str, size: int) -> Iterator[bytes]:
        for start in range(0, size, RANGE):
            with self._reporting(path) as full:
                chunk: bytes = self._fs.cat_file(full, start=start, end=min(start + RANGE, size))
            yield chunk


@dataclass(frozen=True, slots=True)
class _ServerCopy:
    blobs: FsspecBlobs
    source: str
    tag: str

    def to(self, path: str) -> bool:
        return self.blobs.copied(self.source, self.tag, path)


def _spooled(chunks: Iterable[bytes], file: IO[bytes]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        file.write(chunk)
    file.flush()
    return digest.hexdigest(), size


def _stored(info: Mapping[str, Any]) -> Stored:
    name = _path(info).rpartition("/")[2]
    if info.get("type") == "directory":
        return Stored(name, 0, time_in(info), is_folder=True)
    strange = "symbolic link" if info.get("islink") else ""
    return Stored(name, int(info.get("size") or 0), time_in(info), strange=strange)


def _path(info: Mapping[str, Any]) -> str:
    return str(info.get("name", "")).strip("/")


def _tag(info: Mapping[str, Any] | None) -> str:
    """Return what differs whenever a file was written anew; empty where the store has nothing."""
    told = [str(info[key]) for key in _TAGS if info and info.get(key) is not None]
    return "|".join(told)


def _same_place(one: Any, other: Any) -> bool:
    # Two servers may both have a bucket of that name: only the same settings are the same place.
    return one is other or (type(one) is type(other) and _settings(one) == _settings(other))


def _settings(filesystem: Any) -> dict[str, Any]:
    options: Mapping[str, Any] = getattr(filesystem, "storage_options", None) or {}
    return {key: value for key, value in options.items() if key not in _OF_NO_IMPORTANCE}


def open_blobs(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    *,
    looks_only: bool = False,
) -> Blobs:
    """
    Return the objects under a URI; nothing is read or written yet.

    :raises SpecError: not a full URI, or its file system is not installed.
    """
    checked = check_uri(uri, "backup store")
    if filesystem is None and is_local(checked):
        return LocalBlobs(checked)
    opened, root = open_filesystem(checked, "backup store", storage_options, filesystem)
    if looks_only and filesystem is None:
        give_up_soon(opened)
    return FsspecBlobs(opened, root, checked)
