"""
LZ4 blocks as Spark writes them; plain Python, faster where ``lz4`` and ``xxhash`` are installed.

Spark compresses state files with LZ4 by default, as a sequence of blocks: a header with the length
of the payload, the payload (compressed or stored), and an empty block as the end mark. So a torn
file is found without decompressing anything.

The compiled libraries never change an answer. What ``lz4`` refuses is decoded once more in Python:
it asks for five literal bytes at the end of a block, which the format's readers do not need.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from airflow_streaming.exceptions import RecordError

try:
    import lz4.block as _lz4
    import xxhash as _xxhash
except ImportError:
    compiled_lz4: Any = None
    compiled_xxhash: Any = None
else:
    compiled_lz4, compiled_xxhash = _lz4, _xxhash

_P1: Final = 0x9E3779B1
_P2: Final = 0x85EBCA77
_P3: Final = 0xC2B2AE3D
_P4: Final = 0x27D4EB2F
_P5: Final = 0x165667B1
_MASK: Final = 0xFFFFFFFF
_STRIPE: Final = 16

MAGIC: Final = b"LZ4Block"
_HEADER: Final = struct.Struct("<8sBiiI")
_RAW: Final = 0x10
_PACKED: Final = 0x20
_SEED: Final = 0x9747B28C
_CHECKED_BITS: Final = 0x0FFFFFFF


def xxhash32(data: bytes, seed: int) -> int:
    """Return the hash of all bytes."""
    if compiled_xxhash is not None:
        return int(compiled_xxhash.xxh32_intdigest(data, seed))
    return _python_xxhash32(data, seed)


def _python_xxhash32(data: bytes, seed: int) -> int:
    striped = len(data) - len(data) % _STRIPE
    state = _stripes(data[:striped], seed) if striped else (seed + _P5) & _MASK
    state = (state + len(data)) & _MASK
    worded = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[striped:worded]):
        state = (_rotate((state + word * _P3) & _MASK, 17) * _P4) & _MASK
    for byte in data[worded:]:
        state = (_rotate((state + byte * _P5) & _MASK, 11) * _P1) & _MASK
    return _mix(state)


def _stripes(data: bytes, seed: int) -> int:
    # Written out lane by lane: calls or a loop over lanes would make it three times as slow.
    a, b = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK
    c, d = seed & _MASK, (seed - _P1) & _MASK
    for one, two, three, four in struct.iter_unpack("<4I", data):
        a = (a + one * _P2) & _MASK
        a = ((a << 13 | a >> 19) * _P1) & _MASK
        b = (b + two * _P2) & _MASK
        b = ((b << 13 | b >> 19) * _P1) & _MASK
        c = (c + three * _P2) & _MASK
        c = ((c << 13 | c >> 19) * _P1) & _MASK
        d = (d + four * _P2) & _MASK
        d = ((d << 13 | d >> 19) * _P1) & _MASK
    return (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK


def _mix(state: int) -> int:
    state ^= state >> 15
    state = (state * _P2) & _MASK
    state ^= state >> 13
    state = (state * _P3) & _MASK
    return state ^ state >> 16


class Block(NamedTuple):
    """
    A block.

    :param payload: Its bytes, packed or not.
    :param size: Bytes unpacked; 0 for an end mark.
    :param checksum: The checksum of the unpacked bytes.
    """

    payload: memoryview
    is_packed: bool
    size: int
    checksum: int


def blocks(data: bytes) -> Iterator[Block]:
    """
    Walk the blocks up to the last end mark.

    :raises RecordError: a header is invalid, a block is truncated, or the end mark is missing.
    """
    view = memoryview(data)
    position, is_ended = 0, False
    while position < len(data):
        block, position = _block_at(view, position)
        is_ended = block.size == 0
        yield block
    if not is_ended:
        raise RecordError("It is cut off: the end mark is missing.")


def decompress(data: bytes, limit: int) -> bytes:
    """
    Unpack the beginning.

    :param limit: Stop after the block with which this many bytes are reached; a block has at most
        32 MiB.
    :raises RecordError: a block is damaged.
    """
    unpacked = bytearray()
    for block in blocks(data):
        unpacked += unpack(block)
        if len(unpacked) >= limit:
            break
    return bytes(unpacked)


def unpack(block: Block) -> bytes:
    """
    Unpack a block and compare it with its checksum.

    :raises RecordError: it is damaged.
    """
    content = _unpack(bytes(block.payload), block.size) if block.is_packed else bytes(block.payload)
    if block.size and xxhash32(content, _SEED) & _CHECKED_BITS != block.checksum:
        raise RecordError("A block differs from its checksum.")
    return content


def _block_at(view: memoryview, position: int) -> tuple[Block, int]:
    begin = position + _HEADER.size
    if begin > len(view):
        raise RecordError("It is cut off within the header of a block.")
    magic, token, packed_size, size, checksum = _HEADER.unpack_from(view, position)
    method = token & 0xF0
    if magic != MAGIC or not _is_sane(method, token & 0x0F, packed_size, size):
        raise RecordError(f"Invalid block header at byte {position}.")
    end = begin + packed_size
    if end > len(view):
        raise RecordError("It is cut off within a block.")
    return Block(view[begin:end], method == _PACKED, size, checksum), end


def _is_sane(method: int, level: int, packed_size: int, size: int) -> bool:
    if method not in (_RAW, _PACKED) or not 0 <= size <= 1 << (10 + level):
        return False
    if method == _RAW or size == 0:
        return packed_size == size
    return packed_size > 0


def _unpack(source: bytes, size: int) -> bytes:
    if compiled_lz4 is not None and size:
        try:
            content: bytes = compiled_lz4.decompress(source, uncompressed_size=size)
        except (compiled_lz4.LZ4BlockError, ValueError):
            return _python_unpack(source, size)
        if len(content) == size:
            return content
    return _python_unpack(source, size)


def _python_unpack(source: bytes, size: int) -> bytes:
    try:
        return _sequences(source, size)
    except IndexError as err:
        raise RecordError("A block ends within a sequence.") from err


def _sequences(source: bytes, size: int) -> bytes:
    # A sequence is some bytes as they are and a repetition of bytes before; the last has no
    # repetition.
    target = bytearray()
    position = 0
    while True:
        token = source[position]
        literals, position = _length(source, position + 1, token >> 4)
        target += source[position : position + literals]
        position += literals
        if position >= len(source):
            break
        distance = source[position] | source[position + 1] << 8
        repeated, position = _length(source, position + 2, token & 0x0F)
        _repeat(target, distance, repeated + 4, size)
    if position != len(source) or len(target) != size:
        raise RecordError("A block does not unpack to its size.")
    return bytes(target)


def _length(source: bytes, position: int, short: int) -> tuple[int, int]:
    if short < 15:
        return short, position
    while (more := source[position]) == 255:
        short += 255
        position += 1
    return short + more, position + 1


def _repeat(target: bytearray, distance: int, length: int, size: int) -> None:
    if not 0 < distance <= len(target) or len(target) + length > size:
        raise RecordError("A block repeats bytes that are not there.")
    # Copy only the repeated bytes: a hostile block has millions of short repetitions from far back.
    begin = len(target) - distance
    pattern = bytes(target[begin : begin + length])
    if length > distance:
        pattern *= length // distance + 1
    target += pattern[:length]
