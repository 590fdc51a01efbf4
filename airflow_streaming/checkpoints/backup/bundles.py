"""
Write bundles: packs of small files, compressed and uploaded in parallel.

zlib releases the GIL, so compression costs little time while files are read. Every queue is
bounded, and so is memory, however slow the store is.

A copier asks ``known`` before it reads a file, and passes unknown files to ``add`` or
``add_large``. Small files go into packs, which a second thread compresses while the next files are
read; large files become objects of their own. Objects are written before the manifest that names
them. A killed writer leaves unreferenced objects, and the next writer uses their indexes.

A retry with a new pin continues with the same writer: files of the first attempt are known in the
second. ``close`` receives the final list of members.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from airflow_streaming.checkpoints.backup.earlier import EarlierBackups, Place, known_to
from airflow_streaming.checkpoints.backup.index import (
    LARGE,
    MAX_MEMBERS,
    check_member_path,
    encode_index,
    stamp_digest,
    to_ranges,
)
from airflow_streaming.checkpoints.backup.packs import PackBuilder, padding, tar_header
from airflow_streaming.checkpoints.backup.records import Bundle, BundleUse, Member
from airflow_streaming.checkpoints.vault.layout import file_path, folder, index_path, pack_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointBusy
from airflow_streaming.model.spark.listing import FileStat
from airflow_streaming.storage.blobs import Blobs, Elsewhere, ServerCopy

PACK_BYTES: Final = 8 * 1024 * 1024
"""A pack is closed when its members have so many bytes, headers and padding counted."""
_SLICE: Final = 512 * 1024
_SLICES: Final = 8
"""At most 4 MiB wait for the compressor."""
_SENDERS: Final = 4
Wrote = Callable[[str, Bundle], None]

__all__ = ["LARGE", "BundleWriter"]


@dataclass(slots=True)
class OpenBundle:
    """
    A bundle that is being written.

    :param index: Its name in the store, once it is there; empty before.
    """

    members: list[Member] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    builder: PackBuilder = field(default_factory=PackBuilder)
    parts: list[bytes] = field(default_factory=list)
    waiting: int = 0
    packed: int = 0
    index: str = ""
    index_size: int = 0

    def add(self, member: Member, data: bytes | None) -> int:
        """Take a member, with its content unless it is alone; return its number."""
        self.members.append(member)
        self.paths.add(member.path)
        if data is not None:
            parts = (tar_header(member.path, len(data)), data, padding(len(data)))
            size = sum(map(len, parts))
            self.parts += parts
            self.waiting += size
            self.packed += size
        return len(self.members) - 1

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more should be added."""
        return self.packed >= PACK_BYTES or len(self.members) >= MAX_MEMBERS


class PackUploader:
    """
    Compresses and sends the bundles of one stream.

    After an error nothing more is sent, and every call raises it.
    """

    def __init__(self, blobs: Blobs, stream: str, wrote: Wrote) -> None:
        self._blobs, self._stream, self._wrote = blobs, stream, wrote
        self._compressor = ThreadPoolExecutor(1, "pack")
        self._senders = ThreadPoolExecutor(min(_SENDERS, blobs.workers), "send")
        self._slices = threading.BoundedSemaphore(_SLICES)
        self._packs = threading.BoundedSemaphore(2 * _SENDERS)
        self._sent: list[Future[None]] = []
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.sent_size = 0

    def feed(self, bundle: OpenBundle, *, at_least: int = _SLICE) -> None:
        """Hand what waits in a bundle to the compressor when it is enough for a slice."""
        self.check()
        if bundle.waiting < at_least:
            return
        parts, bundle.parts, bundle.waiting = bundle.parts, [], 0
        self._slices.acquire()
        self._submit(self._compressor, self._compress, bundle, parts)

    def close(self, bundle: OpenBundle) -> None:
        """Have a bundle finished and sent; it is there after ``wait``."""
        self.feed(bundle, at_least=1)
        self._submit(self._compressor, self._finish, bundle)

    def wait(self) -> None:
        """Wait until every closed bundle is in the store."""
        self._compressor.submit(lambda: None).result()
        for sent in self._sent:
            sent.result()
        self._sent.clear()
        self.check()

    def stop(self) -> None:
        """End the threads; queued work is dropped."""
        with self._lock:
            self._error = self._error or RuntimeError("The writer of this backup was closed.")
        self._compressor.shutdown()
        self._senders.shutdown()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _compress(self, bundle: OpenBundle, parts: Sequence[bytes]) -> None:
        try:
            if self._error is None:
                bundle.builder.feed(parts)
        finally:
            self._slices.release()

    def _finish(self, bundle: OpenBundle) -> None:
        if self._error is None:
            pack = bundle.builder.finish() if bundle.packed else b""
            self._packs.acquire()
            self._sent.append(self._submit(self._senders, self._send, bundle, pack))

    def _send(self, bundle: OpenBundle, pack: bytes) -> None:
        try:
            if self._error is None:
                self._store(bundle, pack)
        finally:
            self._packs.release()

    def _store(self, bundle: OpenBundle, pack: bytes) -> None:
        name = hashlib.sha256(pack).hexdigest() if pack else ""
        written = Bundle(pack=name, pack_size=len(pack), members=tuple(bundle.members))
        index = encode_index(written)
        digest = hashlib.sha256(index).hexdigest()
        # Objects before what names them: an index in the store is always good for use.
        if pack:
            self._blobs.put(pack_path(self._stream, name), pack)
        self._blobs.put(index_path(self._stream, digest), index)
        bundle.index, bundle.index_size = digest, len(index)
        self._wrote(digest, written)
        with self._lock:
            self.sent_size += len(pack) + len(index)

    def _submit(
        self, pool: ThreadPoolExecutor, act: Callable[..., None], *arguments: object
    ) -> Future[None]:
        future = pool.submit(act, *arguments)
        # Called by the same thread before it takes the next act.
        future.add_done_callback(self._note)
        return future

    def _note(self, done: Future[None]) -> None:
        with self._lock:
            self._error = self._error or done.exception()


class _Mine(NamedTuple):
    """
    Where a member lies that this writer has.

    :param is_new: No earlier backup held it.
    """

    bundle: OpenBundle
    number: int
    is_new: bool


class BundleWriter:
    """
    Writes the members of one backup; made by ``BackupStore.writer``, used as a context manager.

    Not safe for use from several threads. Every method may raise the error of an earlier background
    write, i.e. ``HomeUnavailable``.

    :param earlier: The contents of earlier backups of the stream.
    :param wrote: Called for every bundle written to the store, with the digest of its index.
    """

    def __init__(self, blobs: Blobs, stream: str, earlier: EarlierBackups, wrote: Wrote) -> None:
        self._blobs, self._stream, self._earlier = blobs, stream, earlier
        self._line = PackUploader(blobs, stream, wrote)
        self._open = OpenBundle()
        self._places: dict[tuple[str, str], _Mine | Place] = {}
        self._read: dict[str, tuple[int, Member]] = {}
        self._large_size = 0
        self._added_files = 0
        self._copies = True

    @property
    def added_files(self) -> int:
        """Number of members that this writer wrote; after ``close``, of those in the backup."""
        return self._added_files

    @property
    def added_size(self) -> int:
        """Bytes written to the store so far, packed and with indexes; whole after ``close``."""
        return self._large_size + self._line.sent_size

    @property
    def checked(self) -> Collection[tuple[str, str]]:
        """Path and digest of the members that the newest backup found sound."""
        return self._earlier.checked

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """
        Announce the members of the backup, before the first ``known`` and for every new pin.

        Decides which earlier bundles are worth referring to; by default all.

        :param files: Member paths (``<query folder>/<path>``) with their stats from the walk.
        """
        self._earlier.expect(files)

    def known(self, path: str, size: int, stamp: str) -> Member | None:
        """
        Return the member when the file need not be read: its stamp and size were met before.

        :param path: Member path, e.g. ``counts/offsets/17``.
        :param stamp: ``FileStat.stamp`` as it is; nothing is known of an empty one.
        """
        mine = self._read.get(path)
        if mine is not None and stamp and mine[0] == size and mine[1].stamp == stamp_digest(stamp):
            return mine[1]
        place = self._earlier.unread(path, size, stamp)
        return place.member if place is not None and self._refer(place) else None

    def add(self, path: str, data: bytes, stamp: str = "") -> Member:
        """
        Take the content of a file of less than ``LARGE`` bytes (a larger one works as well).

        Nothing is written when an earlier bundle has it under the same path and digest.

        :raises RecordError: the path cannot be the path of a member.
        """
        if len(data) >= LARGE:
            return self.add_large(path, [data], stamp)
        digest = hashlib.sha256(data).hexdigest()
        return self._had(path, digest) or self._take(
            Member(
                path=check_member_path(path),
                size=len(data),
                sha256=digest,
                stamp=stamp_digest(stamp),
            ),
            data,
        )

    def add_large(
        self,
        path: str,
        chunks: Iterable[bytes],
        stamp: str = "",
        *,
        elsewhere: Elsewhere | None = None,
    ) -> Member:
        """
        Write a large file as an object of its own.

        An error from the chunks is passed on, and no part of the file is kept.

        :param elsewhere: The file's location, so that a store on the same file system copies it;
            the chunks are then hashed but not sent.
        :raises CheckpointBusy: The file was rewritten during the copy.
        """
        check_member_path(path)
        self._line.check()
        digest, size = self._keep(chunks, elsewhere)
        self._large_size += size
        return self._had(path, digest) or self._take(
            Member(path=path, size=size, sha256=digest, stamp=stamp_digest(stamp), is_alone=True),
            None,
        )

    def close(self, members: Iterable[Member]) -> tuple[BundleUse, ...]:
        """
        Write the rest, wait for all writes, and return the locations of the members.

        :param members: The backup's members: results of ``known``, ``add`` and ``add_large``.
        """
        self._close_bundle()
        self._line.wait()
        chosen: dict[tuple[str, int], list[int]] = {}
        self._added_files = 0
        for member in members:
            place = self._places[member.path, member.sha256]
            chosen.setdefault(self._index(place), []).append(place.number)
            self._added_files += isinstance(place, _Mine) and place.is_new
        return tuple(
            BundleUse(index=index, index_size=size, chosen=to_ranges(numbers))
            for (index, size), numbers in chosen.items()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads; nothing more is written."""
        self._line.stop()

    def _had(self, path: str, digest: str) -> Member | None:
        mine = self._places.get((path, digest))
        if isinstance(mine, _Mine):
            return mine.bundle.members[mine.number]
        place = self._earlier.same(path, digest)
        return place.member if place is not None and self._refer(place) else None

    def _refer(self, place: Place) -> bool:
        key = place.member.path, place.member.sha256
        if self._earlier.is_worthy(place):
            self._places[key] = place
            return True
        if place.member.is_alone:
            # The object stays where it is; only the list that names it is written anew.
            self._take(place.member, None, is_new=False)
        return place.member.is_alone

    def _take(self, member: Member, data: bytes | None, *, is_new: bool = True) -> Member:
        if member.path in self._open.paths:
            # A file that was read twice, for two pins; a bundle has every path once.
            self._close_bundle()
        number = self._open.add(member, data)
        self._places[member.path, member.sha256] = _Mine(self._open, number, is_new)
        self._read[member.path] = member.size, member
        self._added_files += is_new
        if self._open.is_full:
            self._close_bundle()
        else:
            self._line.feed(self._open)
        return member

    def _close_bundle(self) -> None:
        if self._open.members:
            self._line.close(self._open)
            self._open = OpenBundle()

    def _index(self, place: _Mine | Place) -> tuple[str, int]:
        if isinstance(place, _Mine):
            return place.bundle.index, place.bundle.index_size
        return place.index, self._earlier.sizes[place.index]

    def _keep(self, chunks: Iterable[bytes], elsewhere: Elsewhere | None) -> tuple[str, int]:
        copy = self._server_copy(elsewhere)
        if copy is None:
            return self._blobs.keep(folder(self._stream, "files"), chunks)
        digest, size = hashlib.sha256(), 0
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
        if not copy.to(file_path(self._stream, digest.hexdigest())):
            # Sent from here the next time: perhaps it is the server that cannot.
            self._copies = False
            raise CheckpointBusy(
                f"{elsewhere.path if elsewhere else ''} was written anew while the server of "
                f"{self._blobs.uri} copied it, or cannot be copied by it. Copy it again."
            )
        return digest.hexdigest(), size

    def _server_copy(self, elsewhere: Elsewhere | None) -> ServerCopy | None:
        if elsewhere is None or not self._copies:
            return None
        return self._blobs.server_copy(elsewhere)


def writer_of(store: BackupStore, stream: str) -> BundleWriter:
    """
    Return a writer that knows the stream's newest backups and the leftovers of a killed run.

    Take a hold first, so that no referenced object is collected.
    """
    return BundleWriter(store.blobs, stream, known_to(store, stream), store.wrote)
