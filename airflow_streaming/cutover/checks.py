"""Checks: what comparisons, and checks of the author's, have shown in one stay in ``comparing``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from airflow_streaming.core.cutover.judging.checks import CheckResult, comparison_of
from airflow_streaming.core.cutover.judging.judge import Judgement, Result, fold_errors
from airflow_streaming.core.cutover.moving.moves import Move
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.terms import CompareTerms
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.ports import Compare
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.exceptions import HomeError, SpecError, StreamingError

log: Final = logging.getLogger(__name__)


class Checks:
    """
    Has outputs compared, and keeps what was shown.

    :param compare: Compares; ``None`` for whoever cannot, who waits to be told.
    """

    def __init__(self, lanes: Lanes, recorder: Recorder, compare: Compare | None) -> None:
        self._lanes, self._recorder, self._compare = lanes, recorder, compare

    def compare(self, view: CutoverView, move: Move) -> None:
        """Compare the outputs of the stream whose comparison is missing."""
        terms = next(one for one in view.terms.compare if comparison_of(one.stream) == move.lane)
        judged = self._judged(view, terms)
        self.keep(view, move.lane, judged.result, judged.reason, judged.figures)

    def keep(
        self,
        view: CutoverView,
        name: str,
        result: Result,
        reason: str,
        figures: Mapping[str, str] | None = None,
    ) -> CheckResult:
        """Record what a check has shown; the first result of a stay counts."""
        return self._lanes.home.record_check(
            CheckResult(
                change=view.change.number,
                step=view.step,
                name=name,
                result=result,
                reason=reason,
                at=self._recorder.now,
                by=self._recorder.by,
                figures=dict(figures or {}),
            )
        )

    def _judged(self, view: CutoverView, terms: CompareTerms) -> Judgement:
        one = next(pair for pair in view.pairs if pair.pair.stream == terms.stream)
        blue = self._lanes.blue(one.pair).home.deployment(one.pair.blue_deployment)
        errors = 0
        while self._compare is not None:
            try:
                return self._compare(terms, blue, one.pair.shadow)
            except HomeError:
                raise
            except SpecError as err:
                return Judgement(result=Result.INCONCLUSIVE, reason=str(err))
            except StreamingError as err:
                log.warning("The outputs of %s could not be compared: %s", terms.stream, err)
                folded = fold_errors(errors, view.terms.ready, str(err))
                errors = folded.errors
                if folded.event is not None:
                    return folded
        return Judgement(result=Result.INCONCLUSIVE, reason="Nobody here can compare outputs.")
