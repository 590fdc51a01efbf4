"""A running retail stream, and a person who upgrades it through Airflow's API."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.records.upgrade_table import Stage as Reached
from demo.events import COLUMNS, LATENESS, Shop, synthetic_files
from demo.stage import REPOSITORY, Stage
from demo.waiting import PATIENCE, Say, wait_for

DAG: Final = "retail"
UPGRADE: Final = f"{DAG}_upgrade"
APPROVE: Final = "upgrade.approve"
DAGS: Final = Path(__file__).parent / "dags"
DAYS: Final = 5000
"""More files than ever arrive; the last one that did is the end of the input."""

EVERY: Final = 1.0
"""Seconds between two files: what a good application keeps up with and a slow one does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """
    How a run of the upgrade has ended.

    :param state: Of the dag's run.
    :param stage: The last stage of the change; ``None`` when none was begun.
    :param reasons: What the stages say, one after the other.
    """

    state: str
    stage: Reached | None
    reasons: str = ""


class Play:
    """
    The stream on Spark 3.5, files that arrive, and what a person does.

    :param folder: Emptied; everything lies here.
    :param runtimes: Spark runtimes by name: ``spark-3.5`` and ``spark-4.3``.
    :param environment: More settings for Airflow.
    :param ahead: Files that may lie there unread; by default any number, so that an application that
        is too slow falls behind.
    """

    def __init__(
        self,
        folder: Path,
        runtimes: Mapping[str, Path],
        say: Say,
        *,
        environment: Mapping[str, str] | None = None,
        ahead: int | None = None,
    ) -> None:
        self.say, self.folder = say, folder
        dags = folder / "dags"
        shutil.rmtree(dags, ignore_errors=True)
        shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(REPOSITORY / "dags" / "jobs", dags / "jobs")
        self.dag_file = dags / "retail_upgrade.py"
        self._shop = Shop()
        self.stage = Stage(
            folder / "stage",
            runtime=runtimes["spark-4.3"],
            runtimes=runtimes,
            say=say,
            files=synthetic_files(DAYS, self._shop),
            every=EVERY,
            ahead=ahead,
            dags=dags,
            stream=DAG,
            environment=environment,
        )

    @property
    def home(self) -> StreamHome:
        """The stream's records."""
        return open_home(self.stage.home).stream(DAG)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> float:
        """Wait for something; raises ``RuntimeError`` when it does not come."""
        return wait_for(
            condition,
            what=what,
            seconds=seconds,
            say=self.say,
            failing=self.stage.airflow.ended_component,
            seen=self.stage.stream.table,
        )

    def launch(self) -> None:
        """Let files arrive and the stream begin."""
        self.stage.arrivals.start()
        self.until(lambda: self.stage.airflow.has_dag(UPGRADE), "the dags")
        self.stage.airflow.unpause(DAG)
        self.until(self.stage.stream.is_well, "the stream to be well")

    def edit_dag(self, old: str, new: str) -> None:
        """Change some words of the dag file, as its author does."""
        text = self.dag_file.read_text(encoding="utf-8")
        if old not in text:
            raise RuntimeError(f"The dag file has no {old!r}.")
        edited = self.dag_file.with_suffix(".new")
        edited.write_text(text.replace(old, new), encoding="utf-8")
        edited.replace(self.dag_file)

    def ask(self, **form: Any) -> str:
        """Fill in the form of the upgrade, start a run and return its id."""
        return self.stage.airflow.trigger(UPGRADE, **{"dry_run": False, **form})

    def newest_run(self) -> str:
        """Return the id of the newest run of the upgrade."""
        path = f"/api/v2/dags/{UPGRADE}/dagRuns?order_by=-run_after&limit=1"
        return str(self.stage.airflow.get(path)["dag_runs"][0]["dag_run_id"])

    def question(self, run: str) -> dict[str, Any]:
        """Wait until a person is asked, and return what."""
        asked: dict[str, Any] = {}

        def is_asked() -> bool:
            if self.task_states(run).get(APPROVE) != "deferred":
                return self._is_over(run)
            asked.update(self.stage.airflow.get(self._question(run)))
            return True

        self.until(is_asked, "the question")
        if not asked:
            raise RuntimeError(f"Nobody was asked: {self.task_states(run)}")
        return asked

    def answer(self, run: str, option: str) -> str:
        """
        Wait until a person is asked, answer, and return what was asked.

        Airflow takes a task that goes on within the second it has paused for a failed one, tries it
        again, and asks again; so the answer is given as often as it is asked for.
        """
        asked = self.question(run)

        def is_taken() -> bool:
            state = self.task_states(run)[APPROVE]
            if state == "deferred":
                now = self.stage.airflow.get(self._question(run))
                if not now["response_received"]:
                    answer = {"chosen_options": [option], "params_input": {}}
                    self.stage.airflow.call("PATCH", self._question(run), answer)
            return state in ("success", "failed", "skipped")

        self.until(is_taken, "the answer to be taken")
        return str(asked["body"])

    @staticmethod
    def _question(run: str) -> str:
        return f"/api/v2/dags/{UPGRADE}/dagRuns/{run}/taskInstances/{APPROVE}/-1/hitlDetails"

    def end(self, run: str) -> Ended:
        """Wait until a run is over and say how it ended."""
        self.until(lambda: self._is_over(run), "the end of the upgrade", 2 * PATIENCE)
        return self.ended(run)

    def ended(self, run: str) -> Ended:
        """Say how a run has ended."""
        state = self.stage.airflow.run_state(UPGRADE, run)
        changes = [one for one in self.home.changes() if run in self.home.terms(one).key]
        if not changes:
            return Ended(state=state, stage=None)
        reached = self.home.stages(changes[-1].number)
        newest = [stage for stage in Reached if stage in reached][-1]
        reasons = " | ".join(f"{s.value}: {reached[s].reason}" for s in Reached if s in reached)
        return Ended(state=state, stage=newest, reasons=reasons)

    def _is_over(self, run: str) -> bool:
        return self.stage.airflow.run_state(UPGRADE, run) in ("success", "failed")

    def task_states(self, run: str) -> dict[str, str | None]:
        """Return the state of every task of a run."""
        path = f"/api/v2/dags/{UPGRADE}/dagRuns/{run}/taskInstances"
        found = self.stage.airflow.get(path)["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def finish(self) -> dict[str, Any]:
        """Let no more files arrive, wait until all are consumed, stop, and compare all rows."""
        self.stage.arrivals.stop()
        final = self._newest_event(self.stage.arrivals.dropped) - LATENESS
        self.until(lambda: self.stage.stream.has_passed(final), "all files to be consumed")
        self.stage.stream.stop(self.say)
        self.say("Comparing the output with a batch run over the same files")
        return self.stage.compare()

    def _newest_event(self, files: int) -> datetime:
        column = COLUMNS.index("InvoiceDate")
        newest = max(line[column] for line in self._shop.day(files - 1))
        return datetime.fromisoformat(f"{newest}+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """
    Seconds without a commit, by the drivers' clocks.

    :param launched: Of these, until the new driver's process was started; then Spark starts.
    """

    whole: float
    launched: float


def standstill(home: StreamHome, old: int, new: int) -> Standstill:
    """
    Return how long nothing was committed between the last batch of an epoch and the first of another.

    :raises RuntimeError: one of the two has committed nothing, or was not launched.
    """
    before, after, launch = _ends(home, old), _ends(home, new), home.launch(new)
    if not before or not after or launch is None:
        raise RuntimeError(f"Epoch {old} or epoch {new} has committed nothing.")
    return Standstill(
        whole=(after[0] - before[-1]).total_seconds(),
        launched=(launch.launched_at - before[-1]).total_seconds(),
    )


def _ends(home: StreamHome, epoch: int) -> list[datetime]:
    return sorted(
        datetime.fromisoformat(batch.at) + timedelta(milliseconds=batch.duration_ms)
        for batch in home.read_progress(epoch, limit=100_000)
    )
