"""
Carry one cutover out, as far as it is asked; started by the runs, killed, and started again.

``python -m tests.system.cutovers.worker FOLDER SPARK ASKED STEPS``
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.engine import CutoverProgress as Progress
from airflow_streaming.changes.cutover.lanes import Candidate, Facts, pair_of
from airflow_streaming.changes.handover.green_start import StoredCheckpoints
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.arguments.choices import SinkReplaySemantics, StartWay
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover import CutoverTerms, Pair
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverEvent, CutoverState
from airflow_streaming.model.records.upgrade import SinkFacts
from demo.waiting import PATIENCE
from tests.system.cutovers.asked import Asked, Course
from tests.system.cutovers.consumer import new_rows
from tests.system.cutovers.dying import Steps
from tests.system.cutovers.lanes import StageLanes, comparing, retiring
from tests.system.cutovers.stage import STREAM, Stage

LOOK_S: Final = 0.3
LONGEST_S: Final = PATIENCE


def main() -> int:
    """Go on until the cutover has come to its end."""
    folder, spark, asked_file, steps_file = map(Path, sys.argv[1:5])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    asked = Asked.read(asked_file)
    stage = replace(
        Stage.at(folder, spark, asked.writes, queries=asked.queries, streams=asked.streams),
        # The state of any new driver is large until its first watermark, on a slow machine for long.
        watches_state=asked.application == "state_too_big",
    )
    Steps(steps_file, asked.every, asked.first).watch()
    worker = Worker(stage, asked)
    progress = worker.run()
    print(f"{progress.state}: {progress.reason}")
    return 0


class Worker:
    """One who carries a cutover out."""

    def __init__(self, stage: Stage, asked: Asked) -> None:
        self._stage, self._asked = stage, asked
        self._engine = Cutover(
            STREAM,
            StageLanes(stage, f"worker of {asked.key}"),
            by="worker",
            checkpoints=StoredCheckpoints(),
            compare=comparing(stage, from_beginning=asked.start is StartWay.FRESH),
            retire=retiring(stage),
        )

    def run(self) -> Progress:
        """Go on until the end, and give the words that are asked for on the way."""
        self._begin()
        match self._asked.course:
            case Course.ABORT:
                self._word(CutoverState(self._asked.abort_at), self._abort)
            case Course.ROLL_BACK:
                self._word(CutoverState.SOAKING, self._roll_back)
        ended = self._until(CutoverState.FINALIZED)
        if ended.state is CutoverState.FINALIZED:
            ended = self._engine.command(CutoverCommand.RETIRE, "The test has no more use for it.")
        return ended

    def _begin(self) -> None:
        if self._is_begun():
            return
        found = {stream: self._pair(stream) for stream in self._asked.streams}
        pairs = tuple(pair for pair, _ in found.values())
        self._engine.begin(
            self._terms(pairs), {stream: source for stream, (_, source) in found.items()}
        )

    def _is_begun(self) -> bool:
        home = self._stage.lane(STREAM)
        known = [change for change in home.changes() if home.leads(change)]
        return any(home.cutover_terms(change).key == self._asked.key for change in known)

    def _pair(self, stream: str) -> tuple[Pair, bytes]:
        stage, lane = self._stage, self._stage.live_lane(stream)
        application = stage.folder / "jobs" / f"{self._asked.application}.py"
        blue, green = stage.lane(lane), other_lane(lane)
        candidate = Candidate(
            stream=stream,
            home=stage.home_uri,
            blue=blue,
            green=green,
            propose=lambda conf: stage.proposal(green, application, fresh=True, carried_on=conf),
            program=_no_program,
            runtime=stage.runtime,
        )
        facts = Facts(
            start=self._asked.start,
            queries=stage.queries,
            stateful=stage.stateful,
            sinks=tuple(self._sink(blue, query) for query in stage.queries),
        )
        return pair_of(candidate, self._asked.way, facts)

    def _sink(self, blue: StreamHome, query: str) -> SinkFacts:
        deployment = blue.newest_deployment()
        assert deployment is not None
        is_ledger = self._stage.sink == "ledger"
        return SinkFacts(
            query=query,
            sink="foreachbatch" if is_ledger else "file",
            habit=SinkReplaySemantics.REMEMBERS if is_ledger else SinkReplaySemantics.FILE_LOG,
            target="" if is_ledger else self._stage.place(deployment.output, query),
            is_stateful=query in self._stage.stateful,
        )

    def _terms(self, pairs: tuple[Pair, ...]) -> CutoverTerms:
        asked = self._asked
        compare = CompareTerms(
            stream=STREAM,
            format="json" if asked.writes == "ledger" else "parquet",
            time="at",
            bucket=timedelta(minutes=1),
            keys=("shop",),
            sums=("n", "total"),
            ignore=("most", "mean", "place"),
        )
        return CutoverTerms(
            change=1,
            way=asked.way,
            pairs=pairs,
            ready=ReadyTerms(well_for=timedelta(seconds=4), batches=3),
            compare=(compare,) if asked.compares else (),
            soak=SoakTerms(
                batches=3,
                at_least=timedelta(seconds=asked.soak_s),
                at_most=timedelta(seconds=max(60.0, asked.deadline_s) + asked.soak_s),
            ),
            promotes_by_itself=True,
            finalizes_by_itself=asked.course is Course.FORWARD and not asked.asks,
            retain_blue=timedelta(0),
            deadlines={
                "catching_up": timedelta(seconds=asked.deadline_s),
                "shadowing": timedelta(seconds=asked.deadline_s),
            },
            stop_grace=timedelta(seconds=asked.grace_s),
            key=asked.key,
        )

    def _word(self, at: CutoverState, say: Callable[[str], Progress]) -> None:
        """Come to a state, and give the word unless it is too late or somebody has before."""
        reached = self._until(at)
        if reached.state.can_abort or reached.state.can_roll_back:
            with contextlib.suppress(CutoverRefused):
                say("The test says so.")

    def _abort(self, reason: str) -> Progress:
        return self._engine.command(CutoverCommand.ABORT, reason)

    def _roll_back(self, reason: str) -> Progress:
        if self._asked.behind_s:
            hold_blue(self._stage, self._asked.behind_s)
        return self._engine.command(CutoverCommand.ROLL_BACK, reason)

    def _until(self, state: CutoverState) -> Progress:
        began, said = time.monotonic(), ""
        while True:
            progress = self._engine.advance(state)
            if progress.is_there:
                return progress
            if progress.waiting != said:
                said = progress.waiting
                logging.getLogger("waiting").info("%s: %s", progress.state, said)
            if progress.needs_person and self._is_asked_to_keep(progress):
                with contextlib.suppress(CutoverRefused):
                    self._engine.command(CutoverCommand.KEEP, "The test was asked, and says so.")
                continue
            if progress.needs_person and self._is_uncompared(progress):
                with contextlib.suppress(CutoverRefused):
                    self._engine.command(CutoverCommand.PROMOTE, "The test counts the rows itself.")
                continue
            if progress.needs_person:
                raise RuntimeError(f"A person is asked in {progress.state}: {progress.waiting}")
            if time.monotonic() - began > LONGEST_S:
                raise TimeoutError(f"Still {progress.state}: {progress.waiting}")
            time.sleep(LOOK_S)

    def _is_asked_to_keep(self, progress: Progress) -> bool:
        return self._asked.asks and progress.state is CutoverState.SOAKING

    def _is_uncompared(self, progress: Progress) -> bool:
        steps = self._stage.lane(STREAM).steps(progress.change)
        return bool(steps) and steps[-1].event is CutoverEvent.NOTHING_COMPARED


def hold_blue(stage: Stage, seconds: float) -> None:
    """
    Suspend the driver that is to be live again until it is behind.

    :raises RuntimeError: it has come as far as the other one all the same.
    """
    live = stage.live_lane()
    blue, green = stage.lane(other_lane(live)), stage.lane(live)
    epoch = blue.newest_epoch()
    launch = None if epoch is None else LocalLauncher().find(epoch)
    if launch is None:
        raise RuntimeError(f"{blue.name} has no driver to be held.")
    os.killpg(int(launch.handle["pid"]), signal.SIGSTOP)
    try:
        time.sleep(seconds)
        behind, ahead = (_newest(stage, lane) for lane in (blue, green))
    finally:
        os.killpg(int(launch.handle["pid"]), signal.SIGCONT)
    logging.getLogger("holding").info("%s is at %d, %s at %d", blue.name, behind, live, ahead)
    if behind >= ahead:
        raise RuntimeError(f"{blue.name} was held, and is not behind {live}.")


def _newest(stage: Stage, lane: StreamHome) -> int:
    """Return the newest window that a lane has written."""
    deployment = lane.newest_deployment()
    output = "" if deployment is None else stage.place(deployment.output, stage.queries[0])
    return max((key[0] for key, _ in new_rows(output, set())), default=-1)


def _no_program(*_: object) -> Any:
    raise AssertionError("Nothing is planned here.")


if __name__ == "__main__":
    sys.exit(main())
