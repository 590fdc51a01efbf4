"""
What is remembered of one rule for one query or source: a window for its mean, and its course.

A figure of batches changes when a batch ends. The input rate changes with time too: rows leave its
window while nothing comes.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from airflow_streaming.core.rules.course import Course
from airflow_streaming.core.rules.figures import WORK_ONLY, figure_of
from airflow_streaming.core.rules.rule import HealthRule
from airflow_streaming.core.rules.timeline import Moment, Span
from airflow_streaming.core.rules.window import Parts, Window

FORGET_AFTER: Final = 20
"""Batches in a row that did not report a figure, after which it is unknown again."""


class BatchTrack:
    """
    A rule on a figure of batches.

    :param rule: What is bad.
    """

    __slots__ = ("_missed", "_over", "_reported", "_window", "course", "is_awaited", "rule")

    def __init__(self, rule: HealthRule) -> None:
        self.rule = rule
        self._over = rule.mean_over.total_seconds()
        self.course, self._window = Course(rule), Window()
        self._missed, self._reported = 0, False
        self.is_awaited = False
        """There are figures, but not yet over the whole time of the mean."""

    def learn(self, span: Span, parts: Parts | None, first: float) -> None:
        """Take what a batch gives; ``first`` is the start of the query's first batch."""
        if span.lapse is not None and self._reported:
            self.course.pause(*span.lapse, heals=self.rule.metric in WORK_ONLY)
        if parts is None:
            self._missed += 1
            if self._missed >= FORGET_AFTER:
                self._forget()
            return
        self._missed, self._reported = 0, True
        if self._over:
            self._window.drop(span.end - self._over)
            self._window.add(span.end, parts)
            parts = self._window.sums
            self.is_awaited = span.end - first < self._over
        figure = None if self.is_awaited else figure_of(self.rule.metric, parts)
        if figure is not None:
            self.course.see(span.end, figure)

    def course_at(self, moment: Moment) -> Course:
        """Return the course as it stands at a moment."""
        course = self.course.copy()
        if moment.lapse is not None and self._reported:
            heals = moment.heals and self.rule.metric in WORK_ONLY
            course.pause(*moment.lapse, heals=heals)
        course.pass_to(moment.now)
        return course

    def _forget(self) -> None:
        self.course, self._window = Course(self.rule), Window()
        self._reported = self.is_awaited = False


class _Ahead(NamedTuple):
    """How far time has been followed past the last batch: the rows left, and the course there."""

    until: float
    position: int
    rows: float
    course: Course


class RateTrack:
    """
    A rule on the input rate: rows of the batches that ended in the window, over its length.

    A batch in work hides what comes in behind it, so the rate is taken outside of batches only.

    :param rule: What is bad.
    """

    __slots__ = ("_ahead", "_over", "_window", "course", "rule")

    def __init__(self, rule: HealthRule) -> None:
        self.rule, self.course, self._window = rule, Course(rule), Window()
        self._over = rule.mean_over.total_seconds()
        self._ahead: _Ahead | None = None

    def learn(self, span: Span, parts: Parts | None, first: float) -> None:
        """Take the rows of a batch; ``first`` is the start of the query's first batch."""
        if not self._window.sums:
            self._window.add(first, (0,))
        # What left the window before the batch began was seen leaving; later is hidden by the
        # batch.
        self.course = self._pass(span.start - self._over, self._all()).course
        self._window.drop(span.end - self._over)
        self._window.add(span.end, parts or (0,))
        self._ahead = None
        if span.end - first >= self._over:
            self.course.see(span.end, self._window.sums[0] / self._over)

    def course_at(self, moment: Moment) -> Course:
        """Return the course as it stands at a moment."""
        if not self._window.sums:
            return self._without_batches(moment)
        until = moment.known_until - self._over
        if self._ahead is None or until < self._ahead.until:
            self._ahead = self._all()
        self._ahead = self._pass(until, self._ahead)
        course = self._ahead.course.copy()
        course.pass_to(moment.now)
        return course

    def _all(self) -> _Ahead:
        return _Ahead(-math.inf, self._window.oldest, self._window.sums[0], self.course)

    def _pass(self, until: float, ahead: _Ahead) -> _Ahead:
        # Rows leave the window one batch after the other, and every time there is a new rate.
        index, rows, samples = ahead.position, ahead.rows, self._window.samples
        course = ahead.course.copy()
        while index < len(samples) and samples[index][0] <= until:
            rows -= samples[index][1][0]
            course.see(samples[index][0] + self._over, rows / self._over)
            index += 1
        return _Ahead(until, index, rows, course)

    def _without_batches(self, moment: Moment) -> Course:
        course, begun = Course(self.rule), moment.now - moment.age
        if moment.known_until - begun >= self._over:
            course.see(begun + self._over, 0.0)
            course.pass_to(moment.now)
        return course
