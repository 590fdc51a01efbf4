"""
The index of a bundle, and the sealed manifest of a backup.

Every set of numbers has one spelling; others are refused.

The first line of an index is JSON and names the pack; every other line is one member with
tab-separated fields. Stock tools show it: ``zcat <sha256>.index.gz``. The index is named by the
digest of its compressed bytes, and the manifest holds that digest. The parser still checks every
line.

The manifest is one JSON object, ``{"backup": {...}, "sha256": "..."}``. The checksum covers the
exact bytes of the record, including spaces, and is checked before parsing.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.checkpoints.backup.records import Backup, Bundle, BundleUse, Member
from airflow_streaming.checkpoints.backup.squeeze import fast_compressor
from airflow_streaming.exceptions import BackupDamaged, RecordError, closed
from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.wire import MAX_RECORD_BYTES, parse_json

_RANGE = re.compile(r"(0|[1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?")

FORMAT: Final = 1
LARGE: Final = 1024 * 1024
"""Files of at least so many bytes are objects of their own; every other one goes into a pack."""
MAX_MEMBERS: Final = 16_384
"""Members of one bundle, including single files."""
MAX_PACKED: Final = 32 * LARGE
"""Bytes of the members of one pack, uncompressed. Writers stop far below, at about 8 MiB."""
MAX_PATH_BYTES: Final = 1024
MAX_LINE_BYTES: Final = 1280
"""Bytes of one line: a path with its size, digest and stamp."""
MAX_INDEX_BYTES: Final = MAX_MEMBERS * MAX_LINE_BYTES
"""Bytes of an index, compressed or not."""
_CHUNK: Final = 64 * 1024
_GZIP: Final = 31
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_STAMP: Final = re.compile(r"(?:[A-Za-z0-9+/]{11})?")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
_FOLDER: Final = re.compile(_PART)
_PATH: Final = re.compile(f"{_PART}(?:/{_PART})*")

_ID: Final = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9A-Za-z]+")
_BEGIN: Final = b'{"backup": '
_MIDDLE: Final = b', "sha256": "'
_END: Final = b'"}\n'
_TAIL: Final = re.compile(re.escape(_MIDDLE) + rb"([0-9a-f]{64})" + re.escape(_END))
_TAIL_BYTES: Final = len(_MIDDLE) + 64 + len(_END)
MAX_MANIFEST_BYTES: Final = MAX_RECORD_BYTES + len(_BEGIN) + _TAIL_BYTES


def to_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text; their order and repetitions do not matter."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def from_ranges(text: str, count: int) -> tuple[int, ...]:
    """
    Parse ranges into numbers, in order.

    :param count: All numbers are below this.
    :raises RecordError: The text is invalid, empty, not in order, or a number is too large.
    """
    numbers: list[int] = []
    free = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = _bounds(match) if match else (-1, -1)
        if match is None or low < free or high >= count:
            raise RecordError(f"{text!r:.60} does not choose from {count} members.")
        numbers.extend(range(low, high + 1))
        # Ranges that touch would be one range.
        free = high + 2
    return tuple(numbers)


def _bounds(match: re.Match[str]) -> tuple[int, int]:
    low = int(match[1])
    if match[2] is None:
        return low, low
    high = int(match[2])
    return (low, high) if high > low else (-1, -1)


def check_member_path(path: str) -> str:
    """
    Return a path that a member may have: it stays below the folder it is restored to.

    :raises RecordError: absolute, with empty parts, ``.`` or ``..``, with control characters, no
        Unicode, or longer than ``MAX_PATH_BYTES``.
    """
    if _PATH.fullmatch(path) is None or len(path.encode()) > MAX_PATH_BYTES:
        raise RecordError(f"{path!r:.200} cannot be the path of a file in a backup.")
    return path


def stamp_digest(stamp: str) -> str:
    """Return a ``FileStat`` stamp as an index stores it; empty for an empty one."""
    if not stamp:
        return ""
    digest = hashlib.blake2b(stamp.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return _base64(digest)


def is_sha256(text: str) -> bool:
    """Tell whether a text is a digest in hexadecimal digits, as objects are named."""
    return _SHA256.fullmatch(text) is not None


def encode_index(bundle: Bundle) -> bytes:
    """Return the index of a bundle; equal bundles have equal indexes."""
    head = {"format": FORMAT, "pack": bundle.pack, "pack_size": bundle.pack_size}
    lines = [json.dumps(head, sort_keys=True)]
    lines += [
        f"{m.path}\t{m.size}\t{_base64(bytes.fromhex(m.sha256))}\t{m.stamp}\t"
        f"{'1' if m.is_alone else ''}"
        for m in bundle.members
    ]
    squeeze = fast_compressor()
    return squeeze.compress(("\n".join(lines) + "\n").encode()) + squeeze.flush()


def decode_index(data: bytes) -> Bundle:
    """
    Read an index.

    :raises RecordError: not an index, too large, or of a format this release does not know.
    """
    # Line by line: a few kilobytes can inflate to gigabytes, so the first invalid line ends it.
    lines = _lines(data)
    pack, pack_size = _head(next(lines, ""))
    members: list[Member] = []
    for line in lines:
        if len(members) == MAX_MEMBERS:
            raise RecordError(f"The index lists more than {MAX_MEMBERS} members.")
        members.append(_member(line))
    bundle = Bundle(pack=pack, pack_size=pack_size, members=tuple(members))
    _check_bundle(bundle)
    return bundle


def _lines(data: bytes) -> Iterator[str]:
    rest = b""
    for chunk in _inflated(data):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _text(line)
        if len(rest) > MAX_LINE_BYTES:
            raise RecordError(f"The index has a line of more than {MAX_LINE_BYTES} bytes.")
    if rest:
        raise RecordError("The index does not end where a line ends.")


def _inflated(data: bytes) -> Iterator[bytes]:
    inflate = zlib.decompressobj(_GZIP)
    while not inflate.eof:
        try:
            chunk = inflate.decompress(data, _CHUNK)
        except zlib.error as err:
            raise RecordError(f"The index cannot be decompressed: {closed(err)}") from err
        if not chunk and not inflate.eof:
            break
        data = inflate.unconsumed_tail
        yield chunk
    if not inflate.eof or inflate.unused_data:
        raise RecordError("The index is cut off or has something behind its end.")


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as err:
        raise RecordError("The index is not text.") from err


def _head(line: str) -> tuple[str, int]:
    head = parse_json(line.encode(), limit=1024)
    if head.get("format") != FORMAT or isinstance(head["format"], bool):
        raise RecordError(
            f"This release reads indexes of format {FORMAT}, found {head.get('format')!r:.20}. "
            "Upgrade airflow-streaming where the backup is read."
        )
    pack, size = head.get("pack"), head.get("pack_size")
    if not isinstance(pack, str) or not (pack == "" or is_sha256(pack)):
        raise RecordError("The index does not name its pack.")
    if type(size) is not int or not 0 <= size <= 2 * MAX_PACKED or (size == 0) != (pack == ""):
        raise RecordError("The index does not tell the size of its pack.")
    return pack, size


def _member(line: str) -> Member:
    try:
        path, size, digest, stamp, alone = line.split("\t")
    except ValueError as err:
        raise RecordError(f"Invalid member line in the index: {line!r:.80}.") from err
    check_member_path(path)
    if not (_SIZE.fullmatch(size) and _STAMP.fullmatch(stamp) and alone in {"", "1"}):
        raise RecordError(f"The index has a wrong line for {path!r:.200}.")
    return Member(
        path=path, size=int(size), sha256=_hex(digest), stamp=stamp, is_alone=alone == "1"
    )


def _check_bundle(bundle: Bundle) -> None:
    packed = [member.size for member in bundle.members if not member.is_alone]
    if not bundle.members or len({member.path for member in bundle.members}) < len(bundle.members):
        raise RecordError("The index lists no member, or one path twice.")
    if bool(packed) != bool(bundle.pack):
        raise RecordError("The index and its pack do not belong together.")
    if sum(packed) > MAX_PACKED or max(packed, default=0) >= LARGE:
        raise RecordError("The index lists more in its pack than a pack can hold.")


def _base64(digest: bytes) -> str:
    return binascii.b2a_base64(digest, newline=False).decode().rstrip("=")


def _hex(text: str) -> str:
    try:
        digest = binascii.a2b_base64(text + "=", strict_mode=True)
    except (binascii.Error, ValueError) as err:
        raise RecordError("Invalid SHA-256 digest in the index.") from err
    if len(digest) != 32:
        raise RecordError("Invalid SHA-256 digest in the index.")
    return digest.hex()


def backup_id(now: datetime, token: str) -> str:
    """Return an id for a backup begun now: its time in UTC and a random token."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S-%f}-{token}"


def is_backup_id(text: str) -> bool:
    """Tell whether a text has the form that ``backup_id`` gives."""
    return _ID.fullmatch(text) is not None


def seal(backup: Backup) -> bytes:
    """
    Return the manifest of a backup.

    :raises RecordError: The backup's fields are wrong or too large for a reader.
    """
    _check(backup)
    record = backup.to_bytes().rstrip(b"\n")
    return _BEGIN + record + _MIDDLE + hashlib.sha256(record).hexdigest().encode() + _END


def unseal(data: bytes) -> Backup:
    """
    Read a manifest.

    :raises BackupDamaged: The checksum does not match.
    :raises RecordError: The manifest is intact, and this release cannot read it.
    """
    record, tail = data[len(_BEGIN) : -_TAIL_BYTES], _TAIL.fullmatch(data[-_TAIL_BYTES:])
    if len(data) > MAX_MANIFEST_BYTES or not data.startswith(_BEGIN) or tail is None:
        raise BackupDamaged("The manifest is truncated or not a manifest.")
    if hashlib.sha256(record).hexdigest().encode() != tail[1]:
        raise BackupDamaged("The manifest was changed after it was written: its checksum is wrong.")
    backup = Backup.from_bytes(record)
    _check(backup)
    return backup


def _check(backup: Backup) -> None:
    if not is_path_part(backup.id) or not is_path_part(backup.stream):
        raise RecordError(
            f"A backup cannot be called {backup.id!r:.120} of {backup.stream!r:.120}."
        )
    for query in backup.queries:
        # It becomes a folder below the place that the backup is restored to.
        if query.folder and _FOLDER.fullmatch(query.folder) is None:
            raise RecordError(
                f"Backup {backup.id} names a query {query.folder!r:.120}, which cannot be a folder."
            )
    if len({use.index for use in backup.bundles}) < len(backup.bundles):
        raise RecordError(f"Backup {backup.id} names a bundle twice.")
    chosen = sum(_chosen(use) for use in backup.bundles)
    if chosen != backup.files or backup.size < 0:
        raise RecordError(
            f"Backup {backup.id} says that it has {backup.files} files, and names {chosen}."
        )


def _chosen(use: BundleUse) -> int:
    if not is_sha256(use.index) or not 0 < use.index_size <= MAX_INDEX_BYTES:
        raise RecordError(f"{use.index!r:.80} cannot be an index of {use.index_size} bytes.")
    return len(from_ranges(use.chosen, MAX_MEMBERS))
