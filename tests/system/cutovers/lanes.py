"""What the engine is given: hands in each lane, a comparison by Spark, and the last backup."""

from __future__ import annotations

from airflow_streaming.changes.cutover.lanes import Compare, LaneContext, Retire
from airflow_streaming.changes.judging.green import Judgment, judge_reports
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import Bound
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.spark_jobs.compare import compare
from airflow_streaming.storage.folders import open_folders
from tests.system.cutovers.stage import Stage


class StageLanes:
    """Opens the lanes of a stage."""

    def __init__(self, stage: Stage, by: str) -> None:
        self._stage, self._by = stage, by

    def open(self, stream: str, lane: str) -> LaneContext:
        """Return the hands of one lane."""
        del stream
        controller = self._stage.controller(lane, self._by)
        return LaneContext(
            home=self._stage.lane(lane),
            controller=controller,
            acts=controller,
            observer=self._stage.observer(lane),
        )


def comparing(stage: Stage, *, from_beginning: bool) -> Compare:
    """
    Return who compares two outputs, with a Spark of its own.

    :param from_beginning: Green has read all that there is.
    """
    bound = Bound(from_beginning=from_beginning)

    def judged(terms: CompareTerms, blue: Deployment, green: Deployment) -> Judgment:
        scratch = stage.folder / "compared"
        scratch.mkdir(exist_ok=True)
        found = compare(terms, blue, green, stage.runtime, bound=bound, scratch=scratch)
        return judge_reports([found])

    return judged


def retiring(stage: Stage) -> Retire:
    """Return who takes the final backup of what blue was."""

    def retired(change: Change, pair: Pair, blue: Deployment) -> str:
        del change
        store = open_backup_store(stage.store_uri, create=True)
        sources = sources_of(open_folders(blue.checkpoint))
        found = take_backup(
            sources, store, stream=pair.stream, origin=Origin.MANUAL, by="the worker"
        )
        return found.id

    return retired
