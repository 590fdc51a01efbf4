"""
The course of one rule over one figure: clear, pending, firing, and back with hysteresis.

A figure stands from the moment it became known until the next one. A rule that has seen a bad
figure ripens: it fires when the figure has been bad without a break for ``sustained_for``. One that
fires ripens the other way, and every figure that is not clear starts that anew.
"""

from __future__ import annotations

import math

from airflow_streaming.core.rules.rule import HealthRule, RuleState


class Course:
    """
    State of one rule for one query or source; all times in seconds on one line.

    :param rule: What is bad, and for how long.
    """

    __slots__ = ("_ripe_at", "_rule", "bad_since", "figure", "since", "state")

    def __init__(self, rule: HealthRule) -> None:
        self._rule = rule
        self.state = RuleState.UNKNOWN
        self.figure: float | None = None
        """As last known; ``None`` when there was nothing to measure."""
        self.since = 0.0
        """When this state began."""
        self.bad_since = 0.0
        """When the figure went bad, while pending or firing."""
        self._ripe_at = math.inf

    def copy(self) -> Course:
        """Return a course that goes on by itself."""
        other = Course.__new__(Course)
        other._rule, other.state, other.figure = self._rule, self.state, self.figure
        other.since, other.bad_since, other._ripe_at = self.since, self.bad_since, self._ripe_at
        return other

    def fire(self, at: float) -> None:
        """Go on from a course that was firing."""
        self.state, self.since, self.bad_since = RuleState.FIRING, at, at

    def see(self, at: float, figure: float) -> None:
        """Take a figure that became known."""
        self.pass_to(at)
        self.figure = figure
        if self.state is RuleState.FIRING:
            self._settle(at, is_clear=self._rule.is_clear(figure))
        elif not self._rule.is_bad(figure):
            self._clear(at)
        elif self.state is not RuleState.PENDING:
            self.state, self.since, self.bad_since = RuleState.PENDING, at, at
            self._ripe_at = at + self._rule.sustained_for.total_seconds()
            self.pass_to(at)

    def pause(self, at: float, until: float, *, heals: bool) -> None:
        """
        Take note that no batch was in work.

        :param heals: There was nothing to do, which is as good as a good figure. Otherwise the
            time counts neither way.
        """
        self.pass_to(at)
        if not heals:
            self._ripe_at += until - at
            return
        self.figure = None
        if self.state is RuleState.FIRING:
            self._settle(at, is_clear=True)
        else:
            self._clear(at)

    def pass_to(self, at: float) -> None:
        """Let time pass with the figure as it is."""
        if at < self._ripe_at:
            return
        self.since, self._ripe_at = self._ripe_at, math.inf
        self.state = RuleState.FIRING if self.state is RuleState.PENDING else RuleState.CLEAR

    def _settle(self, at: float, *, is_clear: bool) -> None:
        if not is_clear:
            self._ripe_at = math.inf
        elif self._ripe_at == math.inf:
            self._ripe_at = at + self._rule.clear_for.total_seconds()
            self.pass_to(at)

    def _clear(self, at: float) -> None:
        if self.state is not RuleState.CLEAR:
            self.state, self.since, self._ripe_at = RuleState.CLEAR, at, math.inf
