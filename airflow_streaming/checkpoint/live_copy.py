"""
Copying one live checkpoint: look, copy, check, look again, and begin anew when something moved.

The query is not touched and does not notice. While we copy, it may purge what we are about to read
or write a file anew. Either is seen, at the latest by the second look, and the copy begins again
with a newer pin; what was taken already is not read again. Nothing is handed over half.

What is missing in two looks in a row in the very same way is not movement but damage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.checkpoint.bundle_writer import LARGE
from airflow_streaming.checkpoint.looking import Look, look_at, moved
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoint.reading_ahead import Torn, Wanted, read_ahead, stream_whole
from airflow_streaming.checkpoint.sources import Source
from airflow_streaming.checkpoint.taker import Taker
from airflow_streaming.core.checkpoint.backup import Member, QueryBackup
from airflow_streaming.core.checkpoint.integrity.chains import Depth
from airflow_streaming.core.checkpoint.pin import Pin
from airflow_streaming.core.checkpoint.pinned import lost_operators, pinned_listing, with_checksums
from airflow_streaming.core.checkpoint.reading import read_checkpoint
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused

REMEMBERED: Final = 64 * 1024 * 1024
"""Bytes of small files that are kept until the copy is checked."""

_CONTENT_ONLY: Final = re.compile(r"/[0-9]+\.(delta|snapshot|changelog)$|\.sst$", re.ASCII)
"""State files that are looked into for damage only, not for what they say of other files."""

Checked = Collection[tuple[str, str]]
"""Path and digest of members that an earlier copy found sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """
    One checkpoint, copied whole.

    :param members: Its files, with the paths that ``Source.member`` gives them.
    :param checkpoint: What the copy says of its query; it is sound.
    """

    query: QueryBackup
    pin: Pin
    members: tuple[Member, ...]
    checkpoint: Checkpoint


def copy_live(
    source: Source,
    taker: Taker,
    *,
    attempts: int = 5,
    progress: Progress = no_progress,
    checked: Checked = frozenset(),
) -> Copied:
    """
    Copy the newest committed batch of a checkpoint that may be in use.

    :param attempts: How often to begin.
    :param checked: When the taker knows one of these members, it is not read again.
    :raises CheckpointRefused: it is damaged, of an unknown format, or such that it cannot be copied
        while its query runs.
    :raises CheckpointBusy: it moved under every attempt.
    :raises CheckpointError: there is no such folder.
    :raises HomeUnavailable: a store cannot be reached.
    """
    last: Unready | None = None
    for _ in range(attempts):
        found = _Attempt(source, taker, progress, checked).run()
        if isinstance(found, Copied):
            return found
        if found == last and not found.is_moving:
            raise CheckpointRefused(f"{source.folders.uri} cannot be copied. {found.why}")
        last = found
    raise CheckpointBusy(
        f"{source.folders.uri} changed under {attempts} attempts to copy it. "
        f"{last.why if last else ''} Try again, at a time when batches are slower, or let the "
        "query keep more batches (spark.sql.streaming.minBatchesToRetain)."
    )


class _Attempt:
    def __init__(self, source: Source, taker: Taker, progress: Progress, checked: Checked) -> None:
        self._source, self._taker, self._progress = source, taker, progress
        self._folders, self._checked = source.folders, checked
        self._sound: set[str] = set()
        # What was just read need not be read once more to be checked, and may be purged by then.
        self._recent: dict[str, bytes] = {}
        self._free = REMEMBERED

    def run(self) -> Copied | Unready:
        self._tell(Phase.LOOK)
        look = look_at(self._source)
        if isinstance(look, Unready):
            return look
        members = self._copy(look.files)
        if isinstance(members, Unready):
            return members
        self._tell(Phase.CHECK)
        checkpoint = self._check(look)
        if isinstance(checkpoint, Unready):
            return checkpoint
        return moved(self._source, look) or _copied(self._source, look.pin, members, checkpoint)

    def _copy(self, files: tuple[Wanted, ...]) -> list[Member] | Unready:
        self._taker.expect((file.member, file.stat) for file in files)
        of_size = sum(file.stat.size for file in files)
        members, size = [], 0
        for file, member in self._taken(files):
            if isinstance(member, Unready):
                return member
            members.append(member)
            size += file.stat.size
            self._tell(Phase.COPY, len(members), len(files), size, of_size)
        return members

    def _taken(self, files: Iterable[Wanted]) -> Iterator[tuple[Wanted, Member | Unready]]:
        """Take all files: first those that are known, then the rest in the order of the pin."""
        unknown = []
        for file in files:
            member = self._taker.known(file.member, file.stat.size, file.stat.stamp)
            if member is None:
                unknown.append(file)
                continue
            if (member.path, member.sha256) in self._checked:
                self._sound.add(file.path)
            yield file, member
        for file, content in read_ahead(unknown, LARGE):
            if content is None:
                yield file, self._take_large(file)
            elif isinstance(content, Unready):
                yield file, content
            else:
                self._remember(file, content)
                yield file, self._taker.add(file.member, content, file.stat.stamp)

    def _take_large(self, file: Wanted) -> Member | Unready:
        try:
            return self._taker.add_large(
                file.member,
                stream_whole(file),
                file.stat.stamp,
                elsewhere=file.folders.elsewhere(file.path),
            )
        except Torn as err:
            return err.unready

    def _check(self, look: Look) -> Checkpoint | Unready:
        """Read the copy as the checkpoint that it will be; it must be sound."""
        settled = self._settled(look.pin)
        files = tuple(path for path in look.pin.files if path not in settled)
        pinned = pinned_listing(replace(look.pin, files=files), look.listing)
        lost = lost_operators(pinned, look.listing)
        if lost:
            return Unready(f"state/{lost[0]}", f"The state of operator {lost[0]} is missing.")
        checkpoint = read_checkpoint(
            with_checksums(pinned, look.listing),
            self._read_again,
            uri=self._folders.uri,
            depth=Depth.COPIED,
        )
        if not checkpoint.problems:
            return checkpoint
        problem = checkpoint.problems[0]
        return Unready(problem.path, problem.message)

    def _settled(self, pin: Pin) -> set[str]:
        """Return old plans and commits that were checked before; they may be purged by now."""
        found = set()
        # The ids of the state that is checked stand in the commits down to the oldest told.
        told = pin.batch if pin.oldest_told is None else pin.oldest_told
        for log, first in (("offsets/", pin.batch - 1), ("commits/", min(told, pin.batch - 1))):
            for path in (path for path in pin.files if path.startswith(log)):
                if path not in self._sound or int(path.removeprefix(log)) >= first:
                    break
                found.add(path)
        return found

    def _read_again(self, path: str, limit: int) -> bytes | None:
        if path in self._sound and _CONTENT_ONLY.search(path):
            # A check of its content passes over what it cannot read, and it was checked before.
            return None
        data = self._recent.get(path)
        if data is None or len(data) > limit:
            return self._folders.read(path, limit)
        return data

    def _remember(self, file: Wanted, content: bytes) -> None:
        if file.folders is self._folders and self._free >= len(content):
            self._free -= len(content)
            self._recent[file.path] = content

    def _tell(
        self,
        phase: Phase,
        files: int = 0,
        of: int | None = None,
        size: int = 0,
        of_size: int | None = None,
    ) -> None:
        self._progress(ProgressNow(phase, self._source.folder, files, of, size, of_size))


def _copied(source: Source, pin: Pin, members: list[Member], checkpoint: Checkpoint) -> Copied:
    query = QueryBackup(
        folder=source.folder,
        checkpoint=source.folders.uri,
        query_id=checkpoint.query_id,
        batch=pin.batch,
        planned=pin.planned,
        offsets=tuple(text for _, text in pin.plan.offsets),
        watermark_ms=checkpoint.watermark_ms,
        state_format=checkpoint.state_format,
        is_stateful=checkpoint.is_stateful,
        spark_at_least=checkpoint.spark_at_least,
        has_absolute_paths=pin.has_absolute_paths,
        sink_log=source.sink_log.uri if source.sink_log else "",
        files=len(members),
        size=sum(member.size for member in members),
    )
    return Copied(query=query, pin=pin, members=tuple(members), checkpoint=checkpoint)
