"""Bytes and texts that were valid once, and what an attacker or a torn disk makes of them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from tests.unit.checkpoints.damage import damaged

DEEP: Final = 700
"""Deeper than Python's own stack allows a walk of two frames a level; JSON's parser takes it."""

HOSTILE: Final = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**30,
    10**400,
    1e308,
    -0.5,
    "",
    "\ud800",
    "\x00",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 300,
    "9" * 5000,
    "{" * DEEP,
    "1-99999999999",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    [],
    {},
    [[]],
    {"": None},
    ["a"] * 200,
    {"type": "struct", "fields": [None]},
)
values: Final = st.sampled_from(HOSTILE).map(copy.deepcopy)


def raw(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return bytes from nowhere, alone or behind the beginning of a valid file."""
    heads = st.sampled_from(samples).flatmap(
        lambda data: st.integers(0, min(len(data), 64)).map(lambda size: data[:size])
    )
    return st.tuples(heads | st.just(b""), st.binary(max_size=120)).map(b"".join)


def torn(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return valid files with bits flipped, parts cut out, doubled or overwritten."""
    seeds = st.integers(0, 2**32)
    return st.tuples(st.sampled_from(samples), seeds).map(
        lambda drawn: damaged(drawn[0], random.Random(drawn[1]))
    )


def remade(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return valid files in which values inside a line of JSON are others, or nested too deep."""
    return st.builds(
        _remake,
        st.sampled_from(samples),
        st.lists(values, min_size=1, max_size=3),
        st.booleans(),
        st.randoms(use_true_random=False),
    )


def bytes_like(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return whatever bytes may lie where one of these was expected."""
    return raw(samples) | torn(samples) | remade(samples) | st.sampled_from(samples)


def texts_like(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """Return whatever text may stand where one of these was expected."""
    seeds = st.integers(0, 2**32)
    pieces = st.text(max_size=6) | st.sampled_from(
        ["..", "/", "//", "\\", "%2e", "@", ":", "\x00", "\u202e", "\ud800", "[", "::", "#", " "]
    )
    cut = st.tuples(st.sampled_from(samples), pieces, seeds).map(_put_in)
    hostile = st.sampled_from([*samples, *(one for one in HOSTILE if isinstance(one, str))])
    return st.text(max_size=40) | cut | hostile


def _put_in(drawn: tuple[str, str, int]) -> str:
    text, piece, seed = drawn
    at = seed % (len(text) + 1)
    return text[:at] + piece + text[at + seed % 3 :]


def _remake(data: bytes, others: list[Any], is_deep: bool, choice: random.Random) -> bytes:
    """Change values of one line that is JSON; of a file without any, damage the bytes."""
    lines = data.split(b"\n")
    numbers = [number for number, line in enumerate(lines) if _parsed(line) is not None]
    if not numbers:
        return damaged(data, choice)
    chosen = choice.choice(numbers)
    tree = {"": _parsed(lines[chosen])}
    for other in others:
        path = choice.choice([*_paths(tree)])
        inner: Any = tree
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = other
    text = json.dumps(tree[""])
    if is_deep:
        text = f'{{"a":{"[" * DEEP}{text}{"]" * DEEP}}}'
    lines[chosen] = text.encode()
    return b"\n".join(lines)


def _parsed(line: bytes) -> Any:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None


def _paths(tree: Any) -> Iterator[tuple[str | int, ...]]:
    steps: Any = tree if isinstance(tree, dict) else range(len(tree))
    for step in list(steps):
        yield (step,)
        if isinstance(tree[step], dict | list) and tree[step]:
            yield from ((step, *rest) for rest in _paths(tree[step]))
