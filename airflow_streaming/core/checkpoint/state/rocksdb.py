"""
The zip of a RocksDB state version: RocksDB's small files, and which SST files belong to it.

SST files never change once written, so Spark uploads each once and every zip after that only names
it. RocksDB's own write-ahead logs are named likewise where they are not in the zip.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from airflow_streaming.core.checkpoint.state.stores import LOG_FOLDER, SST_FOLDER
from airflow_streaming.core.checkpoint.texts import count, items, json_object, mapping, string
from airflow_streaming.exceptions import RecordError

MAX_ENTRIES: Final = 10_000
MAX_UNPACKED: Final = 256 * 1024 * 1024
"""Bytes that are unpacked at most; a MANIFEST may grow large."""

_MAX_METADATA: Final = 16 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_FILE_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,250}", re.ASCII)
_HEAD: Final = "v1\n"

# What zipfile raises on files that are no zips or broken ones; it documents only the first.
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)

_MAGICS: Final = (
    bytes.fromhex("f7cff485b741e288"),
    bytes.fromhex("57fb808b247547db"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksFile:
    """
    A file that a zip names.

    :param local_name: Its name in RocksDB's own folder, e.g. ``000012.sst``.
    :param path: Where it lies in the store's folder, e.g. ``SSTs/000012-<uuid>.sst``.
    :param size: Bytes.
    """

    local_name: str
    path: str
    size: int


def parse_zip(data: bytes) -> tuple[RocksFile, ...]:
    """
    Return the files that a zip names.

    :raises RecordError: it is no zip, or its list of files is missing, too large or no such list.
    """
    with _open(data) as archive:
        text = _metadata(archive)
    if not text.startswith(_HEAD):
        raise RecordError("The list of files in the zip is not of version 1.")
    listed = json_object(text.removeprefix(_HEAD), "list of files in the zip", limit=_MAX_METADATA)
    tables = _files(listed, "sstFiles", "dfsSstFileName", SST_FOLDER)
    return tables + _files(listed, "logFiles", "dfsLogFileName", LOG_FOLDER)


def verify_zip(data: bytes) -> None:
    """
    Unpack a zip and compare every entry with its checksum.

    A zip that would unpack to more than 256 MiB is only judged by its directory.

    :raises RecordError: it is no zip, or an entry is damaged.
    """
    with _open(data) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED:
            return
        for entry in archive.infolist():
            _drain(archive, entry)


def is_table(data: bytes) -> bool:
    """Tell whether the bytes end as an SST file does."""
    return data.endswith(_MAGICS)


def _open(data: bytes) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except _BROKEN as err:
        raise RecordError(f"It is not a whole zip: {err}.") from err
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise RecordError(f"The zip has more than {MAX_ENTRIES} entries.")
    if not all(entry.compress_type in _METHODS for entry in entries):
        raise RecordError("The zip is compressed in a way that Spark never uses.")
    return archive


def _metadata(archive: zipfile.ZipFile) -> str:
    try:
        with archive.open("metadata") as file:
            content = file.read(_MAX_METADATA + 1)
    except KeyError as err:
        raise RecordError("The zip has no list of its files.") from err
    except _BROKEN as err:
        raise RecordError(f"The list of files in the zip is damaged: {err}.") from err
    if len(content) > _MAX_METADATA:
        raise RecordError("The list of files in the zip is too large.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as err:
        raise RecordError("The list of files in the zip is not text.") from err


def _drain(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    try:
        with archive.open(entry) as file:
            while file.read(_CHUNK):
                pass
    except _BROKEN as err:
        raise RecordError(f"The entry {entry.filename!r} of the zip is damaged: {err}.") from err


def _files(
    listed: dict[str, Any], field: str, name_field: str, folder: str
) -> tuple[RocksFile, ...]:
    found = items(listed.get(field) or [], field)
    return tuple(_file(mapping(file, field), name_field, folder) for file in found)


def _file(file: dict[str, Any], name_field: str, folder: str) -> RocksFile:
    name = string(file.get(name_field), name_field)
    if not _FILE_NAME.fullmatch(name):
        raise RecordError(f"The zip names a file {name!r}, which cannot be one of RocksDB's.")
    return RocksFile(
        local_name=string(file.get("localFileName"), "localFileName"),
        path=f"{folder}/{name}",
        size=count(file.get("sizeBytes"), "sizeBytes"),
    )
