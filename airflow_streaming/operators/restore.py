"""Operators that verify a backup and restore one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import accepted_codes, codes_in, is_written_out
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.fields import Positive, checked
from airflow_streaming.model.arguments.literals import check_backup_id, check_literals, uri_of
from airflow_streaming.operators.common.base import actor_of, who
from airflow_streaming.operators.common.checkpoint import BACKUP_XCOM_KEY, CheckpointTask, truth
from airflow_streaming.operators.common.gate import MARKDOWN_XCOM_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.restore.stream_restore import RestoreRequest
    from airflow_streaming.checkpoints.backup.records import Backup, Verification
    from airflow_streaming.checkpoints.restore.replay import RefusalCode, RestorePlan
    from airflow_streaming.checkpoints.restore.restore import Place
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.checkpoints.vault.verify import Drill
    from airflow_streaming.operators.common.base import ProgressLogger

MOST_PROBLEMS: Final = 5
"""Problems quoted in an error; the store has all."""

PLAN_XCOM_KEY: Final = "plan"
"""XCom with the plan of a restore: data to roll back, data to read again, reasons for a refusal."""


class CheckpointVerifyOperator(CheckpointTask):
    """
    Verify a backup; the task fails if the verification fails.

    Without ``backup_id`` the task is skipped before the stream's first batch.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param backup_id: Which backup; the stream's newest by default. (templated)
    :param level: ``quick`` compares names and sizes, ``full`` reads every byte, ``drill`` also has
        a real Spark open the state and run a batch on a scratch copy. (templated)
    :param runtime: For a drill, the name of a Spark installation in ``[streaming] runtimes``; by
        default one of the version that wrote the backup. (templated)
    :param script: For a drill, the script of an external stream; a managed stream is drilled with
        the script of the backup's own deployment. Without a script, only the state is opened.
        (templated)
    :param drill_timeout: How long Spark may take for the drill.
    """

    template_fields: Sequence[str] = (
        *CheckpointTask.template_fields,
        "backup_id",
        "level",
        "runtime",
        "script",
    )

    @checked
    def __init__(
        self,
        *,
        backup_id: str | None = None,
        level: str = Level.FULL,
        runtime: str | None = None,
        script: str | None = None,
        drill_timeout: Positive = timedelta(minutes=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.backup_id = backup_id
        self.level = level
        self.runtime = runtime
        self.script = script
        self.drill_timeout = drill_timeout
        check_literals(self, {"backup_id": check_backup_id, "level": level_of})

    def execute(self, context: Context) -> str:
        with self.at_work() as narrator:
            store, backup = self.find(self.backup_id, is_due=self.backup_id is not None)
            found = self.verify(store, backup, level_of(self.level), narrator, by=who(context))
        context["ti"].xcom_push(key=BACKUP_XCOM_KEY, value=found.to_dict())
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=_page(found))
        check_that_it_holds(backup, found)
        return backup.id

    def verify(
        self, store: BackupStore, backup: Backup, level: Level, narrator: ProgressLogger, *, by: str
    ) -> Verification:
        """Verify one backup and log the findings."""
        from airflow_streaming.checkpoints.vault.verify import verify  # not at dag parse

        found = verify(
            store,
            backup.id,
            level,
            by=by,
            now=datetime.now(UTC),
            stream=backup.stream,
            drill=self._drill(backup, narrator) if level is Level.DRILL else None,
            progress=narrator.read,
        )
        for name, fact in found.facts.items():
            self.log.info("%s: %s", name, fact)
        self.log.info("Backup %s, %s: %d problems.", backup.id, level, len(found.problems))
        return found

    def _drill(self, backup: Backup, narrator: ProgressLogger) -> Drill:
        from airflow_streaming.hooks.home import store_access
        from airflow_streaming.settings import read_settings
        from airflow_streaming.spark_jobs.drill import (
            choose_runtime,
            drill,  # not at dag parse
        )
        from airflow_streaming.spark_jobs.runner import deployed_program, read_program

        program = None
        if self.script:
            program = read_program(self.script)
        elif self.home and backup.deployment is not None:
            program = deployed_program(self.open_home(), backup.stream, backup.deployment)
            access = store_access(self.home, self.home_conn_id, program.conf)
            program = replace(program, conf={**access, **program.conf})
        return partial(
            drill,
            runtime=choose_runtime(read_settings().runtimes, backup, self.runtime or None),
            program=program,
            timeout=self.drill_timeout.total_seconds(),
            progress=narrator,
        )


def level_of(text: str) -> Level:
    """
    Return a level by its name.

    :raises SpecError: the name is unknown.
    """
    try:
        return Level(text)
    except ValueError as err:
        raise SpecError(f"level is {text!r}; give {', '.join(Level)}.") from err


def check_that_it_holds(backup: Backup, found: Verification) -> None:
    """
    Do nothing for a backup that was found whole.

    :raises AirflowFailException: it was not; with the first problems.
    """
    if not found.holds:
        raise AirflowFailException(
            f"Backup {backup.id} of stream {backup.stream!r} does not hold: "
            f"{' '.join(found.problems[:MOST_PROBLEMS])} Nothing restores from it; take a new one, "
            "and look for what changed the store."
        )


def _page(found: Verification | RestorePlan) -> str:
    # Not at dag parse.
    from airflow_streaming.checkpoints.backup.records import Verification
    from airflow_streaming.reports.backups import restore_plan_report, verification_report
    from airflow_streaming.reports.markdown import markdown

    if isinstance(found, Verification):
        return markdown(verification_report(found))
    return markdown(restore_plan_report(found))


class CheckpointRestoreOperator(CheckpointTask):
    """
    Restore a backup, or report the effects of a restore.

    A managed stream gets a new deployment that continues from the restored checkpoint. It must be
    stopped first, and it stays stopped: start it with ``StartStreamOperator``. With ``to`` the
    checkpoint is only written there. A restore never overwrites an old checkpoint.

    Before any change the log reports the effects: batches and offsets to roll back, rows that the
    sink will see again, and every reason for a refusal. With such a reason, a dry run succeeds and
    reports it, and a real run fails.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param backup_id: Which backup; the stream's newest by default. (templated)
    :param to: URI of a missing or empty place for a copy; the stream's own next checkpoint by
        default. (templated)
    :param to_conn_id: Connection with credentials for that place. (templated)
    :param dry_run: Only report the effects; on by default. (templated)
    :param reason: Why, for the records. (templated)
    :param accept: Reasons for a refusal that are accepted, by their codes, as a list or a text with
        commas, e.g. ``query_missing``. (templated)
    :param rewind: Rewind the stream's file sinks to the batches of the backup. Without it a query
        with state cannot go back and write to the same folder. Later output moves to
        ``<output>/_rolled_back``. Not with ``to``. (templated)
    :param backup_before: Back up the present checkpoint first. If that fails the restore continues,
        because the old checkpoint stays where it is.
    """

    template_fields: Sequence[str] = (
        *CheckpointTask.template_fields,
        "backup_id",
        "to",
        "to_conn_id",
        "is_dry_run",
        "reason",
        "accept",
        "rewind",
    )
    ui_color = "#f4c7b4"

    @checked
    def __init__(
        self,
        *,
        backup_id: str | None = None,
        to: str | None = None,
        to_conn_id: str | None = None,
        dry_run: bool | str = True,
        reason: str = "Asked from a dag.",
        accept: Sequence[str] | str = (),
        rewind: bool | str = False,
        backup_before: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.backup_id = backup_id
        self.to = to
        self.to_conn_id = to_conn_id
        # BaseOperator has a method called dry_run.
        self.is_dry_run = dry_run
        self.reason = reason
        self.accept = accept
        self.rewind = rewind
        self.backup_before = backup_before
        if not to and not self.home:
            raise SpecError(
                f"Task {self.task_id!r}: give home to restore its stream from the backup, or to, where a "
                "copy is written."
            )
        check_literals(self, {"backup_id": check_backup_id, "to": uri_of("target")})
        if is_written_out(accept):
            self._accepted()

    def execute(self, context: Context) -> dict[str, Any]:
        with self.at_work() as narrator:
            if not self.to:
                self.open_stream().check_owner(actor_of(self, context))
            is_dry_run = truth(self.is_dry_run, "dry_run")
            is_due = not is_dry_run or self.backup_id is not None
            store, backup = self.find(self.backup_id, is_due=is_due)
            backup_id = backup.id
            plan = self._plan(store, backup_id, narrator)
            self._tell(plan)
            context["ti"].xcom_push(key=PLAN_XCOM_KEY, value=plan.to_dict())
            context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=_page(plan))
            if is_dry_run:
                self.log.info("This was a dry run; nothing was written.")
                return {"backup": backup_id, "dry_run": True, "is_refused": plan.is_refused}
            done = self._restore(store, backup_id, narrator, by=who(context))
        return {"backup": backup_id, "dry_run": False, **done}

    def _plan(self, store: BackupStore, backup_id: str, narrator: ProgressLogger) -> RestorePlan:
        from airflow_streaming.changes.restore.undo import plan_switch
        from airflow_streaming.checkpoints.restore.restore import plan_restore  # not at dag parse
        from airflow_streaming.hooks.launchers import task_launcher

        if self.to:
            return plan_restore(
                store, backup_id, self._place(), accept=self._accepted(), progress=narrator
            )
        asked = self._asked(narrator)
        home = self.open_stream()
        return plan_switch(home, task_launcher(home), store, backup_id, asked)

    def _asked(self, narrator: ProgressLogger) -> RestoreRequest:
        from airflow_streaming.changes.restore.stream_restore import (
            RestoreRequest,  # not at dag parse
        )

        return RestoreRequest(
            accept=self._accepted(),
            rewind=truth(self.rewind, "rewind"),
            storage_options=self._options(str(self.home), self.home_conn_id),
            progress=narrator,
        )

    def _restore(
        self, store: BackupStore, backup_id: str, narrator: ProgressLogger, *, by: str
    ) -> Mapping[str, Any]:
        if self.to:
            return self._copy(store, backup_id, narrator)
        return self._switch(store, backup_id, narrator, by=by)

    def _copy(
        self, store: BackupStore, backup_id: str, narrator: ProgressLogger
    ) -> Mapping[str, Any]:
        from airflow_streaming.checkpoints.restore.restore import restore  # not at dag parse

        restored = restore(
            store, backup_id, self._place(), accept=self._accepted(), progress=narrator
        )
        for query, checkpoint in restored.checkpoints.items():
            self.log.info("Query %s was restored to %s", query, checkpoint)
        return {"checkpoints": dict(restored.checkpoints)}

    def _switch(
        self, store: BackupStore, backup_id: str, narrator: ProgressLogger, *, by: str
    ) -> Mapping[str, Any]:
        from airflow_streaming.hooks.launchers import task_launcher
        from airflow_streaming.services.changes import restore_stream  # not at dag parse

        home = self.open_stream()
        switched = restore_stream(
            *(home, store, backup_id, self._asked(narrator)),
            launcher=task_launcher(home),
            by=by,
            reason=self.reason,
            backs_up=self.backup_before,
            open_folders=self.open_folders,
        )
        deployment = switched.deployment
        self.log.info(
            "Deployment %d resumes from %s when the stream is started.",
            *(deployment.number, deployment.checkpoint),
        )
        return {"deployment": deployment.number, "checkpoint": deployment.checkpoint}

    def _tell(self, plan: RestorePlan) -> None:
        self.log.info(
            "Backup %s of stream %s to %s: %d files, %d bytes",
            *(plan.backup, plan.stream, plan.target, plan.files, plan.size),
        )
        for sentence in plan.sentences():
            (self.log.warning if plan.is_refused else self.log.info)("%s", sentence)

    def _place(self) -> Place:
        from airflow_streaming.checkpoints.restore.restore import Place  # not at dag parse
        from airflow_streaming.hooks.home import access

        return Place(to=str(self.to), **access(str(self.to), self.to_conn_id))

    def _options(self, uri: str, conn_id: str | None) -> Mapping[str, Any] | None:
        from airflow_streaming.hooks.home import access_options  # not at dag parse

        return access_options(uri, conn_id)

    def _accepted(self) -> list[RefusalCode]:
        if not codes_in(self.accept):
            return []
        from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE, RefusalCode

        return [
            RefusalCode(code) for code in sorted(accepted_codes(self.accept, sorted(ACCEPTABLE)))
        ]
