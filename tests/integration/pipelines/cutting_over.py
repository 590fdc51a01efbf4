"""An example's stream is cut over: what its tests have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.cutover.begin import PlanRequest, plan_pair
from airflow_streaming.changes.cutover.engine import Cutover, CutoverProgress
from airflow_streaming.changes.cutover.lanes import Candidate, Compare, Facts, pair_of
from airflow_streaming.changes.cutover.plan import CutoverPlan, PairPreflight
from airflow_streaming.changes.handover.green_start import StoredCheckpoints
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.spark_jobs.runner import Program
from demo.events import drop
from demo.feeds.shapes import FEEDS
from demo.figures import files_taken
from tests.patience import tail, until
from tests.system.cutovers.lanes import StageLanes
from tests.system.cutovers.lanes import comparing as by_spark
from tests.system.cutovers.stage import Stage

SOAK: Final = SoakTerms(batches=2, at_least=timedelta(seconds=1), at_most=timedelta(minutes=5))
PLAN: Final = CutoverPlan(
    ready=ReadyTerms(well_for=timedelta(seconds=2), batches=3), soak=SOAK, promotes_by_itself=True
)
"""A cutover in which nobody is asked."""


class Arriving:
    """
    The files of a feed, which arrive one after another.

    :param every: Takes every so manieth file of the feed.
    """

    def __init__(self, folder: Path, feed: str, *, every: int = 1) -> None:
        self.folder, self.files, self._feed, self._every = folder, 0, FEEDS[feed], every

    def arrive(self) -> None:
        """Let the next file arrive."""
        lines = self._feed.lines(self.files * self._every)
        drop(self.folder, f"{self.files:06}.json", "\n".join(lines) + "\n")
        self.files += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CuttingOver:
    """
    A stream, and the script to which it is to be moved with parallel outputs.

    :param query: Its query, by whose checkpoint it is seen what was read.
    :param green_script: Path of the new script.
    :param green_query: Name of the new script's query; the same as before when empty.
    """

    stage: Stage
    stream: str
    query: str
    green_script: Path
    green_query: str = ""

    @property
    def lanes(self) -> tuple[str, str]:
        """Blue's name and green's."""
        return self.stream, other_lane(self.stream)

    def preflight(self, start: StartWay | None = None) -> PairPreflight:
        """Ask what the preflight of an upgrade and of a cutover ask about the new script."""
        request = PlanRequest(way=SwitchMethod.PARALLEL, start=start)
        return plan_pair(self.candidate(), request)

    def pair(self, start: StartWay) -> Pair:
        """Return the pair of a cutover without a preflight, which costs a Spark."""
        facts = Facts(start=start, queries=(self.green_query or self.query,))
        pair, _ = pair_of(self.candidate(), SwitchMethod.PARALLEL, facts)
        return pair

    def candidate(self) -> Candidate:
        """Return the stream with its new script."""
        stage, (blue, green) = self.stage, self.lanes
        return Candidate(
            stream=self.stream,
            home=stage.home_uri,
            blue=stage.lane(blue),
            green=green,
            propose=lambda conf: stage.proposal(
                green, self.green_script, fresh=True, carried_on=conf
            ),
            program=self._program,
            runtime=stage.runtime,
        )

    def _program(self, deployment: Deployment, source: bytes) -> Program:
        return Program(
            application=deployment.application,
            source=source,
            arguments=tuple(deployment.arguments(self.stage.home_uri)),
            conf=deployment.conf,
            py_files=deployment.py_files,
        )

    def cut_over(
        self,
        pair: Pair,
        key: str,
        arriving: Arriving,
        *,
        ahead: int,
        compare: tuple[CompareTerms, ...] = (),
        comparing: Compare | None = None,
    ) -> CutoverProgress:
        """
        Take a cutover to its end while files arrive, and return it.

        :param key: What it is asked for by.
        :param ahead: Files that are there beyond those that both lanes have read.
        :param comparing: Compares the outputs; default: a Spark of its own.
        """
        is_fresh = pair.start is StartWay.FRESH
        if comparing is None and compare:
            comparing = by_spark(self.stage, from_beginning=is_fresh)
        plan = replace(PLAN, compare=compare)
        engine = self.begun(pair, key, plan, comparing)
        ended = self.driven(engine, CutoverState.FINALIZED, arriving, ahead=ahead)
        assert not ended.needs_person, ended
        return ended

    def begun(
        self, pair: Pair, key: str, plan: CutoverPlan = PLAN, comparing: Compare | None = None
    ) -> Cutover:
        """Begin a cutover, and return who takes it to its end."""
        engine = Cutover(
            self.stream,
            StageLanes(self.stage, "a test"),
            by="a test",
            checkpoints=StoredCheckpoints(),
            compare=comparing,
        )
        source = self.green_script.read_bytes()
        engine.begin(plan.terms(SwitchMethod.PARALLEL, (pair,), key), {self.stream: source})
        return engine

    def driven(
        self, engine: Cutover, until: CutoverState, arriving: Arriving, *, ahead: int
    ) -> CutoverProgress:
        """
        Advance a cutover to a state, or until it waits for a person, while input arrives.

        :param ahead: Files that are there beyond those that both lanes have read.
        """
        found = list[CutoverProgress]()

        def is_there() -> bool:
            # No machine is too slow to keep pace with files that come when the last was read by both.
            if min(map(self.files_read, self._newest())) > arriving.files - ahead:
                arriving.arrive()
            found[:] = [engine.advance(until)]
            return found[0].is_there or found[0].needs_person

        self.wait(is_there, f"{until} of the cutover")
        return found[0]

    def _newest(self) -> Iterable[Deployment]:
        for lane in map(self.stage.lane, self.lanes):
            deployment = lane.newest_deployment()
            if deployment is not None:
                yield deployment

    def files_read(self, deployment: Deployment) -> int:
        """Return how many files a lane has taken into committed batches."""
        checkpoint = Path(deployment.checkpoint) / self.query
        try:
            (source,) = inspect(str(checkpoint)).sources
        except (CheckpointError, ValueError):
            return 0
        if not source.committed:
            return 0
        return len(files_taken(checkpoint, source.name, int(source.committed["logOffset"])))

    def wait(self, condition: Callable[[], Any], what: str, seen: Iterable[str] = ()) -> None:
        """Wait for what the drivers do; a failure shows what they logged."""

        def shown() -> str:
            logs = sorted((self.stage.folder / "logs").glob("*.log"))
            return "\n".join([*seen, *map(tail, logs)])

        until(condition, what, seen=shown)
