"""
Checksum files: Hadoop's hidden ones and Spark's own.

Hadoop keeps ``.X.crc`` beside a file ``X`` of a local disk, with a CRC32 of every 512 bytes. Spark
4.1 and later keep a visible ``X.crc`` beside a state file, with its size and one CRC32C.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Final

from airflow_streaming.core.checkpoint.texts import count, integer, json_object, string
from airflow_streaming.exceptions import RecordError

MAX_SIDECAR_BYTES: Final = 64 * 1024

_HADOOP_HEAD: Final = struct.Struct(">4si")
_HADOOP_MAGIC: Final = b"crc\0"
_POLYNOMIAL: Final = 0x82F63B78
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """
    What a visible checksum file says of its file.

    :param algorithm: ``CRC32C``; others are not known here.
    :param checksum: The file's, from 0 to 2**32 - 1.
    :param size: The file's bytes.
    """

    algorithm: str
    checksum: int
    size: int


def parse_sidecar(data: bytes) -> Sidecar:
    """
    Parse a visible checksum file.

    :raises RecordError: it is too large or not such a file.
    """
    if len(data) > MAX_SIDECAR_BYTES:
        raise RecordError(f"The checksum file is larger than {MAX_SIDECAR_BYTES} bytes.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise RecordError("The checksum file is not text.") from err
    parsed = json_object(text, "checksum file", limit=MAX_SIDECAR_BYTES)
    return Sidecar(
        algorithm=string(parsed.get("algorithm"), "algorithm"),
        # Java's numbers have a sign.
        checksum=integer(parsed.get("value"), "value") & _MASK,
        size=count(parsed.get("mainFileSize"), "mainFileSize"),
    )


def agrees_with_hadoop(data: bytes, checksums: bytes) -> bool:
    """
    Tell whether a file agrees with the content of its hidden checksum file.

    A checksum file without a proper head tells nothing, so the file agrees: Hadoop passes over it
    too.
    """
    if len(checksums) < _HADOOP_HEAD.size:
        return True
    magic, chunk = _HADOOP_HEAD.unpack_from(checksums)
    if magic != _HADOOP_MAGIC or chunk <= 0:
        return True
    view = memoryview(data)
    sums = [zlib.crc32(view[begin : begin + chunk]) for begin in range(0, len(data), chunk)]
    return checksums[_HADOOP_HEAD.size :] == struct.pack(f">{len(sums)}I", *sums)


def crc32c(data: bytes) -> int:
    """Return the CRC32C of all bytes, from 0 to 2**32 - 1, at some 15 MB a second."""
    low, high = _tables()
    worded = len(data) - len(data) % 4
    state = _MASK
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:worded]):
        state ^= word
        state = low[state & 0xFFFF] ^ high[state >> 16]
    for byte in data[worded:]:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
    return state ^ _MASK


@cache
def _tables() -> tuple[list[int], list[int]]:
    # Four bytes a step by two tables of two bytes each: Python pays by the step.
    single = [_shifted(byte, 8) for byte in range(256)]
    high = [_by_bytes(single, value, 2) for value in range(1 << 16)]
    low = [_by_bytes(single, value, 2) for value in high]
    return low, high


def _shifted(value: int, bits: int) -> int:
    for _ in range(bits):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


def _by_bytes(single: list[int], value: int, times: int) -> int:
    for _ in range(times):
        value = single[value & 0xFF] ^ value >> 8
    return value
