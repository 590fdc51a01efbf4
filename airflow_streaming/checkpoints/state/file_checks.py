"""
Damage in files that can be detected without Spark: checksums, block structure, edits.

Hadoop keeps ``.X.crc`` beside a file ``X`` of a local disk, with a CRC32 of every 512 bytes. Spark
4.1 and later keep a visible ``X.crc`` beside a state file, with its size and one CRC32C.

Every file is checked by its own sizes, end marks and checksums. A file without them, e.g.
compressed by an unknown codec, is not checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from airflow_streaming.checkpoints.read.report import Finding, FindingCode
from airflow_streaming.checkpoints.state import lz4
from airflow_streaming.checkpoints.state.chain import Chain
from airflow_streaming.checkpoints.state.rocksdb import is_table, verify_zip
from airflow_streaming.checkpoints.state.stores import SIDECAR, StateForm
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import count, integer, json_object, string

MAX_SIDECAR_BYTES: Final = 64 * 1024
_HADOOP_HEAD: Final = struct.Struct(">4si")
_HADOOP_MAGIC: Final = b"crc\0"
_POLYNOMIAL: Final = 0x82F63B78
_MASK: Final = 0xFFFFFFFF

MAX_READ: Final = 64 * 1024 * 1024
MAX_THOROUGH_READ: Final = 256 * 1024 * 1024
_MAX_UNPACKED: Final = 256 * 1024 * 1024
_COMPRESSED: Final = (
    f".{StateForm.DELTA}",
    f".{StateForm.SNAPSHOT}",
    f".{StateForm.CHANGELOG}",
)
# How files begin that Spark compresses with its other codecs: zstd, snappy and LZF.
_OTHER_CODECS: Final = (bytes.fromhex("28b52ffd"), b"\x82SNAPPY\x00", b"ZV")
_REMEDY: Final = "Restore a verified backup, or copy the checkpoint back to an earlier batch."

_MOST: Final = 1024 * 1024
"""Four bytes of checksum for each 512 bytes of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """
    The content of a visible checksum file.

    :param algorithm: ``CRC32C``; others are unknown here.
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


def check_files(
    chain: Chain,
    listing: Listing,
    read: Read,
    *,
    thorough: bool = False,
    checksums: bool = False,
) -> list[Finding]:
    """
    Check the files of a chain, with at most one finding a file.

    Compressed files are walked to their end mark, zips are unpacked against their checksums, SST
    files must end as one, and checksum files of Hadoop and Spark must hold. Of files over 64 MiB
    only the size is checked. The findings of ``files_for``, ``avoided`` and ``conflict``, are not
    repeated.

    :param thorough: Also verify Spark's CRC32C and the checksums inside LZ4 blocks, some 2 to 15 MB
        a second, and read files of up to 256 MiB.
    :param checksums: Also verify Spark's CRC32C, some 20 MB a second.
    :raises HomeUnavailable: the checkpoint cannot be read.
    """
    findings: list[Finding] = []
    check = _Check(chain, listing, read, thorough, thorough or checksums, {})
    for path in chain.files:
        wrong = next(check.run(path), None)
        if wrong is not None:
            findings.append(wrong)
    return [*findings, *check.foreign()]


@dataclass(frozen=True, slots=True)
class _Check:
    """
    A check of a chain.

    :param codecs: Whether the codec of each compressed file is one of Spark's.
    """

    chain: Chain
    listing: Listing
    read: Read
    thorough: bool
    checksums: bool
    codecs: dict[str, bool]

    def run(self, path: str) -> Iterator[Finding]:
        stat = self.listing.stat(path)
        if stat is None:
            yield self._missing(path)
            return
        named = self.chain.sizes.get(path, stat.size)
        if stat.size != named:
            yield self._wrong(path, f"has {stat.size} bytes, not the {named} that its zip names.")
        sidecar = self._sidecar(path)
        if sidecar is not None and stat.size != sidecar.size:
            message = f"has {stat.size} bytes, not the {sidecar.size} of its checksum file."
            yield self._wrong(path, message)
        if stat.size <= (MAX_THOROUGH_READ if self.thorough else MAX_READ):
            yield from self._content(path, sidecar)

    def foreign(self) -> Iterator[Finding]:
        """Return files of no codec at all, where others of the chain have one: Spark keeps to it."""
        if any(self.codecs.values()):
            for path in (path for path, is_known in self.codecs.items() if not is_known):
                yield self._wrong(path, "does not begin as the other files of its store do.")

    def _content(self, path: str, sidecar: Sidecar | None) -> Iterator[Finding]:
        data = self._read_as_listed(path, MAX_THOROUGH_READ)
        if data is None:
            return
        try:
            self._judge(path, data)
        except RecordError as err:
            yield self._wrong(path, f"is damaged. {err}")
        folder, _, name = path.rpartition("/")
        checksums = self._data(f"{folder}/.{name}.crc", len(data) + 8)
        if checksums is not None and not agrees_with_hadoop(data, checksums):
            yield self._wrong(path, "differs from the checksums that Hadoop keeps of it.")
        if sidecar is not None and self.checksums and not _agrees(data, sidecar):
            yield self._wrong(path, "differs from the checksum that Spark keeps of it.")

    def _judge(self, path: str, data: bytes) -> None:
        if path.endswith(SIDECAR):
            parse_sidecar(data)
        elif path.endswith(f".{StateForm.ZIP}"):
            verify_zip(data)
        elif path.endswith(".sst") and not is_table(data):
            raise RecordError("It does not end as an SST file does.")
        elif path.endswith(_COMPRESSED):
            self._judge_compressed(path, data)

    def _judge_compressed(self, path: str, data: bytes) -> None:
        is_lz4 = data.startswith(lz4.MAGIC) or lz4.MAGIC.startswith(data)
        self.codecs[path] = is_lz4 or data.startswith(_OTHER_CODECS)
        if is_lz4:
            _walk(data, thorough=self.thorough)

    def _sidecar(self, path: str) -> Sidecar | None:
        data = self._data(path + SIDECAR, MAX_SIDECAR_BYTES)
        try:
            return None if data is None else parse_sidecar(data)
        except RecordError:
            # It is a file of the chain itself, and its own check says so.
            return None

    def _data(self, path: str, limit: int) -> bytes | None:
        return None if self.listing.stat(path) is None else self._read_as_listed(path, limit)

    def _read_as_listed(self, path: str, limit: int) -> bytes | None:
        try:
            return self.read(path, limit)
        except RecordError:
            # It grew since the walk, which is not damage.
            return None

    def _missing(self, path: str) -> Finding:
        return Finding(
            code=FindingCode.STATE_VERSION_MISSING,
            path=path,
            message=f"{path} is missing. {_fails(self.chain.state_version)} {_REMEDY}",
        )

    def _wrong(self, path: str, text: str) -> Finding:
        return Finding(
            code=FindingCode.STATE_FILE_DAMAGED,
            path=path,
            message=f"{path} {text} {_fails(self.chain.state_version)} {_REMEDY}",
        )


def _walk(data: bytes, *, thorough: bool) -> None:
    unpacked = 0
    for block in lz4.blocks(data):
        if thorough and unpacked < _MAX_UNPACKED:
            unpacked += len(lz4.unpack(block))


def _agrees(data: bytes, sidecar: Sidecar) -> bool:
    return sidecar.algorithm != "CRC32C" or crc32c(data) == sidecar.checksum


def _fails(version: int) -> str:
    return f"Spark cannot load state version {version} with it (CANNOT_LOAD_STATE_STORE)."


def edited(listing: Listing, read: Read, path: str, data: bytes) -> Iterator[Finding]:
    """Return a finding when a log file is not what its checksum file was made of."""
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
    stat = listing.stat(hidden)
    if stat is None or stat.size > _MOST:
        return
    try:
        checksums = read(hidden, _MOST)
    except RecordError:
        return
    if checksums is not None and not agrees_with_hadoop(data, checksums):
        yield Finding(
            code=FindingCode.LOG_EDITED,
            path=path,
            message=(
                f"{path} differs from its checksum in {hidden}: it was edited, overwritten or "
                "damaged. Spark does not read the checksum and continues from the present "
                f"content. If the edit was intended, delete {hidden}; else restore a verified "
                "backup into a new place."
            ),
        )
