"""The operator that brings a backup back: a dry run unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.exceptions import CheckpointError, SpecError
from airflow_streaming.operators._acting import who
from airflow_streaming.operators._checkpoint.common import CheckpointTask, truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.restore import Place
    from airflow_streaming.checkpoint.store import BackupStore
    from airflow_streaming.core.checkpoint.replay import RefusalCode, RestorePlan
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.operators._narrating import Narrator

PLAN_XCOM_KEY: Final = "plan"
"""XCom with the plan of a restore: what goes back, what is read again, why it is refused."""


class CheckpointRestoreOperator(CheckpointTask):
    """
    Restore a backup, or say what that would mean.

    A stream of ours gets a new deployment that goes on from the restored checkpoint. It has to be
    stopped for that, and it stays stopped: start it with ``StartStreamOperator``. With ``to`` the
    checkpoint is only written there. Nothing is ever written over an old checkpoint.

    The log says what the restore means before anything is done: which batches and offsets go back,
    what the sink will see again, and every reason against it. When there is one, a dry run
    succeeds and says so, and a real run fails.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` when not given. (templated)
    :param backup_id: Which backup; the stream's newest when not given. (templated)
    :param to: URI of a place that is missing or empty, for a copy; when not given, the stream's own
        next checkpoint. (templated)
    :param to_conn_id: Connection with credentials for that place. (templated)
    :param dry_run: Say what it would do and do nothing; on unless it is turned off. (templated)
    :param reason: Why, for the records. (templated)
    :param accept: Reasons against it that are accepted, by their codes, as a list or a text with
        commas, e.g. ``query_missing``. (templated)
    :param backup_before: Back up what the stream gives up. When that cannot be done the restore
        goes on, because the old checkpoint stays where it is.
    """

    template_fields: Sequence[str] = (
        *CheckpointTask.template_fields,
        "backup_id",
        "to",
        "to_conn_id",
        "is_dry_run",
        "reason",
        "accept",
    )
    ui_color = "#f4c7b4"

    def __init__(
        self,
        *,
        backup_id: str | None = None,
        to: str | None = None,
        to_conn_id: str | None = None,
        dry_run: bool | str = True,
        reason: str = "Asked from a dag.",
        accept: Sequence[str] | str = (),
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
        self.backup_before = backup_before
        if not to and not self.home:
            raise SpecError(
                f"Task {self.task_id!r}: give home, whose stream goes on from the backup, or to, "
                "where a copy is written."
            )

    def execute(self, context: Context) -> dict[str, Any]:
        with self.at_work() as narrator:
            store = self.open_store()
            backup_id = self.find(store, self.backup_id).id
            plan = self._plan(store, backup_id, narrator)
            self._tell(plan)
            context["ti"].xcom_push(key=PLAN_XCOM_KEY, value=plan.to_dict())
            if truth(self.is_dry_run, "dry_run"):
                self.log.info("This was a dry run; nothing was written.")
                return {"backup": backup_id, "dry_run": True, "is_refused": plan.is_refused}
            done = self._restore(store, backup_id, narrator, by=who(context))
        return {"backup": backup_id, "dry_run": False, **done}

    def _plan(self, store: BackupStore, backup_id: str, narrator: Narrator) -> RestorePlan:
        from airflow_streaming.checkpoint.restore import plan_restore  # not at dag parse
        from airflow_streaming.checkpoint.switch import plan_switch
        from airflow_streaming.launch.local import LocalLauncher

        if self.to:
            return plan_restore(
                store, backup_id, self._place(), accept=self._accepted(), progress=narrator
            )
        return plan_switch(
            *(self.open_stream(), LocalLauncher(), store, backup_id),
            accept=self._accepted(),
            storage_options=self._options(str(self.home), self.home_conn_id),
            progress=narrator,
        )

    def _restore(
        self, store: BackupStore, backup_id: str, narrator: Narrator, *, by: str
    ) -> Mapping[str, Any]:
        if self.to:
            return self._copy(store, backup_id, narrator)
        return self._switch(store, backup_id, narrator, by=by)

    def _copy(self, store: BackupStore, backup_id: str, narrator: Narrator) -> Mapping[str, Any]:
        from airflow_streaming.checkpoint.restore import restore  # not at dag parse

        restored = restore(
            store, backup_id, self._place(), accept=self._accepted(), progress=narrator
        )
        for query, checkpoint in restored.checkpoints.items():
            self.log.info("Query %s was restored to %s", query, checkpoint)
        return {"checkpoints": dict(restored.checkpoints)}

    def _switch(
        self, store: BackupStore, backup_id: str, narrator: Narrator, *, by: str
    ) -> Mapping[str, Any]:
        from airflow_streaming.checkpoint.switch import switch  # not at dag parse
        from airflow_streaming.launch.local import LocalLauncher

        def keep(_: Deployment) -> str:
            return self._back_up_before(store, narrator, by=by)

        switched = switch(
            *(self.open_stream(), LocalLauncher(), store, backup_id),
            by=by,
            reason=self.reason,
            accept=self._accepted(),
            backup_before=keep if self.backup_before else None,
            storage_options=self._options(str(self.home), self.home_conn_id),
            progress=narrator,
        )
        deployment = switched.deployment
        self.log.info(
            "Deployment %d goes on from %s when the stream is started.",
            *(deployment.number, deployment.checkpoint),
        )
        return {"deployment": deployment.number, "checkpoint": deployment.checkpoint}

    def _back_up_before(self, store: BackupStore, narrator: Narrator, *, by: str) -> str:
        from airflow_streaming.checkpoint.ours import Asked, backup_before  # not at dag parse

        asked = Asked(
            origin=Origin.BEFORE_RESTORE,
            by=by,
            note=self.reason,
            open_folders=self.open_folders,
            progress=narrator,
        )
        try:
            return backup_before(self.open_stream(), store, asked)
        except CheckpointError as err:
            # A damaged checkpoint is what restores are for, and it is not written to.
            self.log.warning("What is given up was not backed up; it stays where it is: %s", err)
            return ""

    def _tell(self, plan: RestorePlan) -> None:
        self.log.info(
            "Backup %s of stream %s to %s: %d files, %d bytes",
            *(plan.backup, plan.stream, plan.target, plan.files, plan.size),
        )
        for sentence in plan.sentences():
            (self.log.warning if plan.is_refused else self.log.info)("%s", sentence)

    def _place(self) -> Place:
        from airflow_streaming.checkpoint.restore import Place  # not at dag parse
        from airflow_streaming.hooks._access import access

        return Place(to=str(self.to), **access(str(self.to), self.to_conn_id))

    def _options(self, uri: str, conn_id: str | None) -> Mapping[str, Any] | None:
        from airflow_streaming.hooks._access import access_options  # not at dag parse

        return access_options(uri, conn_id)

    def _accepted(self) -> list[RefusalCode]:
        from airflow_streaming.core.checkpoint.replay import ACCEPTABLE, RefusalCode

        given = self.accept.split(",") if isinstance(self.accept, str) else self.accept
        codes = [code.strip() for code in given if code.strip()]
        if unknown := sorted(set(codes) - set(ACCEPTABLE)):
            raise SpecError(
                f"accept has {', '.join(unknown)}; what can be accepted is "
                f"{', '.join(sorted(ACCEPTABLE))}."
            )
        return [RefusalCode(code) for code in codes]
