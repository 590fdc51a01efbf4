"""How the tasks of one run of a cutover find their change, and what they tell of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.exceptions import CutoverRefused, RecordError
from airflow_streaming.home.home import StreamHome


def found_cutover(home: StreamHome, report: Mapping[str, Any] | None) -> Change | None:
    """
    Return the cutover that a run has begun, or goes on with, ended or not; ``None`` before that.

    :param home: Of the base lane of the stream that leads.
    :param report: What the run's preflight has left.
    """
    if not report:
        return None
    if report.get("resumes"):
        return next((one for one in led_by(home) if one.number == report["resumes"]), None)
    return next((one for one in led_by(home) if _wish(home, one) == report["key"]), None)


def led_by(home: StreamHome) -> Iterator[Change]:
    """Yield the cutovers that a stream leads, newest first."""
    for change in reversed(home.changes()):
        if change.what is ChangeSort.CUTOVER and home.leads(change):
            yield change


def change_of(home: StreamHome, number: int) -> tuple[Change, CutoverTerms]:
    """
    Return a cutover and its terms, by its number.

    :raises CutoverRefused: the stream leads no such cutover.
    """
    found = next((one for one in led_by(home) if one.number == number), None)
    if found is None:
        raise CutoverRefused(
            f"Change {number} is no longer in the home of stream {home.name!r}. Bring the home back, "
            "and run this task again."
        )
    return found, home.cutover_terms(found)


def stay_in_comparing(history: Sequence[Transition]) -> int:
    """Return the step with which the newest stay in ``comparing`` began; 0 before the first."""
    stays = (one.number for one in reversed(history) if one.after is CutoverState.COMPARING)
    return next(stays, 0)


def line_of_step(step: Transition) -> str:
    """Return a step of a cutover as one line for a log."""
    return f"Step {step.number}: {words(step.before)} → {words(step.after)}: {step.reason}"


def words(name: str) -> str:
    """Return the name of a state, a way or an event as a person says it."""
    return str(name).replace("_", " ")


def _wish(home: StreamHome, change: Change) -> str:
    try:
        return home.cutover_terms(change).key
    except RecordError:
        return ""  # whoever goes on with it says what is missing
