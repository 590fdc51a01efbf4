"""
Copy one live checkpoint: list, copy, check, list again.

A stream has a checkpoint for every query, each in a folder with the query's name. An external
stream may have a single one. Both are given by one URI.

The query is not touched. It may purge files that the copy is about to read, or rewrite a file. The
second listing notices at the latest, and the copy starts again with a newer pin; files that were
copied are not read again. A copy is returned complete or not at all. Purged plans and commits that
no restore needs are left out.

A file that is missing in the same way in two listings in a row is damage, not movement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from airflow_streaming.checkpoints.backup.index import LARGE
from airflow_streaming.checkpoints.backup.pin import (
    Pin,
    choose_pin,
    is_changed,
    lost_operators,
    pinned_listing,
    still_holds,
    with_checksums,
    without,
)
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.checkpoints.backup.read_ahead import (
    ReadRequest,
    Torn,
    read_ahead,
    stream_whole,
)
from airflow_streaming.checkpoints.backup.records import Member, QueryBackup
from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import query_folders
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused
from airflow_streaming.model.pipeline.flows import query_of
from airflow_streaming.model.spark.listing import FileStat, Listing
from airflow_streaming.model.spark.tail import batch_of
from airflow_streaming.storage.blobs import Elsewhere
from airflow_streaming.storage.folders import Folders, walk, why_too_large

SINK_LOG: Final = "_spark_metadata"
"""
The file sink's log, in the output folder. A backup keeps it in a folder of the same name beside the
query's own files: ``counts/_spark_metadata/17``. No checkpoint has a folder with this name.
"""
RELATIVE: Final = "the script gives its output by a relative path, so its place is not known."
"""Why the recorded sinks do not locate a file sink's log."""

REMEMBERED: Final = 64 * 1024 * 1024
"""Bytes of small files that are kept until the copy is checked."""
_CONTENT_ONLY: Final = re.compile(r"/[0-9]+\.(delta|snapshot|changelog)$|\.sst$", re.ASCII)
"""State files that are checked for damage only; they refer to no other files."""
Checked = Collection[tuple[str, str]]
"""Path and digest of members that an earlier copy found sound."""


def with_only_query(sinks: Mapping[str, str], queries: Collection[str]) -> dict[str, str]:
    """
    Return sinks by query; a sink without a query's name belongs to the only query.

    :param sinks: By the name of the query; empty for an unnamed one.
    :param queries: All names; an empty name for a single checkpoint.
    """
    found, names = dict(sinks), list(queries)
    if "" in found and len(names) == 1 and names[0] not in found:
        found[names[0]] = found.pop("")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    A checkpoint to copy.

    :param folder: Its folder in the backup, which is the query's name; empty for a single
        checkpoint.
    :param folders: The checkpoint, for reading.
    :param sink_log: The ``_spark_metadata`` folder of the query's output, if it is copied too.
    """

    folder: str
    folders: Folders
    sink_log: Folders | None = None

    def member(self, path: str) -> str:
        return f"{self.folder}/{path}" if self.folder else path


def sources_of(folders: Folders) -> list[Source]:
    """
    Return the checkpoint at a URI, or the checkpoints directly under it, by name.

    :raises CheckpointError: The folder has no checkpoint.
    """
    return [
        Source(folder=query_of(name), folders=folders.below(name))
        for name in sorted(query_folders(folders))
    ]


class CopySink(Protocol):
    """
    Target of a copy: a ``BundleWriter``, or a writer of files.

    A retry continues with the same sink. Files of a failed attempt are not among the members that
    ``copy_live`` returns.
    """

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """Announce the files, before the first one and for every new pin."""

    def known(self, path: str, size: int, stamp: str) -> Member | None:
        """Return the member when the file need not be read."""

    def add(self, path: str, data: bytes, stamp: str = "") -> Member:
        """Take a small file."""

    def add_large(
        self,
        path: str,
        chunks: Iterable[bytes],
        stamp: str = "",
        *,
        elsewhere: Elsewhere | None = None,
    ) -> Member:
        """Take a large file; when its chunks raise, nothing was taken."""


class Look(NamedTuple):
    """
    The files of one attempt.

    :param listing: The walk they were chosen from; ``sink`` is the listing of the sink's log.
    :param files: In the order of the pin, the sink's log last.
    """

    pin: Pin
    listing: Listing
    sink: Listing | None
    files: tuple[ReadRequest, ...]


def look_at(source: Source) -> Look | Incomplete:
    """
    Choose the files to copy.

    :raises CheckpointRefused: See ``choose_pin``; or a file is too large.
    """
    folders = source.folders
    committed = _newest_commit(folders)
    listing = walk(folders)
    try:
        pin = choose_pin(listing, folders.read, at_least=committed)
    except CheckpointRefused as err:
        raise CheckpointRefused(f"{folders.uri} cannot be copied. {err}") from err
    if isinstance(pin, Incomplete):
        return pin
    files = [
        ReadRequest(folders, path, listing.stat(path) or FileStat(0), source.member(path))
        for path in pin.files
    ]
    if why := why_too_large((one.path, one.stat.size) for one in files):
        raise CheckpointRefused(f"{folders.uri} cannot be copied. {why}")
    if source.sink_log is None:
        return Look(pin, listing, None, tuple(files))
    sink = walk(source.sink_log)
    log = _sink_files(source, source.sink_log, sink, pin)
    return log if isinstance(log, Incomplete) else Look(pin, listing, sink, (*files, *log))


def moved(source: Source, look: Look) -> Incomplete | None:
    """Look again, after the copy, and tell what makes it torn."""
    log = source.sink_log
    if log is not None and look.sink is not None:
        now = walk(log)
        for file in look.files:
            if file.folders is log and is_changed(file.path, look.sink, now):
                path = f"{SINK_LOG}/{file.path}"
                return Incomplete(path, f"{path} was written anew.", is_moving=True)
    return still_holds(look.pin, look.listing, walk(source.folders))


def _sink_files(
    source: Source, log: Folders, listing: Listing, pin: Pin
) -> list[ReadRequest] | Incomplete:
    tail = log_tail(listing, "", pin.batch)
    if isinstance(tail, Incomplete):
        return Incomplete(f"{SINK_LOG}/{tail.path}", f"The sink's log {log.uri}: {tail.why}")
    found = listing.files("")
    return [
        ReadRequest(log, path, found[path], source.member(f"{SINK_LOG}/{path}")) for path in tail
    ]


def _newest_commit(folders: Folders) -> int | None:
    """Return the newest batch that is committed now, before the walk begins."""
    found: list[int] = []

    def choose(names: Iterable[str]) -> list[str]:
        found.extend(batch for batch in map(batch_of, names) if batch is not None)
        return []

    folders.entries("commits", choose)
    return max(found, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """
    A complete copy of a checkpoint.

    :param members: Its files, with the paths of ``Source.member``.
    :param checkpoint: The copy as a sound checkpoint.
    """

    query: QueryBackup
    pin: Pin
    members: tuple[Member, ...]
    checkpoint: Checkpoint


def copy_live(
    source: Source,
    taker: CopySink,
    *,
    attempts: int = 5,
    progress: Progress = no_progress,
    checked: Checked = frozenset(),
) -> Copied:
    """
    Copy the newest committed batch of a checkpoint that may be in use.

    :param checked: Members that are not read again if the taker knows them.
    :raises CheckpointRefused: The checkpoint is damaged, of an unknown format, or cannot be copied
        while its query runs.
    :raises CheckpointBusy: It changed during every attempt.
    """
    last: Incomplete | None = None
    copier = _Copier(source, taker, progress, checked)
    for _ in range(attempts):
        found = copier.attempt()
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


class _Copier:
    def __init__(
        self, source: Source, taker: CopySink, progress: Progress, checked: Checked
    ) -> None:
        self._source, self._taker, self._progress = source, taker, progress
        self._folders, self._checked = source.folders, checked
        self._sound: set[str] = set()
        # Files just read are checked from memory; they may be purged by then.
        self._recent: dict[str, bytes] = {}
        self._free = REMEMBERED

    def attempt(self) -> Copied | Incomplete:
        self._tell(Phase.LOOK)
        self._sound.clear()
        seen = look_at(self._source)
        if isinstance(seen, Incomplete):
            return seen
        copied = self._copy(seen)
        if isinstance(copied, Incomplete):
            return copied
        look, members = copied
        self._tell(Phase.CHECK)
        checkpoint = self._check(look)
        if isinstance(checkpoint, Incomplete):
            return checkpoint
        return moved(self._source, look) or _copied(self._source, look.pin, members, checkpoint)

    def _copy(self, look: Look) -> tuple[Look, list[Member]] | Incomplete:
        """Copy all files; return the final choice of files and the members."""
        self._taker.expect((file.member, file.stat) for file in look.files)
        of_size = sum(file.stat.size for file in look.files)
        members, purged, size = dict[ReadRequest, Member](), list[str](), 0
        for file, member in self._taken(look.files):
            if isinstance(member, Member):
                members[file] = member
                size += file.stat.size
                self._tell(Phase.COPY, len(members), len(look.files), size, of_size)
            elif not member.is_moving or without(look.pin, [file.path]) is None:
                return member
            else:
                purged.append(file.path)
        pin = without(look.pin, purged) or look.pin
        left = set(look.pin.files) - set(pin.files)
        kept = tuple(
            file
            for file in look.files
            if file.folders is not self._folders or file.path not in left
        )
        return look._replace(pin=pin, files=kept), [members[file] for file in kept]

    def _taken(
        self, files: Iterable[ReadRequest]
    ) -> Iterator[tuple[ReadRequest, Member | Incomplete]]:
        """Copy all files: known ones first, then the rest in the order of the pin."""
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
            elif isinstance(content, Incomplete):
                yield file, content
            else:
                self._remember(file, content)
                yield file, self._taker.add(file.member, content, file.stat.stamp)

    def _take_large(self, file: ReadRequest) -> Member | Incomplete:
        try:
            return self._taker.add_large(
                file.member,
                stream_whole(file),
                file.stat.stamp,
                elsewhere=file.folders.elsewhere(file.path),
            )
        except Torn as err:
            return err.unready

    def _check(self, look: Look) -> Checkpoint | Incomplete:
        """Read the copy as the checkpoint that it will be; it must be sound."""
        settled = self._settled(look.pin)
        files = tuple(path for path in look.pin.files if path not in settled)
        pinned = pinned_listing(replace(look.pin, files=files), look.listing)
        lost = lost_operators(pinned, look.listing)
        if lost:
            return Incomplete(f"state/{lost[0]}", f"The state of operator {lost[0]} is missing.")
        checkpoint = read_checkpoint(
            with_checksums(pinned, look.listing),
            self._read_again,
            uri=self._folders.uri,
            depth=Depth.COPIED,
        )
        if not checkpoint.problems:
            return checkpoint
        problem = checkpoint.problems[0]
        return Incomplete(problem.path, problem.message)

    def _settled(self, pin: Pin) -> set[str]:
        """Return old plans and commits that were checked before; they may be purged by now."""
        found = set()
        # Ids of the checked state are in the commits down to the oldest one read.
        told = pin.batch if pin.oldest_told is None else pin.oldest_told
        for log, first in (("offsets/", pin.batch - 1), ("commits/", min(told, pin.batch - 1))):
            for path in (path for path in pin.files if path.startswith(log)):
                if path not in self._sound or int(path.removeprefix(log)) >= first:
                    break
                found.add(path)
        return found

    def _read_again(self, path: str, limit: int) -> bytes | None:
        if path in self._sound and _CONTENT_ONLY.search(path):
            # The content check skips unreadable files; they were checked before.
            return None
        data = self._recent.get(path)
        if data is None or len(data) > limit:
            return self._folders.read(path, limit)
        return data

    def _remember(self, file: ReadRequest, content: bytes) -> None:
        self._free += len(self._recent.pop(file.path, b""))
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
