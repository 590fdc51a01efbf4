"""
The waves of a campaign: how many streams each has, and which. Pure.

A stream is in the wave of the streams whose output it reads, or in a later one, unless a user chose it as a canary.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.products.stream_graph import StreamGraph

DEFAULT_WAVES: Final = ("1", "5%", "25%", "rest")
"""A canary, then two growing parts, then all others."""
REST: Final = "rest"
_SIZE: Final = re.compile(r"([1-9][0-9]{0,5})(%?)")
_MOST_PERCENT: Final = 100


def waves_of(
    streams: Sequence[str],
    sizes: Sequence[str] = DEFAULT_WAVES,
    *,
    canaries: Collection[str] = (),
) -> tuple[tuple[str, ...], ...]:
    """
    Cut streams into waves.

    :param streams: In the order of their data.
    :param sizes: Numbers, shares of all streams such as ``5%``, or ``rest`` at the end; none for one wave.
    :param canaries: Streams of the first wave, whatever its size.
    :raises SpecError: a size cannot be read, a canary is not among the streams, or streams are in no wave.
    """
    strange = sorted(set(canaries) - set(streams))
    if strange:
        raise SpecError(f"The campaign selects no stream {strange[0]!r:.80} to be a canary.")
    counts = [_count(size, len(streams)) for size in _without_rest(sizes)]
    first = tuple(name for name in streams if name in canaries)
    others = [name for name in streams if name not in canaries]
    waves = [first] if first else []
    for count in counts[len(waves) :]:
        waves.append(tuple(others[:count]))
        del others[:count]
    if others and sizes and sizes[-1] != REST:
        raise SpecError(
            f"The waves {', '.join(sizes)!r:.200} have room for {len(streams) - len(others)} of {len(streams)} streams. "
            f"End them with {REST!r}, or give more waves."
        )
    return tuple(filter(None, (*waves, tuple(others))))


def follows_of(graph: StreamGraph, streams: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return by stream the others of the campaign whose output it reads directly."""
    writers: dict[str, list[str]] = {}
    for name in streams:
        for uri in graph.writes.get(name, ()):
            writers.setdefault(uri, []).append(name)
    found = {
        name: sorted({one for uri in graph.reads.get(name, ()) for one in writers.get(uri, ())})
        for name in streams
    }
    direct = {name: tuple(one for one in above if one != name) for name, above in found.items()}
    return {name: above for name, above in direct.items() if above}


def _without_rest(sizes: Sequence[str]) -> Sequence[str]:
    return sizes[:-1] if sizes and sizes[-1] == REST else sizes


def _count(size: str, of: int) -> int:
    match = _SIZE.fullmatch(size)
    if match is None or (match[2] and int(match[1]) > _MOST_PERCENT):
        raise SpecError(
            f"{size!r:.40} is not the size of a wave. Give a number, a share such as 5%, or at the end {REST!r}."
        )
    return ceil(of * int(match[1]) / _MOST_PERCENT) if match[2] else int(match[1])
