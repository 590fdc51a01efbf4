"""Ways in which the bytes of a file go wrong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

HOSTILE = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u0000",
    b"9" * 30,
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"[" * 2000,
    b'{"a":' * 2000,
    b"\n",
    b"\r",
    "\u2028".encode(),
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
]
"""Pieces that parsers trip over."""


def flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def zero(data: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + bytes(end - start) + data[end:]


def scramble(data: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + random.randbytes(end - start) + data[end:]


def insert(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(HOSTILE) + data[at:]


def swap_value(data: bytes, random: Random) -> bytes:
    """Put a hostile piece in the place of what follows a colon."""
    colons = [at for at, byte in enumerate(data) if byte in b":"]
    if not colons:
        return insert(data, random)
    start = random.choice(colons) + 1
    end = min((at for mark in b",}\n" if (at := data.find(mark, start)) >= 0), default=len(data))
    return data[:start] + random.choice(HOSTILE) + data[end:]


def repeat(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data


DAMAGES: list[Callable[[bytes, Random], bytes]] = [
    flip,
    truncate,
    zero,
    scramble,
    insert,
    swap_value,
    repeat,
]


def damaged(data: bytes, random: Random) -> bytes:
    """Return some bytes that were damaged once or twice, in a way of its own."""
    for _ in range(random.randint(1, 2)):
        if data:
            data = random.choice(DAMAGES)(data, random)
    return data
