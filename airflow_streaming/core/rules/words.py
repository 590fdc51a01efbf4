"""What a rule says, in sentences for people on call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from airflow_streaming.core.rules.rule import HealthRule, Metric, RuleState

MAX_NAMED: Final = 10
"""Queries, sources or columns a sentence names."""


def time_words(seconds: float) -> str:
    """Return a duration as people say it."""
    for unit, size, from_on in (("d", 86_400, 2), ("h", 3_600, 2), ("min", 60, 2)):
        if seconds >= from_on * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _share(figure: float) -> str:
    return f"{100 * figure:.3g} %"


def _count(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.3g}"


def _number(figure: float) -> str:
    return f"{figure:.6g}"


def _bytes(figure: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if figure >= size:
            return f"{figure / size:.3g} {unit}"
    return f"{figure:.0f} bytes"


_WORDS: Final[Mapping[Metric, tuple[Callable[[float], str], str]]] = {
    Metric.INPUT_RATE: (_count, "has read {} rows a second"),
    Metric.PROCESSING_SHARE: (_share, "has processed {} of its input"),
    Metric.BATCH_SECONDS: (time_words, "has taken {} for a batch"),
    Metric.BATCH_SHARE: (_count, "has taken {} times its processing interval for a batch"),
    Metric.WATERMARK_DELAY_SECONDS: (time_words, "has had its watermark {} behind"),
    Metric.STATE_ROWS: (_count, "has held {} rows of state"),
    Metric.STATE_BYTES: (_bytes, "has held {} of state"),
    Metric.DROPPED_ROWS: (_count, "has dropped {} late rows in a batch"),
    Metric.BACKLOG_RECORDS: (_count, "has had a backlog of {} records"),
    Metric.BACKLOG_BYTES: (_bytes, "has had a backlog of {}"),
    Metric.BACKLOG_FILES: (_count, "has had a backlog of {} files"),
    Metric.BACKLOG_SECONDS: (time_words, "has had a backlog of {} of work"),
    Metric.STATE_COMMIT_SECONDS: (time_words, "has taken {} to commit its state"),
    Metric.CACHE_MISS_SHARE: (_share, "has missed the block cache in {} of look-ups"),
    Metric.OBSERVED: (_number, "has observed {}"),
    Metric.COMMIT_AGE_SECONDS: (time_words, "has worked {} without committing a batch"),
}
_MISSING: Final[Mapping[Metric, str]] = {
    Metric.PROCESSING_SHARE: "rates that tell how it keeps up",
    Metric.WATERMARK_DELAY_SECONDS: "a watermark",
    Metric.STATE_ROWS: "state rows",
    Metric.STATE_BYTES: "the memory of its state",
    Metric.DROPPED_ROWS: "rows dropped by the watermark",
    Metric.BACKLOG_RECORDS: "a backlog in records",
    Metric.BACKLOG_BYTES: "a backlog in bytes",
    Metric.BACKLOG_FILES: "a backlog in files",
    Metric.BACKLOG_SECONDS: "a backlog in records and rows to measure it by",
    Metric.STATE_COMMIT_SECONDS: "how long its state took to commit",
    Metric.CACHE_MISS_SHARE: "look-ups in the block cache",
}


def subject(query: str, source: str | None = None) -> str:
    """Return whom a sentence speaks of, to begin it with."""
    return f"Query {query!r}" if source is None else f"Source {source!r} of query {query!r}"


def threshold(rule: HealthRule) -> str:
    """Return what a rule asks for, as ``below 80 % for 5 min``."""
    words = f"{rule.comparison} {_figure(rule, rule.bound)}"
    if rule.mean_over and not rule.sustained_for:
        words += f" over {time_words(rule.mean_over.total_seconds())}"
    if rule.sustained_for:
        words += f" for {time_words(rule.sustained_for.total_seconds())}"
    return words


def known(
    rule: HealthRule, who: str, state: RuleState, figure: float | None, bad_for: float
) -> str:
    """
    Return what a rule says of a figure.

    :param figure: ``None`` when there was nothing to do.
    :param bad_for: Seconds since it went bad.
    """
    tail = f"({rule.name}: {threshold(rule)})"
    told = f"{who} has had nothing to do" if figure is None else f"{who} {_told(rule, figure)}"
    if state is RuleState.CLEAR:
        return f"{told} {tail}."
    if figure is None or not rule.is_bad(figure):
        return f"{told}, but not yet long enough to clear {tail}."
    lasts = rule.metric is not Metric.COMMIT_AGE_SECONDS and bad_for >= 1
    return f"{told}{f' for {time_words(bad_for)}' if lasts else ''} {tail}."


def missing(rule: HealthRule, who: str, columns: list[str], *, has_interval: bool) -> str:
    """Return which figure has not been reported."""
    if rule.metric is Metric.BATCH_SHARE and not has_interval:
        return f"{who} has no processing interval that its batches could be measured by."
    if rule.metric is Metric.OBSERVED:
        others = f"it has observed {names(columns)}" if columns else "it has observed nothing"
        return f"{who} has not observed {rule.column!r}; {others}."
    return f"Spark has not reported {_MISSING.get(rule.metric, 'the figure')} for {_inside(who)}."


def too_young(rule: HealthRule, who: str, age: float) -> str:
    """Return that the mean needs more time."""
    needs = time_words(rule.mean_over.total_seconds())
    return (
        f"{who} has been seen for {time_words(max(0.0, age))} of the {needs} that the mean of rule "
        f"{rule.name!r} is taken over."
    )


def names(found: list[str]) -> str:
    """Return names for a sentence."""
    shown = ", ".join(repr(name) for name in found[:MAX_NAMED])
    return f"{shown} and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else shown


def _told(rule: HealthRule, figure: float) -> str:
    if rule.metric is Metric.OBSERVED:
        return f"has observed {rule.column} = {_number(figure)}"
    if rule.metric is Metric.INPUT_RATE and not figure:
        return f"has read no rows in {time_words(rule.mean_over.total_seconds())}"
    return _WORDS[rule.metric][1].format(_figure(rule, figure))


def _figure(rule: HealthRule, figure: float) -> str:
    return _WORDS[rule.metric][0](figure)


def _inside(who: str) -> str:
    return who[0].lower() + who[1:]
