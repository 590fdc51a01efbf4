"""The files of one query in a backup, as they have to be at the place they are restored to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.checkpoint.contents import Contents
from airflow_streaming.checkpoint.sources import SINK_LOG
from airflow_streaming.checkpoint.writing import NewFile, is_marker
from airflow_streaming.core.checkpoint.listing import Listing, is_hidden
from airflow_streaming.core.checkpoint.relocation import names_paths, relocated

_CHECKSUM: Final = ".crc"


class Moved:
    """
    The files of one query, moved.

    Left out are the file sink's log, which belongs to the output, Hadoop's hidden checksums, and
    Spark's own checksum of a file that is rewritten.

    :param contents: The verified members.
    :param to: URI of the checkpoint's new place.
    """

    def __init__(self, contents: Contents, to: str) -> None:
        self._contents, self._to = contents, to
        self._paths = frozenset(path for path in contents.members if _is_wanted(path))

    @property
    def listing(self) -> Listing:
        """Return the listing of the new checkpoint, as far as the backup tells."""
        whole = self._contents.listing
        folders = {
            folder: {
                name: stat
                for name, stat in files.items()
                if (f"{folder}/{name}" if folder else name) in self._paths
            }
            for folder, files in whole.folders.items()
            if not _is_of_sink(folder)
        }
        return Listing(folders, whole.strange)

    @property
    def count(self) -> tuple[int, int]:
        """Return the number of files, and their bytes."""
        members = self._contents.members
        return len(self._paths), sum(members[path].size for path in self._paths)

    def read(self, path: str, limit: int) -> bytes | None:
        """
        Return one file as it will be.

        :raises RestoreRefused: it names files that cannot be moved.
        """
        if path not in self._paths:
            return None
        data = self._contents.read(path, limit)
        return None if data is None else self._rewritten(path, data)

    def check(self) -> None:
        """
        Rewrite what has to be rewritten, to see that it can be.

        :raises RestoreRefused: it cannot.
        """
        for path in sorted(self._paths):
            if names_paths(path):
                self.read(path, self._contents.members[path].size)

    def files(self) -> Iterator[NewFile]:
        """Return all files, in the order in which the store has them."""
        for path, member, chunks in self._contents:
            if path not in self._paths:
                continue
            if not names_paths(path):
                yield NewFile(path, member.size, chunks)
                continue
            data = self._rewritten(path, b"".join(chunks))
            yield NewFile(path, len(data), (data,))

    def _rewritten(self, path: str, data: bytes) -> bytes:
        return relocated(path, data, has=self._paths.__contains__, to=self._to)


def _is_wanted(path: str) -> bool:
    name = path.rpartition("/")[2]
    if is_hidden(name) or is_marker(path) or _is_of_sink(path):
        return False
    return not (path.endswith(_CHECKSUM) and names_paths(path.removesuffix(_CHECKSUM)))


def _is_of_sink(path: str) -> bool:
    return path == SINK_LOG or path.startswith(f"{SINK_LOG}/")
