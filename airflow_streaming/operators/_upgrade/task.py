"""What the tasks of one upgrade have in common: the edited spec, the engine, and how they wait."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    HomeNotExclusive,
    HomeUnavailable,
    SpecError,
    UpgradeRefused,
)
from airflow_streaming.links.stream import STREAM_XCOM_KEY, DriverLogLink, SparkUiLink
from airflow_streaming.operators._checkpoint.common import Terminated
from airflow_streaming.operators._narrating import Narrator
from airflow_streaming.operators._spec import SpecTask
from airflow_streaming.operators._upgrade.edits import edited
from airflow_streaming.triggers.upgrade import UpgradeTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.folders import Folders
    from airflow_streaming.checkpoint.sink_rewind import AuthorsRewind
    from airflow_streaming.checkpoint.store import BackupStore
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.observe.stream import Observer
    from airflow_streaming.upgrade.in_place import Progress, UpgradeInPlace
    from airflow_streaming.upgrade.words import Words

POLL_SECONDS: Final = 1.0
"""Between two looks of a task that waits in its worker."""

LOOK_AGAIN: Final = timedelta(minutes=5)
"""How often a task that waits for a person looks for itself; what happens in the home wakes it."""


class UpgradeTask(SpecTask):
    """
    A task of an upgrade.

    Every task may be killed on any line and called again: what is done stands in the stream's home,
    and whoever comes next goes on from there.

    :param stream: The stream as its keep-alive dag has it. (templated, field by field)
    :param runtime: Name of the Spark installation to go to; the spec's when empty. (templated)
    :param application: The script to go to; the spec's when empty. (templated)
    :param conf: Changes of the configuration, as a mapping or JSON; ``null`` takes a key out.
        (templated)
    :param size: Changes of what it runs with: ``executors``, ``executor_cores``,
        ``executor_memory``, ``shuffle_partitions``. (templated)
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given. (templated)
    :param rewind_sink: Takes batches back out of a sink that is no file sink; see ``Rewinding``.
    :param patience: How long a wait keeps the worker, before the task is deferred. A driver that
        stops is worth waiting for: nothing is committed meanwhile.
    :param poll_interval: Time between two looks of the trigger.
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
    ui_color = "#cfe8cf"

    def __init__(
        self,
        *,
        stream: StreamSpec,
        runtime: str | None = None,
        application: str | None = None,
        conf: Mapping[str, Any] | str | None = None,
        size: Mapping[str, Any] | None = None,
        backup_store: str | None = None,
        rewind_sink: AuthorsRewind | None = None,
        patience: timedelta = timedelta(seconds=90),
        poll_interval: timedelta = timedelta(seconds=5),
        **kwargs: Any,
    ) -> None:
        super().__init__(stream=stream, **kwargs)
        self.runtime = runtime
        self.application = application
        self.conf = conf
        self.size = dict(size or {})
        self.backup_store = backup_store
        self.rewind_sink = rewind_sink
        self.patience = patience
        self.poll_interval = poll_interval
        self._is_at_work = False

    def on_kill(self) -> None:
        # Airflow calls this in a signal handler and lets the task go on; only raising ends it.
        if self._is_at_work:
            raise Terminated(f"Task {self.task_id!r} was killed; its next try goes on.")

    def link_to_stream(self, context: Context) -> None:
        """Let the task's links lead to the driver that runs now."""
        where = {
            "home": self.stream.home,
            "home_conn_id": self.home_conn_id,
            "stream": self.stream.name,
        }
        context["ti"].xcom_push(key=STREAM_XCOM_KEY, value=where)

    def hook(self, context: Context) -> SparkStreamHook:
        """
        Return the hook of the stream as it is to become.

        :raises AirflowFailException: the edits, or the spec, cannot run.
        """
        try:
            spec = edited(
                self.stream,
                runtime=self.runtime,
                application=self.application,
                conf=self.conf,
                size=self.size,
            )
        except SpecError as err:
            raise AirflowFailException(str(err)) from err
        return self.open_hook(context, spec)

    def engine(self, hook: SparkStreamHook, observer: Observer) -> UpgradeInPlace:
        """Return who upgrades the stream."""
        from airflow_streaming.checkpoint.sink_rewind import SinkRewind  # not at dag parse
        from airflow_streaming.hooks._access import access_options
        from airflow_streaming.upgrade.in_place import UpgradeInPlace

        options = access_options(self.stream.home, self.home_conn_id)
        return UpgradeInPlace(
            *(hook.home, hook.keeper, observer, self.open_store()),
            by=hook.by,
            rewind=SinkRewind(self.rewind_sink, storage_options=options),
            open_folders=self.open_folders,
            storage_options=options,
            progress=Narrator(self.log),
        )

    def open_folders(self, uri: str) -> Folders:
        """Open a checkpoint with the home's connection, to look at it."""
        from airflow_streaming.hooks.checkpoint import CheckpointHook  # not at dag parse

        return CheckpointHook(uri, self.home_conn_id).get_conn()

    def words(self, hook: SparkStreamHook) -> Words:
        """Return who gives a word on the stream's upgrades."""
        from airflow_streaming.upgrade.words import Words  # not at dag parse

        return Words(hook.home, by=hook.by, open_folders=self.open_folders)

    def open_store(self) -> BackupStore:
        """Open the backups; an empty folder becomes a store."""
        from airflow_streaming.checkpoint.ours import default_store  # not at dag parse
        from airflow_streaming.hooks.backup_store import BackupStoreHook

        uri = self.backup_store or default_store(self.stream.home)
        return BackupStoreHook(uri, self.home_conn_id).get_conn(create=True)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Do the work in this block: it can be killed, and errors end the task as they should."""
        self._is_at_work = True
        try:
            yield
        except CheckpointBusy:
            raise  # trying again may help, as it may with a store that is away
        except (UpgradeRefused, SpecError, HomeNotExclusive, CheckpointError) as err:
            raise AirflowFailException(str(err)) from err
        finally:
            self._is_at_work = False

    def go_on(
        self, context: Context, until: Stage, memory: dict[str, Any] | None, change: int
    ) -> Progress:
        """
        Take an upgrade on to a stage or its end; wait in the worker first, then deferred.

        :param change: The upgrade; no other one is touched.
        :raises AirflowFailException: it cannot go on, and another try does not help.
        """
        with self.working():
            hook = self.hook(context)
            observer = hook.observer(memory)
            progress = self.wait_here(self.engine(hook, observer), until, change)
        if progress is None or not progress.is_there:
            self.wait_deferred(
                observer.memory(), needs_person=progress is not None and progress.needs_person
            )
        self.log.info("Stage %s: %s", progress.stage.value, progress.reason)
        return progress

    def wait_here(self, engine: UpgradeInPlace, until: Stage, change: int) -> Progress | None:
        """Return how far it is when it is there or has to wait long; ``None`` when unable to look."""
        until_when, said = time.monotonic() + self.patience.total_seconds(), ""
        while True:
            progress, waiting = self._advance(engine, until, change)
            if waiting and waiting != said:
                self.log.info("Waiting: %s", waiting)
            said = waiting
            is_over = progress is not None and (progress.is_there or progress.needs_person)
            if is_over or time.monotonic() >= until_when:
                return progress
            time.sleep(POLL_SECONDS)

    @staticmethod
    def _advance(engine: UpgradeInPlace, until: Stage, change: int) -> tuple[Progress | None, str]:
        try:
            progress = engine.advance(until, change)
        except HomeUnavailable as err:
            # Not being able to look says nothing of the upgrade.
            return None, str(err)
        return progress, "" if progress.is_there else progress.waiting

    def wait_deferred(
        self, memory: dict[str, Any] | None, *, needs_person: bool = False
    ) -> NoReturn:
        """Leave the worker until something happens to the stream, or some time has passed."""
        wake = LOOK_AGAIN if needs_person else timedelta(seconds=30)
        self.defer(
            trigger=UpgradeTrigger(
                home=self.stream.home,
                stream=self.stream.name,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poll_interval.total_seconds(),
                wake_seconds=wake.total_seconds(),
                memory=memory,
            ),
            method_name="on_event",
        )
