"""Comparing what both lanes of a stream have written, on behalf of the engine of a cutover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_streaming.checkpoint.progress import Progress
from airflow_streaming.core.conf import REDACTED
from airflow_streaming.core.cutover.comparing.bounding import bound_of
from airflow_streaming.core.cutover.comparing.report import Bound, CompareReport
from airflow_streaming.core.cutover.judging.judge import Judgement, judge_reports
from airflow_streaming.core.cutover.terms import CompareTerms, StartWay
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.lanes import base_of
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.cutover.outputs import compare
from airflow_streaming.operators._upgrade.program import program_of

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.drill_program import Program
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.operators._cutover.lanes import DagLanes


class Comparing:
    """
    Compares two outputs with green's own Spark, and keeps the reports for a page.

    :param complete_from: By stream, the event time from which a fresh green is complete.
    :param heard: Called with every report.
    """

    def __init__(
        self,
        lanes: DagLanes,
        *,
        complete_from: Mapping[str, datetime],
        progress: Progress,
        heard: Callable[[CompareReport], None],
    ) -> None:
        self._lanes, self._complete_from = lanes, complete_from
        self._progress, self._heard = progress, heard

    def __call__(self, terms: CompareTerms, blue: Deployment, green: Deployment) -> Judgement:
        """Compare, and say what that shows."""
        hook = self._lanes.hook(green.stream)
        # The batches are read first: what they have written is there when the outputs are opened.
        bound = self._bound(self._home(blue), self._home(green), green)
        report = compare(
            *(terms, blue, green, hook.runtime(green.runtime)),
            bound=bound,
            program=_program(hook, green),
            progress=self._progress,
        )
        self._heard(report)
        return judge_reports([report])

    def _bound(self, blue: StreamHome, green: StreamHome, deployment: Deployment) -> Bound:
        since = self._since(deployment)
        return bound_of(
            _batches(blue, deployment.created_at),
            _batches(green, deployment.created_at),
            since=since,
            from_beginning=since is None and self._is_fresh(deployment),
        )

    def _since(self, green: Deployment) -> datetime | None:
        known = self._complete_from.get(base_of(green.stream))
        if known is not None or not green.replay_from:
            return known
        return datetime.fromisoformat(green.replay_from)

    def _is_fresh(self, green: Deployment) -> bool:
        """Tell whether a green has read its sources from the beginning."""
        change = self._lanes.home.unfinished_change()
        terms = None if change is None else self._lanes.home.cutover_terms(change)
        pairs = () if terms is None else terms.pairs
        return any(pair.green == green.stream and pair.start is StartWay.FRESH for pair in pairs)

    def _home(self, deployment: Deployment) -> StreamHome:
        return self._lanes.hook(deployment.stream).lane(deployment.stream).home


def _batches(home: StreamHome, since: datetime) -> list[BatchProgress]:
    """Return the batches of a lane's driver since green began: late rows before say nothing of it."""
    epoch = home.newest_epoch()
    found = [] if epoch is None else home.read_progress(epoch.number)
    return [batch for batch in found if _is_since(batch, since)]


def _is_since(batch: BatchProgress, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(batch.at) >= since
    except (ValueError, TypeError):
        return False


def _program(hook: SparkStreamHook, green: Deployment) -> Program | None:
    # Only where the configuration has a secret that may be needed to read the outputs.
    if REDACTED not in green.conf.values():
        return None
    return replace(program_of(hook.asked, green, b""), application="", arguments=())
