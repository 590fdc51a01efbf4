"""The operator of a maintenance: several streams held at once, with one alert at the begin and one at the end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import NamedParameters, Notifiers
from airflow_streaming.model.arguments.fields import Positive, Range, checked
from airflow_streaming.model.records.alert import AlertKind, AlertSource
from airflow_streaming.operators.common.base import actor_of, task_key, who
from airflow_streaming.operators.switch import LONGEST_STOP
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import Home, StreamHome
    from airflow_streaming.model.records.control import Maintenance
    from airflow_streaming.notifications.alerts import Alerts

__all__ = ["MaintenanceOperator"]

WAKE: Final = timedelta(seconds=60)
"""Between two looks after the end."""
SHORTEST: Final = timedelta(seconds=15)
"""A trigger that fires sooner after its deferral fails its task."""
PATIENCE: Final = timedelta(minutes=10)
"""For the streams to be back after the last of them was to start."""


class MaintenanceOperator(NamedParameters, BaseOperator):
    """
    Stop the selected streams for some time, and report once at the begin and once at the end.

    Each stream is stopped at a batch boundary, and its keep-alive task starts it again: first the streams whose
    sources remove unread data soonest. Meanwhile none of them is restarted or reported. A stream that is stopped
    without an end stays so; a stream that another stop holds longer starts at the end of that stop. The task is
    deferred until the streams are back, and fails if some are not back 10 minutes after their end. A second try
    continues the same maintenance.

    :param home: The home's URI. (templated)
    :param select: Selector of the streams, without ``state`` and ``level``. (templated)
    :param lasts: Duration, at most 115 days.
    :param reason: Why, for the records and the alerts. (templated)
    :param at_once: Streams that start at one moment; the next ones follow after ``spacing``.
    :param spacing: Time between them.
    :param on_begun: Notified once, with all streams: a notifier, a callable that takes the context, or a list of them.
    :param on_ended: Notified once at the end.
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("home", "select", "reason", "home_conn_id")
    ui_color = "#f4c7b4"

    @checked
    def __init__(
        self,
        *,
        home: str,
        select: str,
        lasts: Annotated[timedelta, Range(most=LONGEST_STOP)],
        reason: str = "Asked from a dag.",
        at_once: int = 10,
        spacing: Positive = timedelta(minutes=1),
        on_begun: Notifiers = None,
        on_ended: Notifiers = None,
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if at_once < 1:
            raise SpecError(f"at_once is {at_once}; give a number from 1.")
        self.home, self.select, self.lasts, self.reason = home, select, lasts, reason
        self.at_once, self.spacing = at_once, spacing
        self.on_begun, self.on_ended = on_begun, on_ended
        self.home_conn_id = home_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        from airflow_streaming.services.maintenance import begun_alert, hold_streams

        with spec_errors_are_final():
            home = self._open()
            maintenance = self._begun(home, context)
        left = hold_streams(home, maintenance, by=who(context), check=self._check(context))
        for name, why in left.items():
            self.log.warning("%s is left as it is: %s", name, why)
        with self._alerts(home, context) as alerts:
            alerts.tell(begun_alert(maintenance, left))
        return self._wait(home, maintenance, context)

    def execute_complete(self, context: Context, event: Any = None) -> dict[str, str]:
        """Look again, and report the end when all streams are back."""
        from airflow_streaming.services.maintenance import MaintenanceLog

        home = self._open()
        maintenance = MaintenanceLog(home.store).by_key(task_key(context))
        if maintenance is None:
            raise AirflowFailException(
                f"{self.home} has no record of the maintenance of task {self.task_id!r}. Check that the home is "
                "mounted whole, and look at the streams: airflow-streaming list."
            )
        return self._wait(home, maintenance, context)

    def _wait(self, home: Home, maintenance: Maintenance, context: Context) -> dict[str, str]:
        from airflow_streaming.services.maintenance import course, ended_alert, missing_streams

        now = datetime.now(UTC)
        states = course(home, maintenance, now)
        missing = missing_streams(states)
        if missing and now < maintenance.last_end + PATIENCE:
            self._defer(maintenance.until - now)
        with self._alerts(home, context) as alerts:
            alerts.tell(ended_alert(maintenance, states, now))
        if missing:
            raise AirflowFailException(
                f"{len(missing)} streams are not back after maintenance {maintenance.number}: {', '.join(missing)}. "
                "Check that their DAGs are unpaused."
            )
        return {name: state.value for name, state in states.items()}

    def _defer(self, left: timedelta) -> NoReturn:
        pause = max(SHORTEST, left if left > timedelta(0) else WAKE)
        self.defer(trigger=TimeDeltaTrigger(pause), method_name="execute_complete")

    def _open(self) -> Home:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return StreamHomeHook(self.home, self.home_conn_id).get_conn()

    def _begun(self, home: Home, context: Context) -> Maintenance:
        from airflow_streaming.services.maintenance import (
            MaintenanceLog,
            begin_maintenance,
            held_streams,
        )

        key, now = task_key(context), datetime.now(UTC)
        if found := MaintenanceLog(home.store).by_key(key):
            return found
        lanes, until = self._selected(home), now + self.lasts
        if not lanes:
            raise AirflowSkipException(f"No stream of {self.home} matches {self.select!r:.200}.")
        return begin_maintenance(
            home,
            held_streams(lanes, until, at_once=self.at_once, spacing=self.spacing),
            until,
            selector=self.select,
            key=key,
            by=who(context),
            reason=self.reason,
            now=now,
        )

    def _selected(self, home: Home) -> list[StreamHome]:
        from airflow_streaming.model.arguments.selector import parse_selector
        from airflow_streaming.services.selection import live_lanes, no_look, selected

        selector = parse_selector(self.select)
        found = selected(home, live_lanes(home, selector), selector, no_look)
        return [home.stream(lane) for lane in found]

    def _check(self, context: Context) -> Any:
        from airflow_streaming.model.records.owner import DagAct

        return lambda lane: lane.check_owner(actor_of(self, context), DagAct.OPERATE)

    def _alerts(self, home: Home, context: Context) -> Alerts:
        from airflow_streaming.notifications.alerts import Alerts
        from airflow_streaming.services.maintenance import MaintenanceLog

        return Alerts(
            MaintenanceLog(home.store),
            self,
            notifiers={AlertKind.HELD: self.on_begun, AlertKind.RECOVERED: self.on_ended},
            context=context,
            by=who(context),
            source=AlertSource.FLEET,
        )
