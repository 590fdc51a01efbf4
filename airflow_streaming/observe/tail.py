"""Checkpoint → Tail: read the newest batches of the queries of a stream that we did not launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.foreign.tail import (
    RECENT,
    LogFile,
    Tail,
    batch_of,
    durations,
    intervals,
    parse_commit,
    parse_offsets,
    parse_query_id,
)
from airflow_streaming.exceptions import RecordError

Parsed = TypeVar("Parsed")

MAX_CHECKPOINTS: Final = 200
"""Queries in one driver; a folder of more checkpoints holds those of many streams."""


class Tails:
    """
    Reads the tails of one checkpoint, or of all checkpoints in a folder.

    A log's files are written once, so what was read of a batch is kept until a newer one appears;
    a look at a quiet checkpoint is two listings.

    :param folders: The checkpoint, or the folder whose sub-folders are checkpoints.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._kept: dict[str, tuple[tuple[object, ...], Tail]] = {}
        self._ids: dict[str, str | None] = {}

    def read(self) -> tuple[Tail, ...]:
        """
        Return the tails of all queries by name; empty when there is no checkpoint.

        :raises HomeUnavailable: the store could not be read; this says nothing of the stream.
        :raises RecordError: a folder that is too large to be one of a checkpoint.
        """
        own = self._tail("")
        if own is not None:
            return (own,)
        listed = self._folders.entries("", _checkpoint_names) or []
        below = sorted(entry.name for entry in listed if entry.is_folder)
        if len(below) > MAX_CHECKPOINTS:
            raise RecordError(
                f"{self._folders.uri} has {len(below)} folders, more than {MAX_CHECKPOINTS}. Give "
                "the checkpoint of one query, or the folder of one stream's checkpoints."
            )
        found = (self._tail(folder) for folder in below)
        return tuple(tail for tail in found if tail is not None)

    def _tail(self, folder: str) -> Tail | None:
        offsets = self._log(folder, "offsets")
        if offsets is None:
            return None
        # Commits are listed after offsets: a batch in between is seen done, never overdue.
        commits = self._log(folder, "commits") or []
        committed, newest = commits[-1] if commits else None, offsets[-1] if offsets else None
        # A commit that is written anew has another time.
        seen = (committed, newest)
        kept = self._kept.get(folder)
        if kept is not None and kept[0] == seen:
            return kept[1]
        tail = self._read(folder, offsets, commits)
        if tail.unknown is None:
            self._kept[folder] = (seen, tail)
        return tail

    def _log(self, folder: str, log: str) -> list[LogFile] | None:
        entries = self._folders.entries(_join(folder, log), _newest_names)
        if entries is None:
            return None
        files = [
            LogFile(batch=batch, modified=entry.modified)
            for entry in entries
            if not entry.is_folder and (batch := batch_of(entry.name)) is not None
        ]
        return sorted(files, key=lambda file: file.batch)

    def _read(self, folder: str, offsets: list[LogFile], commits: list[LogFile]) -> Tail:
        committed = commits[-1] if commits else None
        newest = offsets[-1].batch if offsets else None
        is_planned = newest is not None and (committed is None or newest > committed.batch)
        tail = Tail(
            name=folder or self._folders.uri.rstrip("/").rsplit("/", 1)[-1],
            committed=committed.batch if committed else None,
            planned=newest if is_planned else None,
            committed_at=committed.modified if committed else None,
            durations=durations(offsets, commits),
            intervals=intervals(commits),
            query_id=self._query_id(folder),
        )
        try:
            return self._with_content(folder, tail)
        except RecordError as err:
            return replace(tail, unknown=str(err))

    def _with_content(self, folder: str, tail: Tail) -> Tail:
        if tail.planned is not None:
            # Nothing in it is needed, but a plan of an unknown version is no plan we understand.
            self._parsed(folder, f"offsets/{tail.planned}", parse_offsets)
        if tail.committed is None:
            return tail
        # Nothing in it is needed either: the watermark it tells is the next batch's, and what that
        # one completes is not written yet.
        self._parsed(folder, f"commits/{tail.committed}", parse_commit)
        plan = self._parsed(folder, f"offsets/{tail.committed}", parse_offsets)
        return replace(
            tail,
            watermark=plan.watermark if plan else None,
            offsets=plan.offsets if plan else (),
        )

    def _parsed(self, folder: str, path: str, parse: Callable[[bytes], Parsed]) -> Parsed | None:
        # Spark purges old batches at any time, so a missing file is not known rather than wrong.
        data = self._folders.read(_join(folder, path), MAX_LOG_BYTES)
        if data is None:
            return None
        try:
            return parse(data)
        except RecordError as err:
            raise RecordError(f"{path}: {err}") from err

    def _query_id(self, folder: str) -> str | None:
        if self._ids.get(folder) is None:
            try:
                data = self._folders.read(_join(folder, "metadata"), MAX_LOG_BYTES)
            except RecordError:
                data = None
            self._ids[folder] = parse_query_id(data) if data is not None else None
        return self._ids[folder]


def _newest_names(names: Iterable[str]) -> list[str]:
    batches = sorted(batch for name in names if (batch := batch_of(name)) is not None)
    return [str(batch) for batch in batches[-RECENT - 1 :]]


def _checkpoint_names(names: Iterable[str]) -> list[str]:
    return [n for n in names if n.isprintable() and n[:1] not in {"", ".", "_"} and len(n) <= 200]


def _join(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path
