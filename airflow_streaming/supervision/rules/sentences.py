"""Sentences of rules on figures: the bound, the observed value, and missing facts."""

from __future__ import annotations

from typing import Final

from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import Comparison, HealthRule, RuleState
from airflow_streaming.model.metrics import Metric

MAX_NAMED: Final = 10
"""Queries, sources or columns a sentence names."""


def subject(query: str, source: str | None = None) -> str:
    """Return whom a sentence speaks of, to begin it with."""
    return f"Query {query!r}" if source is None else f"Source {source!r} of query {query!r}"


def threshold(rule: HealthRule) -> str:
    """Return a rule's bound, as ``below 80 % for 5 min``."""
    is_rows = rule.metric is Metric.INPUT_RATE and rule.comparison is Comparison.BELOW
    if is_rows and rule.bound * rule.mean_over.total_seconds() < 1:
        words = "no row"
    else:
        words = f"{rule.comparison} {rule.metric.row.in_words(rule.bound)}"
    if rule.mean_over and not rule.sustained_for:
        words += f" over {duration_text(rule.mean_over.total_seconds())}"
    if rule.sustained_for:
        words += f" for {duration_text(rule.sustained_for.total_seconds())}"
    return words


def known(
    rule: HealthRule, who: str, state: RuleState, figure: float | None, bad_for: float
) -> str:
    """
    Return the sentence of a rule on a figure.

    :param figure: ``None`` without work to do.
    :param bad_for: Seconds since it became bad.
    """
    tail = f"({rule.name}: {threshold(rule)})"
    text = f"{who} has had nothing to do" if figure is None else f"{who} {_told(rule, figure)}"
    if state is RuleState.CLEAR:
        return f"{text} {tail}."
    if figure is None or not rule.is_bad(figure):
        return f"{text}, but not yet long enough to clear {tail}."
    lasts = rule.metric is not Metric.COMMIT_AGE_SECONDS and bad_for >= 1
    return f"{text}{f' for {duration_text(bad_for)}' if lasts else ''} {tail}."


def missing(rule: HealthRule, who: str, columns: list[str], *, has_interval: bool) -> str:
    """Return which figure has not been reported."""
    if rule.metric.row.needs_interval and not has_interval:
        return f"{who} has no processing interval that its batches could be measured by."
    if rule.metric is Metric.OBSERVED:
        others = f"it has observed {names(columns)}" if columns else "it has observed nothing"
        return f"{who} has not observed {rule.column!r}; {others}."
    return f"Spark has not reported {rule.metric.row.missing} for {_inside(who)}."


def too_young(rule: HealthRule, who: str, age: float) -> str:
    """Return that the mean needs more time."""
    needs = duration_text(rule.mean_over.total_seconds())
    return (
        f"{who} has been seen for {duration_text(max(0.0, age))} of the {needs} that the mean of rule "
        f"{rule.name!r} is taken over."
    )


def names(found: list[str]) -> str:
    """Return names for a sentence."""
    text = ", ".join(repr(name) for name in found[:MAX_NAMED])
    return f"{text} and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else text


def _told(rule: HealthRule, figure: float) -> str:
    row = rule.metric.row
    if row.zero_words and not figure:
        return row.zero_words.format(duration_text(rule.mean_over.total_seconds()))
    return row.words.format(row.unit.text(figure), column=rule.column)


def _inside(who: str) -> str:
    return who[0].lower() + who[1:]
