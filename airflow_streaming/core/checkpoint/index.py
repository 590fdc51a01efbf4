"""
The index of a bundle: which members it holds, as a compressed table.

The first line is JSON and names the pack; every other line is one member, its fields parted by
tabs. Stock tools show it: ``zcat <sha256>.index.gz``. The digest of the compressed bytes is the
index's name and stands in the manifest, so a reader that has checked it reads what was written;
all the same nothing here believes a line before it has looked at it.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import zlib
from typing import Final

from airflow_streaming.core.checkpoint.backup import Bundle, Member
from airflow_streaming.core.wire import parse_json
from airflow_streaming.exceptions import RecordError

FORMAT: Final = 1

LARGE: Final = 1024 * 1024
"""Files of at least so many bytes are objects of their own; every other one goes into a pack."""

MAX_MEMBERS: Final = 16_384
"""Members of one bundle, those that are alone too."""

MAX_PACKED: Final = 32 * LARGE
"""Bytes of the members of one pack, uncompressed. Writers stop far below, at about 8 MiB."""

MAX_INDEX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an index, uncompressed: 16,384 paths of four thousand bytes."""

MAX_PATH_BYTES: Final = 1024

_GZIP: Final = 31
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_STAMP: Final = re.compile(r"(?:[A-Za-z0-9+/]{11})?")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
_PATH: Final = re.compile(f"{_PART}(?:/{_PART})*")


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
    """Return a ``FileStat`` stamp as it stands in an index; empty for an empty one."""
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
    squeeze = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return squeeze.compress(("\n".join(lines) + "\n").encode()) + squeeze.flush()


def decode_index(data: bytes) -> Bundle:
    """
    Read an index.

    :raises RecordError: not an index, too large, or of a format this release does not know.
    """
    text = _inflate(data)
    # Counted before it is split: a few kilobytes can inflate to many millions of empty lines.
    if text.count(b"\n") > MAX_MEMBERS + 1:
        raise RecordError(f"The index lists more than {MAX_MEMBERS} members.")
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError as err:
        raise RecordError("The index is not text.") from err
    if len(lines) < 2 or lines.pop():
        raise RecordError("The index does not end where a line ends.")
    pack, pack_size = _head(lines[0])
    bundle = Bundle(pack=pack, pack_size=pack_size, members=tuple(map(_member, lines[1:])))
    _check_bundle(bundle)
    return bundle


def _inflate(data: bytes) -> bytes:
    inflate = zlib.decompressobj(_GZIP)
    try:
        text = inflate.decompress(data, MAX_INDEX_BYTES)
    except zlib.error as err:
        raise RecordError(f"The index cannot be decompressed: {err}.") from err
    if not inflate.eof or inflate.unused_data:
        raise RecordError("The index is cut off, too large, or has something behind its end.")
    return text


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
        raise RecordError(f"The index has a line that is no member: {line!r:.80}.") from err
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
        raise RecordError("The index has a digest that is none.") from err
    if len(digest) != 32:
        raise RecordError("The index has a digest that is none.")
    return digest.hex()
