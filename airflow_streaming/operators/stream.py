"""
The operator that keeps a stream alive.

It observes, decides, records and acts, and between two acts it is deferred: the worker slot is free
while the stream runs, waits for its restart, or is parked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from airflow_streaming.links.stream import DriverLogLink, SparkUiLink
from airflow_streaming.model.arguments.calls import Notifiers
from airflow_streaming.model.arguments.fields import Pause, Positive, checked, is_template
from airflow_streaming.model.names import check_is_stream
from airflow_streaming.operators.common.base import SpecTask
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_streaming.model.spark.plan import QueryPlan
    from airflow_streaming.operators.common.keep_alive import KeepAlive


class SparkStreamOperator(SpecTask):
    """
    Keep a PySpark streaming application running.

    The first run launches the driver in a separate process and defers. The driver outlives the
    task, the worker and Airflow itself; after any end of the task, the next attempt adopts the
    running driver. When the driver fails, the task wakes, asks the restart policy, and relaunches
    it on the same checkpoint. When a cutover makes another lane of the stream live, or puts the
    first one back, the same task continues with that one.

    An edited spec is a proposal: the running deployment stays until a run of the dag is triggered
    with the parameter ``restart=True``. A retry of that run does not replace a deployment that is
    newer than the run, e.g. an upgrade's deployment.

    A task never creates a home: an unmounted one looks like a new one. Create it once with
    ``airflow-streaming init``, or trigger the dag with the configuration ``{"init_home": true}``.

    Marking the task failed or successful by hand stops the stream; clearing it does not.

    The dag is best ``@continuous`` with one active run **and a start_date**: without one, Airflow
    3.3 skips every run after the first.

    :param stream: The stream. (templated, field by field)
    :param conn_id: Spark connection of the apache-spark provider. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param poll_interval: Interval between two looks of the trigger.
    :param rollover_after: Age of the dag run at which the task succeeds and leaves the stream to
        the next run, so that ``airflow db clean`` never meets a task that is months old.
    :param backup_before_restart: Back up the checkpoints before a changed deployment is applied by
        ``restart=True``; if that fails, the deployment stays as it is and so does the driver.
    :param apply_allowed: Apply an edited stream without a request when the gates call it allowed:
        code, configuration and Spark continue from the same checkpoint, and no user action is
        needed. Every weaker result stays a proposal, and so does a spec that the newest upgrade has
        replaced, or has tried and rolled back.
    :param backup_store: URI of the store for it; ``<home>/_backups`` by default. (templated)
    :param changed_by: Ids of dags in other files that may upgrade the stream, cut it over or
        restore it, and show it. Dags in the file of this one may always.
    :param on_unhealthy: Notified when a health rule fires, or the driver is hung, stalled, slow or
        out of reach: a notifier, a callable that takes the context, or a list of them.
    :param on_restart: Notified of every automatic restart, and of each failed one.
    :param on_gave_up: Notified when the circuit opens, so that a user must act.
    :param on_recovered: Notified when the incident of an earlier alert is over.
    """

    template_fields: Sequence[str] = (*SpecTask.template_fields, "backup_store")
    operator_extra_links: Collection[BaseOperatorLink] = (SparkUiLink(), DriverLogLink())
    ui_color = "#e25a1c"

    @checked
    def __init__(
        self,
        *,
        stream: StreamSpec,
        conn_id: str = "spark_default",
        home_conn_id: str | None = None,
        poll_interval: Pause = timedelta(seconds=5),
        rollover_after: Positive | None = timedelta(days=7),
        backup_before_restart: bool = False,
        apply_allowed: bool = False,
        backup_store: str | None = None,
        changed_by: Sequence[str] = (),
        on_unhealthy: Notifiers = None,
        on_restart: Notifiers = None,
        on_gave_up: Notifiers = None,
        on_recovered: Notifiers = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(stream=stream, conn_id=conn_id, home_conn_id=home_conn_id, **kwargs)
        if not is_template(stream.name):
            check_is_stream(stream.name)
        self.poll_interval = poll_interval
        self.rollover_after = rollover_after
        self.backup_before_restart = backup_before_restart
        self.apply_allowed = apply_allowed
        self.backup_store = backup_store
        self.changed_by = tuple(changed_by)
        self.on_unhealthy = on_unhealthy
        self.on_restart = on_restart
        self.on_gave_up = on_gave_up
        self.on_recovered = on_recovered

    def execute(self, context: Context) -> dict[str, Any]:
        return self._keep_alive(context).begin()

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Handle the trigger's event, after a new look at the stream."""
        return self._keep_alive(context).resume(event)

    def _keep_alive(self, context: Context) -> KeepAlive:
        from airflow_streaming.operators.common.keep_alive import KeepAlive  # not at dag parse

        return KeepAlive(
            task=self,
            context=context,
            poll_interval=self.poll_interval,
            rollover_after=self.rollover_after,
            backup_before_restart=self.backup_before_restart,
            apply_allowed=self.apply_allowed,
            backup_store=self.backup_store,
            changed_by=self.changed_by,
            notifiers={
                "on_unhealthy": self.on_unhealthy,
                "on_restart": self.on_restart,
                "on_gave_up": self.on_gave_up,
                "on_recovered": self.on_recovered,
            },
        )

    def on_kill(self) -> None:
        # A worker gets SIGTERM on every deploy. The driver is not a child of this task.
        self.log.info("The stream is left running; the next attempt adopts it.")

    def get_openlineage_facets_on_start(self) -> OperatorLineage | None:
        """Return the stream's inputs and outputs, from its drivers' recorded plans and its spec."""
        from airflow_streaming.hooks.lineage import operator_lineage  # not at dag parse

        return operator_lineage(self._recorded_plans, inlets=self.inlets, outlets=self.outlets)

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage | None:
        """Return the same; by then the first driver of a new deployment has recorded its plans."""
        del task_instance
        return self.get_openlineage_facets_on_start()

    def _recorded_plans(self) -> list[QueryPlan]:
        # Not at dag parse.
        from airflow_streaming.home.live_lane import live_lane
        from airflow_streaming.hooks.home import StreamHomeHook

        home = StreamHomeHook(self.stream.home, self.home_conn_id).get_conn()
        return home.stream(live_lane(home, self.stream.name)).newest_plans()
