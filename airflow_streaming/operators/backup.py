"""Operators that take backups and remove old ones."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk.exceptions import AirflowSkipException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import Notifiers, Way
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.arguments.fields import Positive, checked, is_filled_in
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.arguments.literals import (
    check_literals,
    mapping_of,
    mapping_or_template,
    uri_of,
)
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.operators.common.base import who
from airflow_streaming.operators.common.checkpoint import (
    BACKUP_XCOM_KEY,
    BackupAge,
    CheckpointTask,
    truth,
)
from airflow_streaming.operators.restore import check_that_it_holds

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoints.backup.records import Backup
    from airflow_streaming.checkpoints.vault.retention import Retained
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.home.home import Home
    from airflow_streaming.operators.common.base import ProgressLogger
    from airflow_streaming.storage.folders import Folders

_VERIFIED: Final = frozenset({Level.FULL, Level.DRILL})


class CheckpointBackupOperator(CheckpointTask):
    """
    Back up a stream's checkpoints while it runs, without touching or pausing it.

    The return value is the backup's id; XCom ``backup`` has its details. The task is skipped before the
    stream's first batch, and after the stream was removed.

    :param stream: The stream's name. For an external stream, the name of its backups; derived from
        the checkpoint's URI by default. (templated)
    :param home: The home's URI, for a managed stream. (templated)
    :param checkpoint: For an external stream, the URI of its checkpoint or of the folder above its
        queries' checkpoints. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param checkpoint_conn_id: Connection with credentials for the checkpoint; the home's connection
        by default. (templated)
    :param origin: Why it is taken; retention may keep each origin differently. (templated)
    :param note: A note to keep with it. (templated)
    :param sink_logs: From the name of a query with a file sink to the URI of its output, whose
        metadata log is backed up too; the name may be empty for an only query. Not needed for file
        sinks that the stream's drivers have recorded. As a mapping or JSON. (templated)
    :param verify: Verify the backup at once: ``quick``, ``full`` or ``None``.
    :param blackouts: Times of day without backups; the task is skipped.
    :param max_age: Maximum age of the newest good backup's content; beyond it, an alert is sent
        once, and once more at recovery. With ``verify="full"`` only a verified backup is good.
    :param on_late: Notified when this age is exceeded: a notifier, a callable that takes the
        context, or a list of them.
    :param on_recovered: Notified at recovery.
    """

    template_fields: Sequence[str] = (
        *CheckpointTask.template_fields,
        "checkpoint",
        "checkpoint_conn_id",
        "origin",
        "note",
        "sink_logs",
    )
    # The stream's name may go with a checkpoint too, so it is the home that chooses.
    either: ClassVar[Sequence[Sequence[Way]]] = (
        (Way(("home",), ("stream",)), Way(("checkpoint",), ("checkpoint_conn_id",))),
    )

    @checked
    def __init__(
        self,
        *,
        checkpoint: str | None = None,
        checkpoint_conn_id: str | None = None,
        origin: str = Origin.SCHEDULED,
        note: str = "",
        sink_logs: Mapping[str, str] | str | None = None,
        verify: Level | str | None = None,
        blackouts: Sequence[Blackout] = (),
        max_age: Positive | None = None,
        on_late: Notifiers = None,
        on_recovered: Notifiers = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint = checkpoint
        self.checkpoint_conn_id = checkpoint_conn_id
        self.origin = origin
        self.note = note
        self.sink_logs = mapping_or_template(sink_logs, "sink_logs")
        self.verify = verify.value if isinstance(verify, Level) else verify
        self.blackouts = tuple(blackouts)
        self.max_age = max_age
        self.on_late = on_late
        self.on_recovered = on_recovered
        self._check()

    def execute(self, context: Context) -> str:
        with self.at_work() as narrator:
            if self.checkpoint and not self.stream:
                self.stream = _name_for(self.checkpoint)
            self.check_may_operate(context)
            store = self.open_store(create=True)
            age = self._age(context)
            with age.told_after(store) if age is not None else contextlib.nullcontext():
                self._skip_in_a_blackout()
                backup = self._take(store, narrator, by=who(context))
        context["ti"].xcom_push(key=BACKUP_XCOM_KEY, value=_summary(backup))
        return backup.id

    def open_folders(self, uri: str) -> Folders:
        from airflow_streaming.hooks.checkpoint import CheckpointHook  # not at dag parse

        return CheckpointHook(uri, self.checkpoint_conn_id or self.home_conn_id).get_conn()

    def _check(self) -> None:
        if bool(self.checkpoint) is bool(self.home and self.stream):
            raise SpecError(
                f"Task {self.task_id!r}: give home and stream for a stream of ours, or checkpoint "
                "and store for another one."
            )
        if self.verify == Level.DRILL:
            raise SpecError(
                "verify is 'drill'; give 'quick', 'full' or None. A drill takes minutes: let a "
                "CheckpointVerifyOperator do it."
            )
        check_literals(self, {"checkpoint": uri_of("checkpoint")})
        if not is_filled_in(self.origin):
            _origin_of(self.origin)

    def _skip_in_a_blackout(self) -> None:
        ends = (blackout.ends_at(datetime.now(UTC)) for blackout in self.blackouts)
        end = max((moment for moment in ends if moment is not None), default=None)
        if end is not None:
            raise AirflowSkipException(
                f"Stream {self.stream!r} is not backed up during a blackout window; this one ends at "
                f"{end:%Y-%m-%d %H:%M %Z}."
            )

    def _take(self, store: BackupStore, narrator: ProgressLogger, *, by: str) -> Backup:
        backup = self._copy(store, narrator, by=by)
        for query in backup.queries:
            self.log.info("Query %s at batch %d: %d files", query.folder, query.batch, query.files)
        self.log.info(
            "Backup %s: %d files, %d of them new, %d bytes written",
            *(backup.id, backup.files, backup.added_files, backup.added_size),
        )
        if self.verify is not None:
            self._verify(store, backup, narrator, by=by)
        return backup

    def _copy(self, store: BackupStore, narrator: ProgressLogger, *, by: str) -> Backup:
        from airflow_streaming.checkpoints.backup.stream_backup import (
            BackupRequest,
            back_up,
            back_up_stream,
        )

        request = BackupRequest(
            origin=_origin_of(self.origin),
            by=by,
            note=self.note,
            sink_logs=mapping_of(self.sink_logs, "sink_logs"),
            open_folders=self.open_folders,
            progress=narrator,
        )
        if self.checkpoint:
            return back_up(self.checkpoint, self.stream_name(), store, request)
        return back_up_stream(self.open_stream(), store, request)

    def _verify(
        self, store: BackupStore, backup: Backup, narrator: ProgressLogger, *, by: str
    ) -> None:
        from airflow_streaming.checkpoints.vault.verify import verify  # not at dag parse

        now, level = datetime.now(UTC), Level(str(self.verify))
        found = verify(
            *(store, backup.id, level),
            by=by,
            now=now,
            stream=backup.stream,
            progress=narrator.read,
        )
        check_that_it_holds(backup, found)

    def _age(self, context: Context) -> BackupAge | None:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        if self.max_age is None:
            return None
        if self.home:
            records = StreamHomeHook(self.home, self.home_conn_id).get_conn()
        else:
            # The alerts of a stream without a home are recorded beside its backups.
            records = StreamHomeHook(self.store_uri(), self.store_conn()).init()
        return BackupAge(
            records.stream(self.stream_name()),
            self,
            context,
            max_age=self.max_age,
            verified=self.verify in _VERIFIED,
            on_late=self.on_late,
            on_recovered=self.on_recovered,
        )


def _origin_of(text: str) -> Origin:
    try:
        return Origin(text)
    except ValueError as err:
        raise SpecError(f"origin is {text!r}; give {', '.join(Origin)}.") from err


def _name_for(checkpoint: str) -> str:
    from airflow_streaming.checkpoints.vault.layout import name_for  # not at dag parse

    return name_for(checkpoint)


def _summary(backup: Backup) -> dict[str, Any]:
    return {
        "id": backup.id,
        "stream": backup.stream,
        "origin": backup.origin.value,
        "begun_at": backup.begun_at.isoformat(),
        "queries": {query.folder: query.batch for query in backup.queries},
        "files": backup.files,
        "size": backup.size,
        "added_files": backup.added_files,
        "added_size": backup.added_size,
    }


class CheckpointRetentionOperator(CheckpointTask):
    """
    Remove backups that a policy does not keep, and objects that no backup needs any more.

    The newest verified backup is never removed. A backup for a change of the stream is never
    removed before that change has ended. Unreferenced objects are listed by one run and deleted by
    a later run, an hour or more after it.

    :param stream: The stream's name; every stream of the store by default. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param policy: The retention: a ``RetentionPolicy``, or its fields as a mapping or a JSON text
        with ``keep_for`` in days. (templated)
    :param dry_run: Plan only; the log lists the backups to keep, with every reason. (templated)
    """

    template_fields: Sequence[str] = (*CheckpointTask.template_fields, "policy", "is_dry_run")

    @checked
    def __init__(
        self,
        *,
        policy: RetentionPolicy | Mapping[str, Any] | str,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.is_dry_run = dry_run
        if isinstance(policy, Mapping) and "{{" not in str(policy):
            RetentionPolicy.from_dict(policy)

    def execute(self, context: Context) -> dict[str, Any]:
        with self.at_work() as narrator:
            from airflow_streaming.checkpoints.vault.retention import (
                apply_retention,  # not at dag parse
            )

            store, policy = self.open_store(), policy_of(self.policy)
            is_dry_run = truth(self.is_dry_run, "dry_run")
            streams = [self.stream_name()] if self.stream else store.streams()
            if streams:
                self.check_may_operate(context, *streams)
            done = {
                stream: apply_retention(
                    *(store, stream, policy),
                    by=who(context),
                    dry_run=is_dry_run,
                    progress=narrator,
                    homes=self._open_home_of_change,
                )
                for stream in streams
            }
        for stream, retained in done.items():
            self._tell(stream, retained)
        return {stream: _retention_summary(retained) for stream, retained in done.items()}

    def _open_home_of_change(self, uri: str) -> Home:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return StreamHomeHook(uri, self.home_conn_id, looks_only=True).get_conn()

    def _tell(self, stream: str, retained: Retained) -> None:
        for line in retained.plan.lines(retained.held):
            self.log.info("%s: %s", stream, line)
        for problem in retained.problems:
            self.log.warning("%s: %s", stream, problem)
        self.log.info(
            "%s: %d backups removed, %d left because they are read now; %d objects deleted "
            "(%d bytes), %d wait for a later run.",
            *(stream, len(retained.removed), len(retained.held), retained.deleted),
            *(retained.deleted_size, retained.waiting),
        )


def policy_of(given: RetentionPolicy | Mapping[str, Any] | str) -> RetentionPolicy:
    """
    Return the policy from one of its three forms.

    :raises SpecError: it has another form.
    """
    if isinstance(given, RetentionPolicy):
        return given
    if isinstance(given, Mapping):
        return RetentionPolicy.from_dict(given)
    return RetentionPolicy.from_json(given)


def _retention_summary(retained: Retained) -> dict[str, Any]:
    return {
        "kept": [kept.backup.id for kept in retained.plan.keep],
        "removed": list(retained.removed),
        "held": list(retained.held),
        "deleted": retained.deleted,
        "deleted_size": retained.deleted_size,
        "waiting": retained.waiting,
        "problems": list(retained.problems),
    }
