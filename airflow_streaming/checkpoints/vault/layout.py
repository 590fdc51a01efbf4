"""
Paths in a backup store, and the check that folders do not overlap.

Paths from a manifest, an index or a listing are always parsed and checked.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.index import is_sha256
from airflow_streaming.checkpoints.backup.pinned_logs import METADATA
from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.model import uris
from airflow_streaming.model.names import NAME_RULE, check_folder_name, is_path_part, numbered
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES
from airflow_streaming.model.spark.tail import parse_query_id
from airflow_streaming.model.uris import is_local, local_path, to_fsspec
from airflow_streaming.storage.folders import Folders, LocalFolders, RemoteFolders
from airflow_streaming.storage.known_stores import MARK

STORE: Final = MARK
_STORE_KIND: Final = b'"backup-store"'
CLOCK: Final = "clock.json"
FOLDERS: Final = frozenset({"backups", "packs", "files", "checks", "holds", "doomed", "removed"})
"""The folders of one stream in a store."""
_OBJECT: Final = re.compile(
    r"(?P<stream>[^/]+)/(?:packs/(?P<pack>[0-9a-f]{64})\.tar\.gz"
    r"|packs/(?P<index>[0-9a-f]{64})\.index\.gz|files/(?P<file>[0-9a-f]{64}))"
)
_HOLD: Final = re.compile(r"[0-9a-f]{32}")

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9-]+")
_MOST_OF_A_NAME: Final = 60

_LEVELS: Final = 20
"""The number of parent folders to check, nearest first; each costs two small reads."""


class ObjectKind(StrEnum):
    """Kinds of stored objects."""

    PACK = "pack"
    INDEX = "index"
    FILE = "file"


class ObjectName(NamedTuple):
    """The parts of an object's path: stream, kind and the digest of its bytes."""

    stream: str
    sort: ObjectKind
    sha256: str


def manifest_path(stream: str, backup_id: str) -> str:
    return f"{folder(stream, 'backups')}/{_id(backup_id)}.json"


def pack_path(stream: str, sha256: str) -> str:
    return f"{folder(stream, 'packs')}/{_digest(sha256)}.tar.gz"


def index_path(stream: str, sha256: str) -> str:
    return f"{folder(stream, 'packs')}/{_digest(sha256)}.index.gz"


def file_path(stream: str, sha256: str) -> str:
    return f"{folder(stream, 'files')}/{_digest(sha256)}"


def check_path(stream: str, backup_id: str, number: int) -> str:
    return f"{checks_folder(stream, backup_id)}/{numbered(number)}.json"


def checks_folder(stream: str, backup_id: str) -> str:
    return f"{folder(stream, 'checks')}/{_id(backup_id)}"


def removal_path(stream: str, backup_id: str) -> str:
    return f"{folder(stream, 'removed')}/{_id(backup_id)}.json"


def hold_path(stream: str, hold_id: str) -> str:
    if not is_hold_id(hold_id):
        raise RecordError(f"{hold_id!r:.80} cannot be the id of a hold.")
    return f"{folder(stream, 'holds')}/{hold_id}.json"


def is_hold_id(text: str) -> bool:
    """Tell whether a text may be the id of a hold."""
    return _HOLD.fullmatch(text) is not None


def folder(stream: str, name: str) -> str:
    """Return one of a stream's folders."""
    return f"{check_folder_name(stream)}/{name}"


def object_name(path: str) -> ObjectName | None:
    """Parse the path of a pack, an index or a large file."""
    match = _OBJECT.fullmatch(path)
    if match is None or not is_path_part(match["stream"]):
        return None
    sort = next(sort for sort in ObjectKind if match[sort.value] is not None)
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


def name_for(checkpoint: str) -> str:
    """
    Return the name under which the backups of a checkpoint that is not ours are kept.

    Its last two folders, to be recognized, and a part of the digest, so that no two are one.
    """
    place = to_fsspec(checkpoint).rstrip("/")
    end = "/".join(place.split("/")[-2:])
    shown = _NOT_IN_NAMES.sub("-", end)[-_MOST_OF_A_NAME:].strip("-") or "checkpoint"
    return f"{shown}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def check_apart(first: str, second: str, *, what: str = "checkpoint", other: str) -> None:
    """
    Refuse two places that overlap, as spelled or after links are resolved.

    :param what: A name of the first place for the message; ``other`` names the second one.
    :raises SpecError: The places overlap; the message has both.
    """
    uris.check_apart(first, second, what=what, other=other)
    try:
        uris.check_apart(_real(first), _real(second), what=what, other=other)
    except SpecError as err:
        raise SpecError(f"{err} The given paths: {first} and {second}.") from err


def _real(uri: str) -> str:
    return os.path.realpath(local_path(uri)) if is_local(uri) else uri


def check_outside(place: Folders) -> None:
    """
    Refuse a place for something new that lies inside a checkpoint or a backup store.

    Above the first folder that may not be read, or cannot be just now, no look is taken: credentials
    are often good for one prefix, and a store that is away will say so when it is written.

    :raises SpecError: it does; both are named.
    """
    for above in folders_above(place):
        try:
            metadata, mark = _small(above, METADATA), _small(above, STORE)
        except HomeUnavailable:
            return
        if inside := _kind_of(metadata, mark):
            what, then = inside
            raise SpecError(
                f"{place.uri} lies inside {above.uri}, which is {what}: {then}. Nothing was written. Choose a "
                "place of its own."
            )


def _kind_of(metadata: bytes | None, mark: bytes | None) -> tuple[str, str] | None:
    """Return the kind of a folder with these files, and the store or checkpoint that a new place inside it would break."""
    if metadata is not None and parse_query_id(metadata) is not None:
        return "the checkpoint of a query", "Spark would find folders that it never made"
    if mark is not None and _STORE_KIND in mark:
        return "a backup store", "verification and retention would treat it as a part of the store"
    return None


def folders_above(place: Folders) -> Iterator[Folders]:
    """Return the folders above a place, nearest first, as far as a mark is looked for."""
    return islice(_above(place), _LEVELS)


def _above(place: Folders) -> Iterator[Folders]:
    there = place.elsewhere(METADATA)
    if there is None:
        folder = os.path.realpath(local_path(place.uri))
        while (folder := os.path.dirname(folder)) != "/":  # noqa: PTH120 - no Path is needed
            yield LocalFolders(folder)
        return
    uri, path = place.uri, there.path.removesuffix(f"/{METADATA}")
    while "/" in path.strip("/"):
        uri, path = uri.rpartition("/")[0], path.rpartition("/")[0]
        yield RemoteFolders(there.filesystem, path, uri)


def _small(folder: Folders, name: str) -> bytes | None:
    try:
        return folder.read(name, MAX_LOG_BYTES)
    except RecordError:
        # Our marker is a small regular file.
        return None
