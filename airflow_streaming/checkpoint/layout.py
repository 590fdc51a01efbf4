"""
Where everything lies in a backup store; every path is rebuilt here from checked parts.

A path that was read, in a manifest, an index or a listing, is never used as it is.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.core.checkpoint.index import is_sha256
from airflow_streaming.core.names import NAME_RULE, check_stream_name, is_path_part, numbered
from airflow_streaming.exceptions import RecordError

STORE: Final = "store.json"
CLOCK: Final = "clock.json"
FOLDERS: Final = frozenset({"backups", "packs", "files", "checks", "holds", "doomed"})
"""What a stream has in a store."""

_OBJECT: Final = re.compile(
    r"(?P<stream>[^/]+)/(?:packs/(?P<pack>[0-9a-f]{64})\.tar\.gz"
    r"|packs/(?P<index>[0-9a-f]{64})\.index\.gz|files/(?P<file>[0-9a-f]{64}))"
)
_HOLD: Final = re.compile(r"[0-9a-f]{32}")


class Sort(StrEnum):
    """What an object holds."""

    PACK = "pack"
    INDEX = "index"
    FILE = "file"


class ObjectName(NamedTuple):
    """What the path of an object says: its sort, and the digest that its bytes must have."""

    stream: str
    sort: Sort
    sha256: str


def manifest_path(stream: str, backup_id: str) -> str:
    """Return where a backup's manifest lies."""
    return f"{folder(stream, 'backups')}/{_id(backup_id)}.json"


def pack_path(stream: str, sha256: str) -> str:
    """Return where a pack lies."""
    return f"{folder(stream, 'packs')}/{_digest(sha256)}.tar.gz"


def index_path(stream: str, sha256: str) -> str:
    """Return where an index lies."""
    return f"{folder(stream, 'packs')}/{_digest(sha256)}.index.gz"


def file_path(stream: str, sha256: str) -> str:
    """Return where a large file lies."""
    return f"{folder(stream, 'files')}/{_digest(sha256)}"


def check_path(stream: str, backup_id: str, number: int) -> str:
    """Return where what a verification found lies."""
    return f"{checks_folder(stream, backup_id)}/{numbered(number)}.json"


def checks_folder(stream: str, backup_id: str) -> str:
    """Return the folder of a backup's verifications."""
    return f"{folder(stream, 'checks')}/{_id(backup_id)}"


def hold_path(stream: str, hold_id: str) -> str:
    """Return where a hold lies."""
    if not is_hold_id(hold_id):
        raise RecordError(f"{hold_id!r:.80} cannot be the id of a hold.")
    return f"{folder(stream, 'holds')}/{hold_id}.json"


def is_hold_id(text: str) -> bool:
    """Tell whether a text may be the id of a hold."""
    return _HOLD.fullmatch(text) is not None


def folder(stream: str, name: str) -> str:
    """
    Return one of a stream's folders.

    :raises SpecError: the stream's name cannot be a folder.
    """
    return f"{check_stream_name(stream)}/{name}"


def object_name(path: str) -> ObjectName | None:
    """Return what a path says when it is that of a pack, an index or a large file."""
    match = _OBJECT.fullmatch(path)
    if match is None or not is_path_part(match["stream"]):
        return None
    sort = next(sort for sort in Sort if match[sort.value] is not None)
    return ObjectName(match["stream"], sort, match[sort.value])


def backup_id_of(name: str) -> str | None:
    """Return the id of a manifest's file name, ``None`` for another name."""
    backup_id = name.removesuffix(".json")
    return backup_id if backup_id != name and is_path_part(backup_id) else None


def _id(backup_id: str) -> str:
    if not is_path_part(backup_id):
        raise RecordError(f"{backup_id!r:.120} cannot be the id of a backup. {NAME_RULE}")
    return backup_id


def _digest(sha256: str) -> str:
    if not is_sha256(sha256):
        raise RecordError(f"{sha256!r:.80} is not a SHA-256 digest in hexadecimal digits.")
    return sha256
