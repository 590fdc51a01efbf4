"""The operator that measures a stream's freshness objective and alerts on its burn rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import NamedParameters, Notifiers
from airflow_streaming.model.arguments.fields import checked, refuse_blank
from airflow_streaming.model.arguments.literals import OF_A_STREAM, check_literals
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.records.alert import AlertKind, AlertSource
from airflow_streaming.operators.common.base import who
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import Home, StreamHome
    from airflow_streaming.services.freshness import StreamFreshness


class FreshnessOperator(NamedParameters, BaseOperator):
    """
    Measure in which share of the time a stream's data was on time.

    It reads the history of the batches, records the late times in the home once an hour, sends an alert while
    the error budget burns too fast, and exports gauges. It returns ``share``, ``budget_left``, ``late_seconds``,
    ``counted_seconds``, ``is_late`` and the burn rates. Before the first watermark the task is skipped.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param freshness: The objective; default: the record of the stream's keep-alive task.
    :param on_late: Notified when the budget burns too fast: a notifier, a callable, or a list of them.
    :param on_recovered: Notified when it does no more.
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("stream", "home", "home_conn_id")
    ui_color = "#d5ecd9"

    @checked
    def __init__(
        self,
        *,
        stream: str,
        home: str,
        freshness: Freshness | None = None,
        on_late: Notifiers = None,
        on_recovered: Notifiers = None,
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream, self.home, self.home_conn_id = stream, home, home_conn_id
        self.freshness, self.on_late, self.on_recovered = freshness, on_late, on_recovered
        check_literals(self, OF_A_STREAM)
        if freshness is not None:
            refuse_blank("Freshness", query=freshness.query)

    def execute(self, context: Context) -> dict[str, Any]:
        # Not at dag parse.
        from airflow_streaming.hooks.home import StreamHomeHook
        from airflow_streaming.services.freshness import read_freshness, record_freshness
        from airflow_streaming.settings import read_settings

        with spec_errors_are_final():
            home = StreamHomeHook(self.home, self.home_conn_id).get_conn()
            objective = self._objective(home)
            found = read_freshness(home, self.stream, objective, datetime.now(UTC))
        if found is None:
            raise AirflowSkipException(
                f"No query of stream {self.stream!r} has moved a watermark yet. The next run looks again."
            )
        self._alert(home.stream(self.stream), found, context)
        if record_freshness(home, self.stream, found):
            self.log.info("The late times of stream %s are recorded.", self.stream)
        labels = read_settings().metric_labels.of(home.stream(self.stream).labels())
        return self._exported(found, {**labels, "stream": self.stream})

    def _objective(self, home: Home) -> Freshness:
        recorded = self.freshness or home.stream(self.stream).supervision().freshness
        if recorded is None:
            raise SpecError(
                f"Stream {self.stream!r} has no freshness objective. Give freshness= in its StreamSpec, or to "
                f"task {self.task_id!r}."
            )
        return recorded

    def _alert(self, records: StreamHome, found: StreamFreshness, context: Context) -> None:
        # Not at dag parse.
        from airflow_streaming.notifications.alerts import Alerts
        from airflow_streaming.supervision.alerts.alerting import about_freshness

        epoch = records.newest_epoch()
        alerts = Alerts(
            *(records, self),
            notifiers={AlertKind.UNHEALTHY: self.on_late, AlertKind.RECOVERED: self.on_recovered},
            context=context,
            by=who(context),
            source=AlertSource.FRESHNESS,
        )
        due = about_freshness(
            *(found.freshness, found.figures),
            stream=records.name,
            epoch=0 if epoch is None else epoch.number,
            log=records.alerts(),
        )
        with alerts:
            alerts.tell(*due)

    def _exported(self, found: StreamFreshness, tags: Mapping[str, str]) -> dict[str, Any]:
        from airflow_streaming import telemetry

        figures = found.figures
        if figures.share is not None:
            telemetry.gauge("freshness_share", figures.share, **tags)
        telemetry.gauge("freshness_budget_left", figures.budget_left, **tags)
        burns = {
            burn.alert.name: {"long": burn.long, "short": burn.short} for burn in figures.burns
        }
        for name, rates in burns.items():
            telemetry.gauge("freshness_burn_rate", rates["long"], **tags, window=name)
        return {
            "share": figures.share,
            "budget_left": figures.budget_left,
            "late_seconds": figures.late.total_seconds(),
            "counted_seconds": figures.counted.total_seconds(),
            "is_late": figures.is_late,
            "burn_rates": burns,
        }
