"""What the tasks of one upgrade have in common: the engine, and how far they take it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.operators._change import ChangeTask
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._narrating import Narrator
from airflow_streaming.operators._upgrade.edits import ADVISED
from airflow_streaming.operators._upgrade.run import pulled
from airflow_streaming.triggers.upgrade import UpgradeTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.sink_rewind import AuthorsRewind
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.observe.stream import Observer
    from airflow_streaming.upgrade.in_place import Progress, UpgradeInPlace
    from airflow_streaming.upgrade.words import Words


class UpgradeTask(ChangeTask):
    """
    A task of an upgrade.

    :param rewind_sink: Takes batches back out of a sink that is no file sink; see ``Rewinding``.
    """

    ui_color = "#cfe8cf"
    preflight_task_id: str = ""
    """The task of the same run that has made the report; empty for that task itself."""

    def __init__(self, *, rewind_sink: AuthorsRewind | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rewind_sink = rewind_sink

    def hook(self, context: Context) -> SparkStreamHook:
        """
        Return the hook of the stream as it is to become; a size that is advised is the report's.

        :raises AirflowFailException: the edits, or the spec, cannot run.
        """
        if self.takes_advice:
            # Before there is a report it is left as it is, and nothing is begun with that.
            self.size = {**self.size, "executors": self._advised(context)}
        return super().hook(context)

    @property
    def takes_advice(self) -> bool:
        """Tell whether the number of executors is to be what the figures advise."""
        return str(self.size.get("executors")) == ADVISED

    def _advised(self, context: Context) -> str:
        if not self.preflight_task_id:
            return ""
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY) or {}
        sizes = report.get("sizes", ())
        return next((str(one["value"]) for one in sizes if one["size"] == "executors"), "")

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

    def words(self, hook: SparkStreamHook) -> Words:
        """Return who gives a word on the stream's upgrades."""
        from airflow_streaming.upgrade.words import Words  # not at dag parse

        return Words(hook.home, by=hook.by, open_folders=self.open_folders)

    def go_on(
        self, context: Context, until: Stage, memory: dict[str, Any] | None, change: int
    ) -> Progress:
        """
        Take an upgrade on to a stage or its end; wait in the worker first, then deferred.

        :param change: The upgrade; no other one is touched.
        :raises AirflowFailException: it cannot go on, and another try does not help.
        """
        with self.patient(memory), self.working():
            hook = self.hook(context)
            observer = hook.observer(memory)
            progress = self.wait_here(self.engine(hook, observer), until, change)
        if progress is None or not progress.is_there:
            self.wait_deferred(
                observer.memory(), needs_person=progress is not None and progress.needs_person
            )
        self.log.info("Stage %s: %s", progress.stage.value, progress.reason)
        return progress

    @contextlib.contextmanager
    def patient(self, memory: dict[str, Any] | None) -> Iterator[None]:
        """
        Wait deferred when a store is away in this block, which is done again from its begin then.

        A task that failed for that would have a good upgrade rolled back.
        """
        try:
            yield
        except HomeUnavailable as err:
            self.log.warning("%s The task looks again when it can.", err)
            self.wait_deferred(memory)

    def wait_here(self, engine: UpgradeInPlace, until: Stage, change: int) -> Progress | None:
        """Return how far it is when it is there or has to wait long; ``None`` when unable to look."""
        return self.waiting_here(lambda: engine.advance(until, change))

    def wait_deferred(
        self, memory: dict[str, Any] | None, *, needs_person: bool = False
    ) -> NoReturn:
        """Leave the worker until something happens to the stream, or some time has passed."""
        self.defer(
            trigger=UpgradeTrigger(memory=memory, **self.woken_by(needs_person=needs_person)),
            method_name="on_event",
        )
