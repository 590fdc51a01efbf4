"""Figures of a long run: samples over time, and how fast each figure grows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import Final

HOUR: Final = 3600.0
WARM_UP: Final = 0.25
"""Share of the samples that the trend leaves out: caches fill and the JVM compiles."""
LEAST_GROWTH: Final = 0.02
"""A gauge whose last third is above its middle third by less has no trend."""


class Kind(StrEnum):
    """Meaning of a figure's values."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, and counts from 0 again after a restart; its trend is that of its rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """
    Figure of a long run.

    :param name: Such as ``triggerer memory``.
    :param scale: Divides each value for readers.
    """

    name: str
    unit: str
    kind: Kind = Kind.GAUGE
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    Values of all figures at one moment.

    :param at: Seconds since the first sample.
    :param values: By the names of the figures; a figure that could not be read is absent.
    """

    at: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """
    Trend of one figure, without the warm-up.

    :param first: Median of the first third; ``last`` likewise. Of a counter: its rate an hour in the first and in
        the second half.
    :param slope: Change an hour: the median of the slopes between all pairs of samples.
    :param grows: The figure is higher at the end, by more than its noise.
    """

    figure: Figure
    first: float
    last: float
    slope: float
    grows: bool


Points = Sequence[tuple[float, float]]


def points(figure: Figure, samples: Iterable[Sample]) -> list[tuple[float, float]]:
    """Return hours and scaled values of a figure; a counter continues over its restarts."""
    found: list[tuple[float, float]] = []
    lost, before = 0.0, 0.0
    for sample in samples:
        if (value := sample.values.get(figure.name)) is None:
            continue
        if figure.kind is Kind.COUNTER and value < before:
            lost += before
        before = value
        found.append((sample.at / HOUR, (value + lost) / figure.scale))
    return found


def trend(figure: Figure, samples: Sequence[Sample]) -> Trend | None:
    """Return the trend of a figure; ``None`` for fewer than six samples after the warm-up."""
    found = points(figure, samples[int(len(samples) * WARM_UP) :])
    if len(found) < 6:
        return None
    if figure.kind is Kind.COUNTER:
        half = len(found) // 2
        first, last = _rate(found[: half + 1]), _rate(found[half:])
        middle, slope = first, (last - first) / max((found[-1][0] - found[0][0]) / 2, 1e-9)
    else:
        first, middle, last = (median(value for _, value in third) for third in _thirds(found))
        slope = _slope(found)
    grows = last - middle > LEAST_GROWTH * abs(middle) and slope > 0
    return Trend(figure=figure, first=first, last=last, slope=slope, grows=grows)


def trends(figures: Iterable[Figure], samples: Sequence[Sample]) -> list[Trend]:
    """Return the trends of all figures that have one."""
    return [found for figure in figures if (found := trend(figure, samples))]


def markdown(found: Iterable[Trend]) -> str:
    """Return a table: one row a figure."""
    lines = ["| figure | unit | first | last | change an hour | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {one.figure.name} | {_unit(one.figure)} | {_text(one.first)} | {_text(one.last)} "
        f"| {one.slope:+.3g} | {'grows' if one.grows else ''} |"
        for one in found
    ]
    return "\n".join(lines)


def _thirds(found: Points) -> tuple[Points, Points, Points]:
    third = len(found) // 3
    return found[:third], found[third : 2 * third], found[2 * third :]


def _rate(found: Points) -> float:
    (begun, first), (ended, last) = found[0], found[-1]
    return (last - first) / max(ended - begun, 1e-9)


def _slope(found: Points) -> float:
    """Return Theil and Sen's slope, which a few wild values do not move."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(found, 2)
        if later[0] > earlier[0]
    ]
    return median(slopes)


def _unit(figure: Figure) -> str:
    return f"{figure.unit} an hour" if figure.kind is Kind.COUNTER else figure.unit


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
