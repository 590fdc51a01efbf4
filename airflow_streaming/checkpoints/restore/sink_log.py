"""
Rewind a file sink's log to a backup: which entries are removed, in which order.

Readers of the output take the newest entry, and from it back to the newest compacted one. So the
log is shortened from its newest end, and at every moment a reader finds a whole prefix of the
batches. Entries before the newest compacted one are never read and are removed first; they may have
gaps, since Spark deletes them when they are old.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote

from airflow_streaming.checkpoints.read.file_logs import (
    MAX_ENTRY_LENGTH,
    SinkLogEntry,
    parse_sink_log,
)
from airflow_streaming.exceptions import CheckpointRefused, RecordError
from airflow_streaming.model.spark.logs import json_object
from airflow_streaming.model.uris import is_local, local_path, scheme_of, to_fsspec
from airflow_streaming.model.wire import Record

_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)
_ONE_CLUSTER: Final = frozenset({"hdfs", "viewfs"})
"""Spark writes the name node's address out, and the configured output need not have it."""
_ADDED: Final = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRewind:
    """
    Changes to a log.

    :param create: Missing entries of the backup, in the order of creation.
    :param remove: Entries of later batches, in the order of removal.
    :param newest: The newest batch in the log; ``None`` for an empty log.
    """

    create: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    newest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRewound(Record):
    """
    The batches of one sink are being taken back, or were.

    Stored beside the moved files, in the output folder.

    :param batch: The newest batch that stays; ``newest`` the newest one before.
    :param files: Data files that were moved aside; ``size`` is their bytes.
    """

    KIND: ClassVar[str] = "sink_rewound"

    stream: str
    query: str
    change: int
    backup: str
    batch: int
    newest: int
    files: int = 0
    size: int = 0


def log_rewind(kept: Collection[str], now: Iterable[str], batch: int) -> LogRewind:
    """
    Plan the rewind of a log.

    :param kept: Names of the entries in the backup.
    :param now: Names in the log's folder; other files do not matter.
    :param batch: The newest batch that stays; -1 without one.
    """
    present = {name: number for name in now if (number := batch_of_entry(name)) is not None}
    newest = max(present.values(), default=None)
    later = {name: number for name, number in present.items() if number > batch}
    start = max((n for name, n in later.items() if _is_compact(name)), default=batch + 1)
    unread = _newest_first({name: n for name, n in later.items() if n < start})
    read = _newest_first({name: n for name, n in later.items() if n >= start})
    missing = sorted(set(kept) - set(present), key=lambda name: (_is_compact(name), _number(name)))
    return LogRewind(create=tuple(missing), remove=(*unread, *read), newest=newest)


def batch_of_entry(name: str) -> int | None:
    """Return the batch of a log's entry by its name; ``None`` for any other file."""
    match = _ENTRY.fullmatch(name)
    return int(match[1]) if match else None


def newest_entry(names: Iterable[str]) -> str:
    """Return the name of a log's newest entry; the compacted one of two, and empty for an empty log."""
    known = [name for name in names if batch_of_entry(name) is not None]
    return max(known, key=lambda name: (_number(name), _is_compact(name)), default="")


def newest_batch(names: Iterable[str]) -> int | None:
    """Return the newest batch that a log has, by the names in its folder; ``None`` for an empty one."""
    return batch_of_entry(newest_entry(names))


def files_of(entries: Mapping[str, bytes], where: str) -> dict[str, SinkLogEntry]:
    """
    Return the files that some entries have added, by path.

    :param entries: Content by name.
    :param where: The log, for messages.
    :raises CheckpointRefused: an entry cannot be read.
    """
    found: dict[str, SinkLogEntry] = {}
    for name, data in entries.items():
        try:
            parsed = parse_sink_log(data)
        except RecordError as err:
            raise CheckpointRefused(
                f"Entry {name} of the sink's log {where} cannot be read: {err} Nothing was "
                "changed. Take the batches back by hand, or give the query a new output folder."
            ) from err
        found.update((entry.path, entry) for entry in parsed.entries if entry.action == _ADDED)
    return found


def oldest_file_ms(entry: bytes) -> int | None:
    """Return when the oldest file of an entry was written, in milliseconds since 1970."""
    times = (json_object(line, "sink log", limit=MAX_ENTRY_LENGTH) for line in _lines(entry))
    told = (line.get("modificationTime") for line in times)
    return min((time for time in told if type(time) is int), default=None)


def _lines(entry: bytes) -> list[str]:
    return entry.decode("utf-8", "replace").split("\n")[1:]


def path_in_output(path: str, output: str) -> str:
    """
    Return the path of a file relative to the output folder.

    :param path: Its URI as the log has it, with escapes.
    :param output: URI of the output folder.
    :raises CheckpointRefused: it lies elsewhere.
    """
    place, root = _place(unquote(path)), _place(output)
    if not place.startswith(f"{root}/") or ".." in place.split("/"):
        raise CheckpointRefused(
            f"The sink's log of {output} names {path}, which is not in that folder: it is the log "
            "of another output, or the folder was moved. Nothing was changed. Take the batches "
            "back by hand, or give the query a new output folder."
        )
    return place.removeprefix(f"{root}/")


def _place(uri: str) -> str:
    if is_local(uri):
        return local_path(uri).rstrip("/")
    spelled = to_fsspec(uri).rstrip("/")
    scheme = scheme_of(spelled)
    if scheme in _ONE_CLUSTER:
        return f"{scheme}:/{spelled.split('://', 1)[1].partition('/')[2]}"
    return spelled


def _newest_first(entries: Mapping[str, int]) -> list[str]:
    return sorted(entries, key=lambda name: entries[name], reverse=True)


def _is_compact(name: str) -> bool:
    return name.endswith(".compact")


def _number(name: str) -> int:
    return int(name.removesuffix(".compact"))
