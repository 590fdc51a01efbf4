"""An upgrade as a run of its dag: the tasks are real, and so is what they do to the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.changes.upgrade.engine import UpgradeInPlace
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.operators.common.run_report import push_recorded
from airflow_streaming.operators.common.upgrade import UpgradeTask
from airflow_streaming.options import UpgradeOptions
from airflow_streaming.orchestration.upgrade import upgrade_in_place
from airflow_streaming.spec import StreamSpec
from tests.unit.changes.upgrade.upgrading import REWIND, SINKS, Upgraded

SHORT: Final = SoakTerms(batches=3, at_least=timedelta(seconds=20), at_most=timedelta(seconds=100))
REPORT: Final = "upgrade.preflight"
ALL: Final = ("back_up", "switch", "soak", "checks", "settle")
SETTLE: Final = "settle"

_RENDERED: Final = {
    "soak_minutes": "",
    "accept": "",
    "approvers": "",
    "is_dry_run": "False",
    "approval": {"begin": "auto"},
}
"""What the templates of the form become."""


@dataclass
class TaskInstance:
    """A task instance whose XComs are those of its run."""

    task_id: str
    run_id: str
    xcoms: dict[tuple[str, str], Any] = field(repr=False)
    dag_id: str = "orders_upgrade"
    try_number: int = 1
    max_tries: int = 0
    map_index: int = -1
    id: str = "01990000-0000-7000-8000-000000000001"

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        # As Airflow 3.3 answers for an XCom that was never pushed.
        return self.xcoms.get((task_ids, key), [])


class Run:
    """
    One run of the upgrade's dag.

    :param group: Arguments of ``upgrade_in_place``.
    """

    def __init__(
        self, stream: Upgraded, patch: pytest.MonkeyPatch, run_id: str = "run-1", **group: Any
    ) -> None:
        self.stream, self.run_id = stream, run_id
        self.xcoms: dict[tuple[str, str], Any] = {}
        spec = StreamSpec(
            name="orders", application="orders.py", home=stream.uri, runtime="spark-4.3"
        )
        with DAG("orders_upgrade", schedule=None) as dag:
            upgrade_in_place(spec, UpgradeOptions(**{"soak": SHORT, **group}))
        self.dag = dag
        patch.setattr(UpgradeTask, "hook", lambda *_: hook_of(stream))
        patch.setattr(UpgradeTask, "engine", self._engine)
        patch.setattr("airflow_streaming.operators.common.change.POLL_SECONDS", 0.0)

    @property
    def key(self) -> str:
        return f"orders_upgrade {self.run_id}"

    def task(self, name: str) -> Any:
        task = self.dag.get_task(f"upgrade.{name}")
        for template, value in _RENDERED.items():
            if hasattr(task, template):
                setattr(task, template, value)
        if isinstance(task, UpgradeTask):
            task.patience = timedelta(0)
        return task

    def context(self, name: str) -> Any:
        ti = TaskInstance(task_id=f"upgrade.{name}", run_id=self.run_id, xcoms=self.xcoms)
        return {"ti": ti, "params": {}, "dag_run": SimpleNamespace(start_date=self.stream.now)}

    def report(self, **changes: Any) -> None:
        """Leave what a preflight leaves that has found nothing against it."""
        proposed = self.stream.proposed()
        self.leave(
            {
                "replaced": self.stream.deployment.number,
                "fingerprint": proposed.fingerprint,
                "rollback": encode(REWIND),
                "sinks": encode(SINKS),
                "soak": encode(self.task("preflight").soak),
                "key": self.key,
                "decision": "allowed",
                **changes,
            }
        )

    def leave(self, report: Mapping[str, Any]) -> None:
        """Push a report as the preflight does."""
        push_recorded(self.context("preflight"), self.stream.home, "report", report)

    def go(self, name: str, *, is_new_try: bool = False, ticks: int = 60) -> Any:
        """
        Let one task run to its end, while time passes.

        :param is_new_try: Every time it has waited, begin again as after a killed worker.
        """
        task, context = self.task(name), self.context(name)
        event: dict[str, Any] | None = None
        for _ in range(ticks):
            try:
                done = (
                    task.execute(context)
                    if event is None or is_new_try
                    else task.execute_complete(context, event)
                )
            except TaskDeferred as deferred:
                path, kwargs = deferred.trigger.serialize()
                assert path.endswith("UpgradeTrigger")
                event = {"memory": kwargs["memory"]}
                self.stream.tick()
                continue
            self.xcoms[f"upgrade.{name}", "return_value"] = done
            return done
        raise AssertionError(f"Task {name} came to no end.")

    def go_all(self, *names: str, killed: str = "") -> dict[str, str]:
        """
        Run tasks as Airflow would; return what became of each, the reason for those that end.

        :param killed: Whose worker is killed whenever it has waited, and after its work once more.
        """
        became: dict[str, str] = {}
        for name in names or ALL:
            if name == "checks" and not self.dag.has_task("upgrade.checks"):
                continue
            if name == SETTLE or set(became.values()) <= {"done"}:
                for _ in range(1 + (name == killed)):
                    became[name] = self._end_of(name, is_new_try=name == killed)
        return became

    def _end_of(self, name: str, *, is_new_try: bool) -> str:
        try:
            self.go(name, is_new_try=is_new_try)
        except (AirflowFailException, AirflowSkipException) as err:
            return str(err)
        return "done"

    def _engine(self, hook: Any, observer: Any) -> UpgradeInPlace:
        stream = self.stream
        return UpgradeInPlace(
            *(stream.home, stream.controller(), observer, stream.store),
            by="kim",
            now=lambda: stream.now,
        )


def hook_of(stream: Upgraded) -> Any:
    """Return as much of a stream's hook as the tasks of an upgrade touch."""

    def observer(memory: dict[str, Any] | None = None) -> Any:
        stream.memories["task"] = memory
        return stream.observer(who="task")

    return SimpleNamespace(
        home=stream.home,
        controller=stream.controller(),
        launcher=stream.launcher,
        observer=observer,
        by="kim",
        proposal=lambda: (stream.proposed(), stream.new_script),
        folder=Path(stream.uri),
    )
