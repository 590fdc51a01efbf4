"""
Writing the members of a backup: what earlier bundles hold is referenced, the rest is packed.

Whoever copies asks ``known`` before it reads a file, and hands over with ``add`` or ``add_large``
what is not known. Small files go into packs, compressed by a second thread while the next files
are read; large files become objects of their own. Objects are written before what names them, so
a writer that is killed leaves objects that nobody refers to, and the next one uses their indexes.

A copy that is tried again with a new pin goes on with the same writer. What was added for the
first try is known in the second, and ``close`` is told what the backup has in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import NamedTuple, Self

from airflow_streaming.checkpoint.blobs import Blobs, Elsewhere, ServerCopy
from airflow_streaming.checkpoint.earlier import Earlier, Place
from airflow_streaming.checkpoint.layout import file_path, folder
from airflow_streaming.checkpoint.pack_line import OpenBundle, PackLine, Wrote
from airflow_streaming.core.checkpoint.backup import BundleUse, Member
from airflow_streaming.core.checkpoint.index import LARGE, check_member_path, stamp_digest
from airflow_streaming.core.checkpoint.listing import FileStat
from airflow_streaming.core.checkpoint.ranges import to_ranges
from airflow_streaming.exceptions import CheckpointBusy

__all__ = ["LARGE", "BundleWriter"]


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

    Not safe for use from several threads. Every method may raise what an earlier write in the
    background met, i.e. ``HomeUnavailable``.

    :param earlier: What earlier backups of the stream hold.
    :param wrote: Told of every bundle that is in the store, with the digest of its index.
    """

    def __init__(self, blobs: Blobs, stream: str, earlier: Earlier, wrote: Wrote) -> None:
        self._blobs, self._stream, self._earlier = blobs, stream, earlier
        self._line = PackLine(blobs, stream, wrote)
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
        Say what the backup will have, before the first ``known``; again for every new pin.

        From this follows which earlier bundles are worth referring to. Without it all are.

        :param files: Member paths (``<query folder>/<path>``) with what the walk saw of them.
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
        Take the content of a large file in chunks; it becomes an object of its own.

        What the chunks raise goes through, and nothing of the file is kept.

        :param elsewhere: Where the file lies, so that the server copies it when it is on the
            store's own file system; the chunks are hashed then but not sent.
        :raises CheckpointBusy: the file was written anew while the server copied it.
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
        Write what is left, wait for all of it, and return where the backup's members lie.

        :param members: What the backup has: answers of ``known``, ``add`` and ``add_large``.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
