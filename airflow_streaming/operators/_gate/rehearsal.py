"""The operator that runs a new script, on a new Spark, on a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.rehearsal.order import QUICK, Bounds
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._checkpoint.common import Terminated, positive
from airflow_streaming.operators._gate.common import (
    MARKDOWN_XCOM_KEY,
    REPORT_XCOM_KEY,
    asked,
    fail_if_refused,
    line_of,
)
from airflow_streaming.operators._gate.place import GateTask
from airflow_streaming.operators._narrating import Narrator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.drill_program import Program
    from airflow_streaming.core.rehearsal.rehearsed import Rehearsed
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.launch.runtime import Runtime
    from airflow_streaming.upgrade.rehearsal import OfBackup, OfCheckpoints


class RehearsalOperator(GateTask):
    """
    Run a new script on a copy of the stream's checkpoints, its output thrown away.

    It runs in the worker, on a small Spark of that host, for a bounded time. Nothing of the live
    stream is touched, and what it leaves behind is removed, also when the task is killed.

    The return value is the decision; XCom ``report`` has what was seen and ``markdown`` a page.

    :param stream: The stream with what is to be tried. (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above those of
        one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param application: The script; for a stream the spec's when not given. (templated)
    :param application_args: For a checkpoint, its arguments. (templated)
    :param conf: Spark configuration; for a stream, changes of the spec's. (templated)
    :param runtime: Name of the Spark installation; for a stream the spec's when not given.
        (templated)
    :param backup_id: Rehearse on this backup of the stream instead of a copy of the live
        checkpoints; ``newest`` takes the newest one. (templated)
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given. (templated)
    :param batches: Batches after which each query is ended; 0 replays one batch only. (templated)
    :param time_limit: Time for all queries together, without the start of Spark.
    :param fail_on: The best decision from which the task fails. (templated)
    """

    template_fields: Sequence[str] = (
        *GateTask.template_fields,
        "application",
        "application_args",
        "conf",
        "runtime",
        "backup_id",
        "backup_store",
        "batches",
    )

    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] = (),
        conf: Mapping[str, Any] | str | None = None,
        runtime: str | None = None,
        backup_id: str | None = None,
        backup_store: str | None = None,
        batches: int | str = 5,
        time_limit: timedelta = timedelta(minutes=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = list(application_args)
        self.conf = conf
        self.runtime = runtime
        self.backup_id = backup_id
        self.backup_store = backup_store
        self.batches = batches
        self.time_limit = time_limit
        self._is_at_work = False
        positive(time_limit, "time_limit")
        if self.checkpoint and not (application and runtime):
            raise SpecError(
                f"Task {self.task_id!r}: give application and runtime, to be run on a copy of the "
                "checkpoint."
            )

    def execute(self, context: Context) -> str:
        self._is_at_work = True
        try:
            found = asked(lambda: self.rehearse(context))
        finally:
            self._is_at_work = False
        self.tell(found, context)
        fail_if_refused(found.report, self.fail_on, what=f"The rehearsal on {self.subject}")
        return found.decision.value

    def on_kill(self) -> None:
        # Airflow calls this in a signal handler and lets the task go on; only raising ends it, and
        # lets the rehearsal end its Spark and remove its copy.
        if self._is_at_work:
            raise Terminated(f"Task {self.task_id!r} was killed; its copy is removed.")

    def rehearse(self, context: Context) -> Rehearsed:
        """Run the script on a copy; return what was seen."""
        from airflow_streaming.upgrade.rehearsal import OfCheckpoints, rehearse  # not at dag parse

        bounds, narrator = self.bounds(), Narrator(self.log)
        if self.checkpoint:
            place = OfCheckpoints(
                checkpoints=self.checkpoints(), storage_options=self.storage_options()
            )
            conf = self.conf if isinstance(self.conf, Mapping) else None
            program = self.script(str(self.application), self.application_args, conf)
            runtime = self.runtime_of(str(self.runtime))
            return rehearse(place, program, runtime, bounds=bounds, progress=narrator)
        home, program, runtime = self._of_stream(context)
        return rehearse(
            self._place(home),
            program,
            runtime,
            bounds=bounds,
            compare_with=home,
            progress=narrator,
        )

    def tell(self, found: Rehearsed, context: Context) -> None:
        """Write what was seen to the log and to XCom."""
        from airflow_streaming.core.rehearsal.markdown import as_markdown

        for finding in found.findings:
            self.log.info("%s", line_of(finding))
        self.log.info("Decision: %s, after %.0f s", found.decision.value, found.seconds)
        context["ti"].xcom_push(key=REPORT_XCOM_KEY, value=found.to_dict())
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=as_markdown(found))

    def bounds(self) -> Bounds:
        """
        Return how far it goes.

        :raises SpecError: the number of batches is none.
        """
        text = str(self.batches).strip()
        if not text.isdecimal():
            raise SpecError(
                f"batches is {self.batches!r}; give a number, 0 for one replayed batch."
            )
        seconds = self.time_limit.total_seconds()
        if int(text) == 0:
            return replace(QUICK, seconds=min(seconds, QUICK.seconds))
        return Bounds(batches=int(text), seconds=seconds)

    def _of_stream(self, context: Context) -> tuple[StreamHome, Program, Runtime]:
        from airflow_streaming.operators._upgrade.edits import edited  # not at dag parse
        from airflow_streaming.operators._upgrade.program import program_of

        spec = edited(
            self.stream, runtime=self.runtime, application=self.application, conf=self.conf
        )
        hook = self.open_hook(context, spec)
        proposed, source = hook.proposal()
        program = program_of(spec, proposed, source, is_scratch=True)
        return hook.home, program, hook.runtime(spec.runtime)

    def _place(self, home: StreamHome) -> OfBackup | OfCheckpoints:
        from airflow_streaming.checkpoint.ours import default_store  # not at dag parse
        from airflow_streaming.exceptions import BackupNotFound
        from airflow_streaming.hooks.backup_store import BackupStoreHook
        from airflow_streaming.upgrade.rehearsal import OfBackup, checkpoints_of

        if not self.backup_id:
            return checkpoints_of(home, self.storage_options())
        uri = self.backup_store or default_store(self.stream.home)
        store = BackupStoreHook(uri, self.home_conn_id).get_conn()
        if self.backup_id != "newest":
            return OfBackup(store=store, backup=store.backup(self.backup_id, home.name))
        backups = store.backups(home.name)
        if not backups:
            raise BackupNotFound(
                f"The store {uri} has no backup of stream {home.name!r}. Take one first, or "
                "rehearse on a copy of the live checkpoints."
            )
        return OfBackup(store=store, backup=max(backups, key=lambda b: (b.begun_at, b.id)))
