"""Shared by tasks that advance a change: an edited spec, work and waits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CutoverRefused,
    HomeNotExclusive,
    HomeUnavailable,
    SpecError,
    UpgradeRefused,
)
from airflow_streaming.links.stream import DriverLogLink, SparkUiLink
from airflow_streaming.model.arguments.fields import Pause, checked
from airflow_streaming.model.arguments.literals import mapping_of, mapping_or_template
from airflow_streaming.operators.common.base import SpecTask
from airflow_streaming.operators.common.checkpoint import Terminated
from airflow_streaming.operators.common.form_edits import (
    ENDED_XCOM_KEY,
    WRONG_XCOM_KEY,
    first_told,
)
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.storage.folders import Folders

POLL_SECONDS: Final = 1.0
"""Between two looks of a task that waits in its worker."""
LOOK_AGAIN: Final = timedelta(minutes=5)
"""How often a task that waits for a user looks for itself; what happens in the home wakes it."""


class Advanced(Protocol):
    """How far a change has come, as upgrades and cutovers tell it."""

    @property
    def is_there(self) -> bool:
        """Tell whether there is nothing more to do for who asked."""

    @property
    def waiting(self) -> str:
        """Return the reason for the wait, in a sentence."""

    @property
    def needs_person(self) -> bool:
        """Tell whether nothing continues before an approval."""


Progressed = TypeVar("Progressed", bound=Advanced)


class ChangeTask(SpecTask):
    """
    A task of a change.

    Every task may be killed on any line and called again: progress is recorded in the stream's
    home, and the next attempt continues from there.

    :param stream: The stream as its keep-alive dag has it. (templated, field by field)
    :param runtime: Name of the new Spark installation; the live one when empty. (templated)
    :param application: The new script; the live one when empty. (templated)
    :param conf: Changes of the live configuration, as a mapping or JSON; ``null`` removes a key.
        (templated)
    :param size: Changes of its size: ``executors``, ``executor_cores``, ``executor_memory``,
        ``shuffle_partitions``; as a mapping or JSON. (templated)
    :param backup_store: URI of the backups; ``<home>/_backups`` by default. (templated)
    :param patience: How long a wait keeps the worker, before the task is deferred. A worker wait is
        right while a driver stops, because no batch is committed meanwhile.
    :param poll_interval: Interval between two looks of the trigger.
    """

    template_fields: Sequence[str] = (
        *SpecTask.template_fields,
        "runtime",
        "application",
        "conf",
        "size",
        "backup_store",
    )
    operator_extra_links: Collection[BaseOperatorLink] = (SparkUiLink(), DriverLogLink())

    @checked
    def __init__(
        self,
        *,
        stream: StreamSpec,
        runtime: str | None = None,
        application: str | None = None,
        conf: Mapping[str, Any] | str | None = None,
        size: Mapping[str, Any] | str | None = None,
        backup_store: str | None = None,
        patience: timedelta = timedelta(seconds=90),
        poll_interval: Pause = timedelta(seconds=5),
        **kwargs: Any,
    ) -> None:
        super().__init__(stream=stream, **kwargs)
        self.runtime = runtime
        self.application = application
        self.conf = conf
        self.size = mapping_or_template(size, "size")
        self.backup_store = backup_store
        self.patience = patience
        self.poll_interval = poll_interval
        self._is_at_work = False

    def on_kill(self) -> None:
        # Airflow calls this in a signal handler and lets the task continue; only raising ends it.
        if self._is_at_work:
            raise Terminated(
                f"Task {self.task_id!r} was killed; its next attempt resumes where it stopped."
            )

    def sizes(self) -> dict[str, Any]:
        """
        Return the run's changes of the size.

        :raises SpecError: they are neither a mapping nor a JSON object.
        """
        return mapping_of(self.size, "size")

    def hook(self, context: Context) -> SparkStreamHook:
        """
        Return the hook of the stream as it is to become.

        :raises AirflowFailException: the edits, or the spec, cannot run.
        """
        return self.hook_of(self.stream, context)

    def hook_of(self, stream: StreamSpec, context: Context) -> SparkStreamHook:
        """Return the hook of one stream as it is to become; raises the same."""
        try:
            return self.open_edited_hook(
                context,
                stream,
                runtime=self.runtime,
                application=self.application,
                conf=self.conf,
                size=self.sizes(),
            )
        except SpecError as err:
            raise AirflowFailException(str(err)) from err

    def open_folders(self, uri: str) -> Folders:
        """Open a checkpoint with the home's connection, to look at it."""
        from airflow_streaming.hooks.checkpoint import CheckpointHook  # not at dag parse

        return CheckpointHook(uri, self.home_conn_id).get_conn()

    def open_store(self) -> BackupStore:
        """Open the backups; an empty folder becomes a store."""
        from airflow_streaming.checkpoints.backup.stream_backup import default_store
        from airflow_streaming.hooks.checkpoint import BackupStoreHook
        from airflow_streaming.hooks.home import StreamHomeHook

        uri = self.backup_store or default_store(self.stream.home)
        home = StreamHomeHook(self.stream.home, self.home_conn_id).get_conn().store
        return BackupStoreHook(uri, self.home_conn_id).get_conn(create=True, home=home)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Do the work in this block: it can be killed, and errors end the task as they should."""
        self._is_at_work = True
        try:
            yield
        except CheckpointBusy:
            raise  # trying again may help, as it may with a store that is away
        except (
            *(UpgradeRefused, CutoverRefused),
            *(SpecError, HomeNotExclusive, CheckpointError),
        ) as err:
            raise AirflowFailException(str(err)) from err
        finally:
            self._is_at_work = False

    @contextlib.contextmanager
    def telling(self, context: Context) -> Iterator[None]:
        """Leave a failure in this block to the task that settles the change."""
        try:
            yield
        except Exception as err:
            from airflow_streaming.model.spark.failures import presentable  # not at dag parse

            context["ti"].xcom_push(key=WRONG_XCOM_KEY, value=presentable(str(err)))
            raise

    @staticmethod
    def skip_what_was_not_begun(context: Context, *askers: str | None) -> None:
        """
        Continue in a run that has begun a change, or tried to.

        :param askers: The tasks that may have ended the run: the preflight, the approval.
        :raises AirflowSkipException: one of them has.
        """
        reason = first_told(context, askers, ENDED_XCOM_KEY)
        if reason:
            raise AirflowSkipException(reason)

    def waiting_here(self, advance: Callable[[], Progressed]) -> Progressed | None:
        """
        Advance again and again in the worker, for as long as its patience lasts.

        :returns: How far it is when it is there or must wait long; ``None`` when unable to look.
        """
        until, said = time.monotonic() + self.patience.total_seconds(), ""
        newest: Progressed | None = None
        while True:
            progress, waiting = _advanced(advance)
            # Who cannot look is where he was: perhaps between two drivers, with consumers waiting.
            newest = progress or newest
            if waiting and waiting != said:
                self.log.info("Waiting: %s", waiting)
            said = waiting
            is_over = progress is not None and (progress.is_there or progress.needs_person)
            if is_over or time.monotonic() >= until + self.more_patience(newest).total_seconds():
                return progress
            time.sleep(POLL_SECONDS)

    def more_patience(self, progress: Any) -> timedelta:
        """Return for how much longer the worker is kept because of where the change stands."""
        return timedelta(0)

    def woken_by(self, *, needs_person: bool = False) -> dict[str, Any]:
        """Return the arguments of every trigger that wakes this task."""
        wake = LOOK_AGAIN if needs_person else timedelta(seconds=30)
        return {
            "home": self.stream.home,
            "stream": self.stream.name,
            "home_conn_id": self.home_conn_id,
            "deferred_at": datetime.now(UTC).isoformat(),
            "poll_seconds": self.poll_interval.total_seconds(),
            "wake_seconds": wake.total_seconds(),
        }


def _advanced(advance: Callable[[], Progressed]) -> tuple[Progressed | None, str]:
    try:
        progress = advance()
    except HomeUnavailable as err:
        return None, str(err)
    return progress, "" if progress.is_there else progress.waiting
