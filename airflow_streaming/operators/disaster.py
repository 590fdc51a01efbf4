"""The operator of disaster drills: would the streams survive the loss of their home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.arguments.fields import Positive, checked
from airflow_streaming.model.names import base_of
from airflow_streaming.operators.common.base import ProgressLogger, SpecsTask, task_key, who
from airflow_streaming.operators.common.checkpoint import Terminated
from airflow_streaming.operators.common.gate import MARKDOWN_XCOM_KEY, REPORT_XCOM_KEY
from airflow_streaming.spec import StreamSpec
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoints.backup.records import Backup
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.jobs.recovery import DisasterDrill, StreamRecovery
    from airflow_streaming.model.storage import Store
    from airflow_streaming.services.disaster.drill import DrillMember, DrillTerms
    from airflow_streaming.services.disaster.place import DrillPlace
    from airflow_streaming.spark_jobs.runner import Program

__all__ = ["DisasterDrillOperator"]

FAIL_ON: Final = ("never", "lost", "unproven")
"""From the most to the least patient; each fails on the graver verdicts too."""
_MOST_AT_ONCE: Final = 32


class DisasterDrillOperator(SpecsTask):
    """
    Recover streams from their newest backups in another place, and measure recovery point and time.

    Each backup is verified and restored into ``to``. The deployed script continues there to the present, on a small
    Spark of the worker, with its output discarded. Live streams are not touched. A try that is killed continues where
    it stopped. XCom ``report`` has the recoveries, the worst first, and ``markdown`` a page; the return value is the
    verdict of each stream: ``lost``, ``unproven`` or ``recovered``.

    :param streams: The streams, as their DAGs have them; all in one home. (templated, field by field)
    :param to: URI of the home of drills, outside the live one: another folder or bucket. (templated)
    :param select: Selector of the streams to drill, without ``state`` and ``level``; all by default. (templated)
    :param to_conn_id: Connection with credentials for ``to``. (templated)
    :param backup_store: URI of the backups; ``<home>/_backups`` by default. (templated)
    :param at_once: Streams at a time, each with a Spark on the worker.
    :param time_limit: Time for the queries of one stream, without the start of Spark.
    :param keep: Leave the restored checkpoints in ``to``.
    :param fail_on: Fail the task from this verdict on: ``lost``, ``unproven``, or ``never``.
    """

    template_fields: Sequence[str] = (
        *SpecsTask.template_fields,
        *("streams", "to", "select", "to_conn_id", "backup_store"),
    )

    @checked
    def __init__(
        self,
        *,
        streams: Sequence[StreamSpec],
        to: str,
        select: str = "",
        to_conn_id: str | None = None,
        backup_store: str | None = None,
        at_once: int = 1,
        time_limit: Positive = timedelta(minutes=30),
        keep: bool = False,
        fail_on: str = "lost",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.streams = list(streams)
        for stream in self.streams:
            stream.check_written()
        self.to, self.select, self.to_conn_id = to, select, to_conn_id
        self.backup_store, self.at_once, self.time_limit = backup_store, at_once, time_limit
        self.keep, self.fail_on = keep, fail_on
        self._is_at_work = False
        if len({stream.home for stream in self.streams}) != 1:
            raise SpecError(
                f"Task {self.task_id!r} needs streams of one home. Make a task for each home."
            )
        if fail_on not in FAIL_ON:
            raise SpecError(f"fail_on is {fail_on!r}; give one of {', '.join(FAIL_ON)}.")
        if not 1 <= at_once <= _MOST_AT_ONCE:
            raise SpecError(f"at_once is {at_once}; give a number from 1 to {_MOST_AT_ONCE}.")

    def execute(self, context: Context) -> dict[str, str]:
        self._is_at_work = True
        try:
            with spec_errors_are_final():
                drill, found = self._drilled(context)
        finally:
            self._is_at_work = False
        self._tell(drill, found, context)
        return {one.name: one.result.verdict.value for one in found}

    def on_kill(self) -> None:
        # Airflow calls this in a signal handler and lets the task continue; only raising ends it.
        if self._is_at_work:
            raise Terminated(f"Task {self.task_id!r} was killed; the next try continues the drill.")

    def _drilled(self, context: Context) -> tuple[DisasterDrill, list[StreamRecovery]]:
        from airflow_streaming.services.disaster.drill import begin_drill, run_drill

        hooks = {one.name: self.open_hook(context, one) for one in self.streams}
        place = self._place()
        home = next(iter(hooks.values())).home.store
        drill = begin_drill(
            place,
            self.streams[0].home,
            self._selected(hooks),
            backups=self._backups(home),
            open_backups=lambda: self._open_backups(home),
            selector=self.select,
            key=task_key(context),
            by=who(context),
            now=datetime.now(UTC),
        )
        found = run_drill(
            place,
            drill,
            lambda name: self._member(hooks, name),
            self._terms(),
            now=lambda: datetime.now(UTC),
            progress=ProgressLogger(self.log),
            tell=lambda one: self.log.info("%s: %s. %s", one.name, one.result.value, one.reason),
        )
        return drill, found

    def _terms(self) -> DrillTerms:
        from airflow_streaming.services.disaster.drill import DRILLED, DrillTerms

        bounds = replace(DRILLED, seconds=self.time_limit.total_seconds())
        return DrillTerms(bounds=bounds, at_once=self.at_once, keeps=self.keep)

    def _place(self) -> DrillPlace:
        from airflow_streaming.home.home import open_home
        from airflow_streaming.hooks.home import access_options
        from airflow_streaming.model.uris import check_uri
        from airflow_streaming.services.disaster.place import DrillPlace

        to = check_uri(self.to, "to")
        options = access_options(to, self.to_conn_id)
        return DrillPlace(store=open_home(to, options).store, storage_options=options)

    def _backups(self, home: Store) -> str:
        from airflow_streaming.checkpoints.backup.stream_backup import default_store

        return self.backup_store or default_store(home.uri)

    def _open_backups(self, home: Store) -> BackupStore:
        from airflow_streaming.hooks.checkpoint import BackupStoreHook

        return BackupStoreHook(self._backups(home), self.home_conn_id).get_conn(home=home)

    def _selected(self, hooks: dict[str, SparkStreamHook]) -> list[str]:
        from airflow_streaming.model.arguments.selector import parse_selector
        from airflow_streaming.services.selection import no_look, selected

        if not self.select.strip():
            return list(hooks)
        home = next(iter(hooks.values())).streams
        lanes = [hook.home.name for hook in hooks.values()]
        found = selected(home, lanes, parse_selector(self.select), no_look)
        return [base_of(lane) for lane in found]

    def _member(self, hooks: dict[str, SparkStreamHook], name: str) -> DrillMember:
        from airflow_streaming.services.disaster.drill import DrillMember

        hook = hooks.get(name)
        if hook is None:
            raise SpecError(
                f"Task {self.task_id!r} has no stream {name!r}. Add it to streams of the task."
            )
        home = hook.home

        def program(backup: Backup) -> Program:
            number = backup.deployment
            if number is None:
                raise RecordError(
                    f"Backup {backup.id} names no deployment, so its script is not known."
                )
            return hook.program(home.deployment(number), home.application(number), is_scratch=True)

        return DrillMember(
            lane=home.name,
            backups=lambda: self._open_backups(home.store),
            program=program,
            runtime=lambda backup: hook.runtime(home.deployment(backup.deployment or 0).runtime),
        )

    def _tell(self, drill: DisasterDrill, found: list[StreamRecovery], context: Context) -> None:
        """Write the recoveries to the log and to XCom, and fail as ``fail_on`` says."""
        from airflow_streaming.model.jobs.recovery import worst_first
        from airflow_streaming.reports.campaigns.disaster import drill_facts, drill_report
        from airflow_streaming.reports.markdown import markdown

        context["ti"].xcom_push(key=REPORT_XCOM_KEY, value=drill_facts(drill, found))
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=markdown(drill_report(drill, found)))
        failing = FAIL_ON[1 : FAIL_ON.index(self.fail_on) + 1]
        bad = [one for one in worst_first(found) if one.result.verdict.value in failing]
        if bad:
            told = " ".join(f"{one.name}: {one.result.value}. {one.reason}" for one in bad[:5])
            raise AirflowFailException(
                f"{len(bad)} of {len(found)} streams were not recovered in drill {drill.number}. {told}"
            )
