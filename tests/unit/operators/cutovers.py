"""A cutover as a run of its dag: the tasks are real, and so is what they do to the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.lanes import LANES, Candidate
from airflow_streaming.changes.cutover.plan import CutoverPlan, CutoverPreflight, PairPreflight
from airflow_streaming.changes.judging.methods import WaysReport
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.operators.common.cutover import CutoverTask, names_of
from airflow_streaming.operators.common.run_report import push_recorded
from airflow_streaming.options import CutoverOptions
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.spec import StreamSpec
from tests.unit.changes.cutover.cutting import READY, SOAK, Cutting
from tests.unit.operators.upgrades import TaskInstance

REPORT: Final = "blue_green.preflight"
BEFORE: Final = ("start_green", "catch_up", "shadow", "checks", "compare")
ALL: Final = (*BEFORE, "switch", "soak", "settle")
SETTLE: Final = "settle"


class Lanes:
    """The lanes of a dag, opened by the test's stream."""

    by = "kim"

    def __init__(self, stream: Cutting) -> None:
        self._stream, self.leader, self.open = stream, stream.streams[0], stream.open

    @property
    def home(self) -> StreamHome:
        return self._stream.home(self.leader)

    def hook(self, _: str) -> Any:
        return SimpleNamespace(lane=lambda lane: SimpleNamespace(home=self._stream.home(lane)))

    def candidates(self) -> list[Candidate]:
        return [self._candidate(name) for name in self._stream.streams]

    def _candidate(self, name: str) -> Candidate:
        stream, blue = self._stream, self._stream.live_lane(name)
        runtime: Any = SimpleNamespace(name="spark-4.3", spark_version="4.3.0")
        return Candidate(
            stream=name,
            home=stream.uri,
            blue=stream.home(blue),
            green=other_lane(blue),
            propose=lambda _: (stream.pair(name).shadow, stream.new_script),
            program=lambda deployment, _: deployment,  # type: ignore[arg-type, return-value]
            runtime=runtime,
        )


class Run:
    """
    One run of the cutover's dag.

    :param group: Arguments of ``blue_green``.
    """

    def __init__(
        self, stream: Cutting, patch: pytest.MonkeyPatch, run_id: str = "run-1", **group: Any
    ) -> None:
        self.stream, self.run_id = stream, run_id
        self.xcoms: dict[tuple[str, str], Any] = {}
        self.checks = tuple(group.get("checks", ()))
        specs = [
            StreamSpec(name=name, application="orders.py", home=stream.uri, runtime="spark-4.3")
            for name in stream.streams
        ]
        with DAG("orders_blue_green", schedule=None) as dag:
            blue_green(specs, CutoverOptions(**group))
        self.dag = dag
        patch.setattr(CutoverTask, "lanes", lambda *_: Lanes(stream))
        patch.setattr(CutoverTask, "engine", self._engine)
        # The same command, on the clock and the drivers of the test.
        patch.setattr("airflow_streaming.services.changes.command_cutover", self._command)
        # Time passes only when a task waits deferred.
        patch.setattr(CutoverTask, "more_patience", lambda *_: timedelta(0))
        patch.setattr("airflow_streaming.operators.common.change.POLL_SECONDS", 0.0)

    @property
    def key(self) -> str:
        return f"orders_blue_green {self.run_id}"

    def task(self, name: str) -> Any:
        task = self.dag.get_task(f"blue_green.{name}")
        if isinstance(task, CutoverTask):
            task.patience = timedelta(0)
        return task

    def context(self, name: str, **told: Any) -> Any:
        ti = TaskInstance(
            task_id=f"blue_green.{name}", run_id=self.run_id, xcoms=self.xcoms, **told
        )
        ti.dag_id = "orders_blue_green"
        return {"ti": ti, "params": {}}

    def report(self, **course: Any) -> None:
        """Leave what a preflight leaves that has found nothing against it."""
        compare = tuple(CompareTerms(stream=name) for name in self.stream.streams)
        told = {
            "ready": READY,
            "soak": SOAK,
            "compare": compare,
            "promotes_by_itself": True,
            **course,
        }
        pairs = tuple(
            PairPreflight(
                pair=self.stream.pair(name),
                differences=(),
                gates=GateReport(),
                ways=WaysReport(),
                why="The test says so.",
            )
            for name in self.stream.streams
        )
        self.leave(
            {
                **CutoverPreflight(way=self.stream.way, pairs=pairs).to_dict(),
                "course": encode(CutoverPlan(checks=names_of(self.checks), **told)),
                "key": self.key,
            }
        )

    def leave(self, report: Mapping[str, Any]) -> None:
        """Push a report as the preflight does."""
        push_recorded(self.context("preflight"), self.stream.home("orders"), "report", report)

    def go(self, name: str, *, is_new_try: bool = False, ticks: int = 80, **told: Any) -> Any:
        """
        Let one task run to its end, while time passes.

        :param is_new_try: Every time it has waited, begin again as after a killed worker.
        """
        task, context = self.task(name), self.context(name, **told)
        event: dict[str, Any] | None = None
        for _ in range(ticks):
            try:
                begins = event is None or is_new_try
                done = task.execute(context) if begins else task.execute_complete(context, event)
            except TaskDeferred as deferred:
                path, kwargs = deferred.trigger.serialize()
                assert path.endswith("CutoverTrigger")
                event = {"memory": kwargs["memory"]}
                self.stream.tick()
                continue
            self.xcoms[f"blue_green.{name}", "return_value"] = done
            return done
        raise AssertionError(f"Task {name} came to no end; {self.stream.history()}")

    def go_all(self, *names: str, killed: Collection[str] = ()) -> dict[str, str]:
        """
        Run tasks as Airflow would; return what became of each, the reason for those that end.

        :param killed: Whose workers are killed whenever they have waited, and after their work once more.
        """
        became: dict[str, str] = {}
        for name in names or ALL:
            if name == "checks" and not self.checks:
                continue
            if name == SETTLE or set(became.values()) <= {"done"}:
                for _ in range(1 + (name in killed)):
                    became[name] = self._end_of(name, is_new_try=name in killed)
        return became

    def answer(self, name: str, word: str, who: str | None = "ann") -> Any:
        """Let a person answer a question; nobody's answer is that of time."""
        event = {
            "chosen_options": [word],
            "params_input": {},
            "responded_at": datetime(2026, 3, 1, tzinfo=UTC),
            "responded_by_user": None if who is None else {"id": "7", "name": who},
            "timedout": who is None,
        }
        return self.task(name).execute_complete(self.context(name), event)

    def _end_of(self, name: str, *, is_new_try: bool) -> str:
        try:
            self.go(name, is_new_try=is_new_try)
        except (AirflowFailException, AirflowSkipException) as err:
            return str(err)
        return "done"

    def _command(
        self, home: StreamHome, change: int, command: CutoverCommand, *, reason: str, **_: Any
    ) -> None:
        assert home.name == self.stream.streams[0]
        self.stream.engine().command(command, reason, change)

    def _engine(self, _: Any, __: Any, memory: dict[str, Any] | None = None) -> Cutover:
        for lane, learned in (memory or {}).get(LANES, {}).items():
            self.stream.lane(lane).memories["cutover"] = learned
        return self.stream.engine()


def another_script(stream: Cutting) -> None:
    """Let the dag propose something else than before."""
    stream.code = f"{stream.code} otherwise"
