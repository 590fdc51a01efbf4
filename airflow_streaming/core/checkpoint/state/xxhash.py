"""xxHash of 32 bits: the checksum inside LZ4 blocks, in plain Python at a few MB a second."""

from __future__ import annotations

import struct
from typing import Final

_P1: Final = 0x9E3779B1
_P2: Final = 0x85EBCA77
_P3: Final = 0xC2B2AE3D
_P4: Final = 0x27D4EB2F
_P5: Final = 0x165667B1
_MASK: Final = 0xFFFFFFFF
_STRIPE: Final = 16


def xxhash32(data: bytes, seed: int) -> int:
    """Return the hash of all bytes."""
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
