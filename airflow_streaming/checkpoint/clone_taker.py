"""Where the files of a clone go: to a target, instead of a backup store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_streaming.checkpoint.blobs import Elsewhere
from airflow_streaming.checkpoint.target import Target
from airflow_streaming.checkpoint.writing import LATE, NewFile, Written, write_checkpoint
from airflow_streaming.core.checkpoint.backup import Member
from airflow_streaming.core.checkpoint.listing import FileStat
from airflow_streaming.core.checkpoint.relocation import names_paths, relocated

_CHECKSUM = ".crc"


class CloneTaker:
    """
    Takes the files of a live copy and writes them to a target.

    State goes there at once. What makes a checkpoint of it, and what has to be rewritten, is small,
    and is kept until the copy is known to be whole.

    :param to: URI of the new checkpoint.
    :param instead: Content of files that are not taken over, by path.
    """

    def __init__(self, target: Target, to: str, instead: Mapping[str, bytes]) -> None:
        self._target, self._to, self._instead = target, to, instead
        self._kept: dict[str, bytes] = {}
        self._taken: dict[str, Member] = {}

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """Do nothing: every file is written by itself."""

    def known(self, path: str, size: int, stamp: str) -> Member | None:
        member = self._taken.get(path)
        is_same = member is not None and stamp and (member.size, member.stamp) == (size, stamp)
        return member if is_same else None

    def add(self, path: str, data: bytes, stamp: str = "") -> Member:
        if path.startswith(LATE) or _is_rewritten(path):
            self._kept[path] = data
        else:
            self._write(path, len(data), (data,))
        return self._note(path, len(data), stamp)

    def add_large(
        self,
        path: str,
        chunks: Iterable[bytes],
        stamp: str = "",
        *,
        elsewhere: Elsewhere | None = None,
    ) -> Member:
        if path.startswith(LATE) or _is_rewritten(path):
            return self.add(path, b"".join(chunks), stamp)
        sizes: list[int] = []
        self._write(path, -1, _measured(chunks, sizes))
        return self._note(path, sum(sizes), stamp)

    def close(self, members: Sequence[Member]) -> Written:
        """
        Write what was kept and remove what was taken for nothing.

        :raises RestoreRefused: it names files that cannot be moved.
        """
        paths = {member.path for member in members}
        for path in sorted(self._taken.keys() - paths - self._kept.keys()):
            self._target.remove(path)
        kept = {path: data for path, data in self._kept.items() if path in paths}
        files = {path: self._moved(path, data, paths) for path, data in kept.items()}
        written = {**files, **{path: self._instead[path] for path in self._instead}}
        # Spark's own checksum of a file that is rewritten would be wrong.
        stale = [path for path in written if _is_checksum(path)]
        for path in stale:
            del written[path]
        write_checkpoint(self._target, "", (NewFile(p, len(d), (d,)) for p, d in written.items()))
        size = sum(member.size for member in members if member.path not in stale)
        return Written(len(paths) - len(stale), size)

    def _moved(self, path: str, data: bytes, paths: set[str]) -> bytes:
        return relocated(path, data, has=paths.__contains__, to=self._to)

    def _write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        if path in self._taken:
            self._target.remove(path)
        self._target.write(path, size, chunks)

    def _note(self, path: str, size: int, stamp: str) -> Member:
        member = Member(path=path, size=size, sha256="", stamp=stamp)
        self._taken[path] = member
        return member


def _is_rewritten(path: str) -> bool:
    return names_paths(path) or _is_checksum(path)


def _is_checksum(path: str) -> bool:
    return path.endswith(_CHECKSUM) and names_paths(path.removesuffix(_CHECKSUM))


def _measured(chunks: Iterable[bytes], sizes: list[int]) -> Iterable[bytes]:
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk
