"""
The zip of a RocksDB state version: RocksDB's small files, and which SST files belong to it.

SST files never change once written, so Spark uploads each once and every zip after that only names
it. RocksDB's own write-ahead logs are named likewise where they are not in the zip.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from airflow_streaming.checkpoints.state.stores import LOG_FOLDER, SST_FOLDER
from airflow_streaming.exceptions import RecordError, closed
from airflow_streaming.model.spark.logs import count, items, json_object, mapping, string

MAX_ENTRIES: Final = 10_000
MAX_UNPACKED: Final = 256 * 1024 * 1024
"""Bytes that are unpacked at most; a MANIFEST may grow large."""
_MAX_METADATA: Final = 16 * 1024 * 1024
_MAX_DIRECTORY: Final = MAX_ENTRIES * 512
"""Bytes of the zip's directory; an entry of Spark's takes 46 and its name."""
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_LONGEST_COMMENT: Final = 0xFFFF
_LOCATOR_64: Final = b"PK\x06\x07"
_LOCATOR_64_SIZE: Final = 20
_ENTRY: Final = b"PK\x01\x02"
_CHUNK: Final = 256 * 1024
_TOO_MANY: Final = f"The zip has more than {MAX_ENTRIES} entries."
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_FILE_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,250}", re.ASCII)
_HEAD: Final = "v1\n"
# Exceptions of zipfile on other or broken files; it documents only the first.
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
    :param path: Its path in the store's folder, e.g. ``SSTs/000012-<uuid>.sst``.
    :param size: Bytes.
    """

    local_name: str
    path: str
    size: int


def parse_zip(data: bytes) -> tuple[RocksFile, ...]:
    """
    Return the files that a zip names.

    :raises RecordError: Not a zip, or its list of files is missing, too large or invalid.
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

    A zip that would unpack to more than 256 MiB is checked by its directory only.

    :raises RecordError: Not a zip, or an entry is damaged.
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
    _check_directory(data)
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except _BROKEN as err:
        raise RecordError(f"It is not a whole zip: {closed(err)}") from err
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise RecordError(_TOO_MANY)
    if not all(entry.compress_type in _METHODS for entry in entries):
        raise RecordError("The zip is compressed in a way that Spark never uses.")
    return archive


def _check_directory(data: bytes) -> None:
    """
    Refuse a directory that is too large, before ``zipfile`` makes an object of every entry.

    Without a directory, ``zipfile`` raises an error itself.
    """
    end = _end_of_directory(data)
    if end is None:
        return
    told, size = struct.unpack_from("<HL", data, end + 10)
    locator = end - _LOCATOR_64_SIZE
    is_64 = locator >= 0 and data.startswith(_LOCATOR_64, locator)
    # The record may lie about the count; zipfile uses the size, and so does this count.
    entries = data.count(_ENTRY, max(0, end - size), end)
    if is_64 or told > MAX_ENTRIES or entries > MAX_ENTRIES:
        raise RecordError(_TOO_MANY)
    if size > _MAX_DIRECTORY:
        raise RecordError(f"The directory of the zip has more than {_MAX_DIRECTORY} bytes.")


def _end_of_directory(data: bytes) -> int | None:
    """Return where the record is that ends the directory, found as ``zipfile`` finds it."""
    last = len(data) - _END_SIZE
    if last < 0:
        return None
    if data.startswith(_END, last) and data.endswith(b"\0\0"):
        return last
    found = data.rfind(_END, max(0, last - _LONGEST_COMMENT))
    return found if 0 <= found <= last else None


def _metadata(archive: zipfile.ZipFile) -> str:
    try:
        with archive.open("metadata") as file:
            content = file.read(_MAX_METADATA + 1)
    except KeyError as err:
        raise RecordError("The zip has no list of its files.") from err
    except _BROKEN as err:
        raise RecordError(f"The list of files in the zip is damaged: {closed(err)}") from err
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
        raise RecordError(
            f"The entry {entry.filename!r} of the zip is damaged: {closed(err)}"
        ) from err


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
