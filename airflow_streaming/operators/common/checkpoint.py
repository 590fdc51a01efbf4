"""Shared by operators on checkpoints and backups."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import (
    BackupNotFound,
    CheckpointBusy,
    CheckpointError,
    HomeNotExclusive,
    NothingYet,
    SpecError,
    StreamingError,
)
from airflow_streaming.model.arguments.calls import Notifiers
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.model.arguments.literals import OF_A_STREAM, check_literals, uri_of
from airflow_streaming.model.names import Color, check_stream_name, color_of
from airflow_streaming.model.uris import check_uri
from airflow_streaming.operators.common.base import (
    ProgressLogger,
    RunValuesTask,
    actor_of,
    who,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoints.backup.records import Backup
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.home.home import Home, StreamHome
    from airflow_streaming.notifications.alerts import Alerts
    from airflow_streaming.storage.folders import Folders

BACKUP_XCOM_KEY: Final = "backup"
"""XCom with a backup, or with its verification; the return value is the backup's id."""

log: Final = logging.getLogger(__name__)


class Terminated(BaseException):
    """The task was killed; raised at the current line, so that all resources are released."""


class CheckpointTask(RunValuesTask, BaseOperator):
    """
    A task on the backups of one stream.

    The long work is done in the worker, which logs its progress every ten seconds. A killed task
    stops at once and leaves no listed backup: a later run deletes its objects.

    :param stream: The stream's name, or the name of an external stream's backups. Of a managed
        stream, the live lane is used, and its backups are kept under the lane's own name.
        (templated)
    :param home: The home's URI, for a managed stream. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param store_conn_id: Connection with credentials for the store; the home's connection if
        ``store`` is not set. (templated)
    :param form_policy: The templated fields that a run may set, see ``FormPolicy``.
    """

    template_fields: Sequence[str] = ("stream", "home", "store", "home_conn_id", "store_conn_id")
    ui_color = "#d9e4f2"

    @checked
    def __init__(
        self,
        *,
        stream: str | None = None,
        home: str | None = None,
        store: str | None = None,
        home_conn_id: str | None = None,
        store_conn_id: str | None = None,
        form_policy: FormPolicy = FormPolicy(),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.form_policy = form_policy
        self.stream = stream
        self.home = home
        self.store = store
        self.home_conn_id = home_conn_id
        self.store_conn_id = store_conn_id
        self._is_at_work = False
        self._live: str | None = None
        if not home and not store:
            raise SpecError(
                f"Task {self.task_id!r} names no backup store. Give store, or the home of the "
                "stream; its store is the folder _backups in it."
            )
        check_literals(self, {**OF_A_STREAM, "store": uri_of("store")})

    def on_kill(self) -> None:
        if self._is_at_work:
            raise Terminated(
                f"Task {self.task_id!r} was killed; no unfinished backup or copy is listed."
            )

    @contextlib.contextmanager
    def at_work(self) -> Iterator[ProgressLogger]:
        """
        Do the work in this block, as ``ChangeStep.working``.

        :raises AirflowSkipException: The stream has no checkpoint yet, so a schedule has nothing to do.
        """
        self._is_at_work = True
        try:
            yield ProgressLogger(self.log)
        except CheckpointBusy:
            raise
        except NothingYet as err:
            raise AirflowSkipException(str(err)) from err
        except (SpecError, HomeNotExclusive, CheckpointError) as err:
            raise AirflowFailException(str(err)) from err
        finally:
            self._is_at_work = False

    def store_uri(self) -> str:
        """Return where the backups lie."""
        from airflow_streaming.checkpoints.backup.stream_backup import default_store

        return check_uri(self.store, "store") if self.store else default_store(str(self.home))

    def store_conn(self) -> str | None:
        """Return the connection for the backups."""
        return self.store_conn_id or (None if self.store else self.home_conn_id)

    def open_store(self, *, create: bool = False) -> BackupStore:
        """Open the backup store; create it in an empty folder when asked."""
        from airflow_streaming.hooks.checkpoint import BackupStoreHook  # not at dag parse

        home = self.open_home().store if self.home else None
        hook = BackupStoreHook(self.store_uri(), self.store_conn())
        return hook.get_conn(create=create, home=home)

    def stream_name(self) -> str:
        """Return the name under which the backups are kept: of a stream of ours, its live lane's."""
        if not self.stream:
            raise SpecError(f"Task {self.task_id!r} names no stream. Give stream.")
        name = check_stream_name(self.stream)
        if not self.home or color_of(name) is Color.GREEN:
            return name
        if self._live is None:
            # Read once: a task must not begin on one lane and end on the other.
            from airflow_streaming.home.live_lane import live_lane  # not at dag parse

            self._live = live_lane(self.open_home(), name)
        return self._live

    def open_home(self) -> Home:
        """Open the records of all streams of ours."""
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        if not self.home:
            raise SpecError(f"Task {self.task_id!r} names no home, and needs the stream's records.")
        return StreamHomeHook(self.home, self.home_conn_id).get_conn()

    def open_stream(self) -> StreamHome:
        """Open the records of the stream, which is one of ours."""
        return self.open_home().stream(self.stream_name())

    def check_begun(self) -> None:
        """
        Do nothing once a driver of the managed stream has committed a batch.

        :raises NothingYet: none has, or the stream was removed.
        """
        from airflow_streaming.checkpoints.backup.stream_backup import why_nothing_yet

        reason = why_nothing_yet(self.open_stream()) if self.home and self.stream else ""
        if reason:
            raise NothingYet(reason)

    def check_may_operate(self, context: Context, *streams: str) -> None:
        """
        Do nothing where the task's DAG may back up and prune streams of the home.

        :param streams: Names in the home; the task's own stream by default.
        :raises NotTheOwner: a stream belongs to another team.
        """
        from airflow_streaming.model.records.owner import DagAct  # not at dag parse

        if self.home:
            home, actor = self.open_home(), actor_of(self, context)
            for name in streams or (self.stream_name(),):
                home.stream(name).check_owner(actor, DagAct.OPERATE)

    def open_folders(self, uri: str) -> Folders:
        from airflow_streaming.hooks.checkpoint import CheckpointHook  # not at dag parse

        return CheckpointHook(uri, self.home_conn_id).get_conn()

    def find(self, backup_id: str | None, *, is_due: bool) -> tuple[BackupStore, Backup]:
        """
        Return the store with the backup asked for, or with the newest one of the stream.

        :param is_due: A user asks for a backup, which must exist; a schedule can come before the first.
        :raises NothingYet: the store has none, and the stream has no checkpoint yet.
        :raises BackupNotFound: the store has none.
        :raises CheckpointError: the place is not a store.
        """
        try:
            store = self.open_store()
            return store, self._backup(store, backup_id)
        except CheckpointError:
            if not is_due:
                self.check_begun()
            raise

    def _backup(self, store: BackupStore, backup_id: str | None) -> Backup:
        if backup_id:
            return store.backup(backup_id, self.stream_name())
        backups = store.backups(self.stream_name())
        if not backups:
            raise BackupNotFound(
                f"The store {store.uri} has no backup of stream {self.stream!r}. Take one first, or "
                "correct the names of the store and the stream."
            )
        return max(backups, key=lambda backup: (backup.begun_at, backup.id))


def truth(value: Any, name: str) -> bool:
    """
    Return the boolean of a switch from a template or a form.

    :raises SpecError: neither yes nor no; a typing error must not turn a dry run into a real one.
    """
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise SpecError(f"{name} is {value!r}; give True or False.")
    return text == "true"


class BackupAge:
    """
    Looks at the age of a stream's newest good backup, and tells.

    Nothing here raises: a backup must not fail because an alert about the last one could not be sent.

    :param records: Where the alerts are recorded: the stream's home, or the same records
        in the backup store for a stream that is not ours.
    :param max_age: The longest that may lie between now and the moment the newest backup holds.
    :param verified: Whether only a verified backup is a good one.
    """

    def __init__(
        self,
        records: StreamHome,
        operator: BaseOperator,
        context: Context,
        *,
        max_age: timedelta,
        verified: bool,
        on_late: Notifiers,
        on_recovered: Notifiers,
    ) -> None:
        self._records, self._operator, self._context = records, operator, context
        self._max_age, self._verified = max_age, verified
        from airflow_streaming.model.records.alert import AlertKind  # not at dag parse

        self._notifiers = {AlertKind.UNHEALTHY: on_late, AlertKind.RECOVERED: on_recovered}

    @contextlib.contextmanager
    def told_after(self, store: BackupStore) -> Iterator[None]:
        """
        Tell when the block is done, failed or skipped; not when the task is being killed.

        Before the first batch no backup is late.
        """
        try:
            yield
        except NothingYet:
            raise
        except Exception:
            self.tell(store)
            raise
        self.tell(store)

    def tell(self, store: BackupStore) -> None:
        """Judge the backups in the store, and send the alerts that are due."""
        try:
            self._tell(store)
        except StreamingError as err:
            log.warning("Cannot read the age of the newest backup: %s", err)

    def _tell(self, store: BackupStore) -> None:
        from airflow_streaming.checkpoints.vault.retention_policy import (
            judge_age,  # not at dag parse
        )
        from airflow_streaming.supervision.alerts.alerting import about_age  # not at dag parse

        stream, now = self._records.name, datetime.now(UTC)
        backups = store.backups(stream)
        said = [word for one in backups for word in store.verifications(one.id, stream)]
        verdict = judge_age(backups, said, max_age=self._max_age, now=now, verified=self._verified)
        (log.warning if verdict.is_late else log.info)("%s", verdict.reason)
        epoch = self._records.newest_epoch()
        with self._alerts() as alerts:
            alerts.tell(
                *about_age(
                    verdict,
                    stream=stream,
                    epoch=0 if epoch is None else epoch.number,
                    log=self._records.alerts(),
                    now=now,
                )
            )

    def _alerts(self) -> Alerts:
        from airflow_streaming.model.records.alert import AlertSource  # not at dag parse
        from airflow_streaming.notifications.alerts import Alerts  # not at dag parse

        return Alerts(
            self._records,
            self._operator,
            notifiers=self._notifiers,
            context=self._context,
            by=who(self._context),
            source=AlertSource.BACKUPS,
        )
