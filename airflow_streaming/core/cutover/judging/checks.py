"""Checks: what a comparison or a check of the author's has shown in one stay in ``comparing``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from airflow_streaming.core.cutover.judging.judge import Result
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Record):
    """
    What one check has shown; ``changes/000004/checks/000007-compare.orders.json``.

    :param change: Number of the cutover's change in the leading stream.
    :param step: Number of the step that led to ``comparing``: what was shown in an earlier stay
        there, for another driver of green perhaps, never counts for a later one.
    :param name: ``compare.STREAM`` for a comparison, else the name in ``CutoverTerms.checks``.
    """

    KIND: ClassVar[str] = "cutover_check"

    change: int
    step: int
    name: str
    result: Result
    reason: str
    at: datetime
    by: str
    figures: Mapping[str, str] = field(default_factory=dict)


def comparison_of(stream: str) -> str:
    """Return the name under which the comparison of a stream's outputs is kept."""
    return f"compare.{stream}"
