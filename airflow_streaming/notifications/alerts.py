"""
Alerts of a task: recorded first, delivered to notifiers when the task's own work is done.

Nothing here raises and nothing waits for long: a stream is supervised whether or not an alert can
be delivered. The next task delivers the rest.

A notifier is third-party code that calls third-party servers: it may raise, take minutes, or hang.
Each gets its own thread, which sends its messages in order, and all of them share one time limit.
The threads are daemons, so a task can end while one of them hangs.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self

from airflow.sdk import BaseNotifier

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.arguments.calls import Notifier, Notifiers, run
from airflow_streaming.model.records.alert import Alert, AlertKind, AlertSource

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from airflow_streaming.home.control import AlertLog
    from airflow_streaming.model.observation import Observation
    from airflow_streaming.model.records.restart_decision import RestartDecision
    from airflow_streaming.supervision.decide import Step

log: Final = logging.getLogger(__name__)

DELIVERY_LIMIT: Final = timedelta(seconds=30)
"""How long one task waits for all notifiers together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """
    A message for a notifier.

    :param context: The context of the call; the notifier gets a copy.
    """

    alert: Alert
    notifier: Notifier
    context: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return the notifier's name in logs and records."""
        return _label(self.notifier)


def as_list(notifiers: Notifiers) -> list[Notifier]:
    """Return one, several or no notifiers as a list."""
    if notifiers is None:
        return []
    return [notifiers] if callable(notifiers) else list(notifiers)


def notifier_names(notifiers: Mapping[str, Notifiers]) -> tuple[str, ...]:
    """
    Return who receives alerts, a text for each argument of the operator that has a notifier.

    :param notifiers: By the argument of the operator.
    """
    named = {name: ", ".join(map(_label, as_list(given))) for name, given in notifiers.items()}
    return tuple(f"{name}: {names}" for name, names in named.items() if names)


def _label(notifier: Notifier) -> str:
    return getattr(notifier, "__name__", type(notifier).__name__)


def hand_over(notifications: Sequence[Notification], *, limit: timedelta) -> list[str]:
    """
    Call the notifiers, for as long as the limit lasts.

    :returns: The failure of each parcel; empty where it was delivered.
    """
    faults = ["no answer in time"] * len(notifications)
    rounds: dict[int, list[int]] = {}
    for index, notification in enumerate(notifications):
        rounds.setdefault(id(notification.notifier), []).append(index)
    deadline = time.monotonic() + limit.total_seconds()
    threads = [_start(notifications, indices, faults) for indices in rounds.values()]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(faults)  # a late thread keeps writing into its own list


def _start(
    notifications: Sequence[Notification], indices: Sequence[int], faults: list[str]
) -> Thread:
    def deliver() -> None:
        for index in indices:
            faults[index] = _call(notifications[index])

    # Airflow's log processors and its current task live in context variables.
    run = contextvars.copy_context().run
    thread = Thread(target=run, args=(deliver,), name="alerts", daemon=True)
    thread.start()
    return thread


def _call(notification: Notification) -> str:
    notifier = notification.notifier
    if isinstance(notifier, BaseNotifier):
        # A notifier renders its templates into itself, so that a second call would send the first
        # message again; and it adds its fields to its context.
        notifier = copy.copy(notifier)
    try:
        run(notifier, dict(notification.context))
    except BaseException as err:  # noqa: BLE001 - no notifier may end the task
        log.warning("%s did not take an alert: %s", notification.label, type(err).__name__)
        # HTTP errors quote the URL, and a webhook's URL is its password: the record gets the class.
        from airflow_streaming.model.spark.failures import presentable  # not at dag parse

        log.debug("%s", presentable(repr(err)))
        return type(err).__name__
    return ""


class Alerts:
    """
    The alerts of one task about its stream, and their notifiers.

    As a context manager it delivers on the way out, however the block is left.

    :param home: The records of the stream, or of many streams together.
    :param operator: The task, for its links.
    :param notifiers: Notifiers by kind of alert.
    :param context: The task's context; notifiers get it with the alert added.
    :param by: Who tells, for the records.
    :param limit: How long delivery may take.
    :param source: Which alerts are this task's. It leaves the others to the tasks whose notifiers they are
        for.
    """

    def __init__(
        self,
        home: AlertLog,
        operator: BaseOperator,
        *,
        notifiers: Mapping[AlertKind, Notifiers],
        context: Context,
        by: str,
        limit: timedelta = DELIVERY_LIMIT,
        source: AlertSource = AlertSource.STREAM,
    ) -> None:
        self._home, self._operator, self._by = home, operator, by
        self._notifiers = {kind: as_list(given) for kind, given in notifiers.items()}
        self._context, self._limit, self._source = context, limit, source
        self._has_delivered = False
        self.are_pending = False
        """Something was recorded and not delivered, and may be tried again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.deliver()

    def tell(self, *alerts: Alert) -> bool:
        """
        Record alerts that were not recorded yet; ``deliver`` sends them.

        :returns: Whether the home has taken them; a home that cannot be written is logged.
        """
        numbers = [self._record(alert) for alert in alerts]
        for alert, number in zip(alerts, numbers, strict=True):
            if number:
                log.info("Alert %d: %s", number, alert.reason)
        return None not in numbers

    def tell_decision(self, decision: RestartDecision) -> None:
        """Record the alert about a restart, or about giving up; why was logged with the decision."""
        from airflow_streaming.supervision.alerts.alerting import decided  # not at dag parse

        alert = decided(stream=self._home.name, decision=decision, now=datetime.now(UTC))
        if number := self._record(alert):
            log.info("Alert %d: %s.", number, alert.alert.value.replace("_", " "))

    def _record(self, alert: Alert) -> int | None:
        """Return its number, 0 where it was recorded before; ``None`` when the home cannot be written."""
        try:
            recorded = self._home.add_alert(replace(alert, by=self._by))
        except StreamingError as err:
            log.warning("An alert could not be recorded: %s (%s)", err, alert.reason)
            return None
        return 0 if recorded is None else recorded.number

    @contextlib.contextmanager
    def launch_failures(self, step: Step, seen: Observation | None) -> Iterator[None]:
        """Record an alert when the restart that is tried in the block fails."""
        try:
            yield
        except Exception as err:
            from airflow_streaming.model.records.epoch import LaunchCause  # not at dag parse

            if step.cause in (LaunchCause.RESTART, LaunchCause.TRIAL):
                self.tell(self._restart_failed(seen, err))
            raise

    def deliver(self) -> None:
        """Hand everything recorded and not yet delivered to the notifiers, once in a task."""
        if self._has_delivered:
            return
        self._has_delivered = True
        try:
            unsent = [alert for alert in self._home.unsent_alerts() if self._is_mine(alert)]
            alerts = [alert for alert in unsent if self._has_notifier(alert)]
            tries = {alert.number: self._begin(alert) for alert in alerts}
            mine = [alert for alert in alerts if tries[alert.number] is not None]
            if mine:
                self._hand_over(mine, tries)
        except Exception:
            # A failing alert must not stop the supervision of the stream.
            log.exception("Alerts of stream %s were not delivered.", self._home.name)

    def _restart_failed(self, seen: Observation | None, err: Exception) -> Alert:
        epoch = seen.epoch.number if seen is not None else 1
        from airflow_streaming.home.epochs import Epochs  # not at dag parse

        with contextlib.suppress(StreamingError):
            newest = self._home.newest_epoch() if isinstance(self._home, Epochs) else None
            epoch = newest.number if newest is not None else epoch
        from airflow_streaming.supervision.alerts.alerting import restart_failed  # not at dag parse

        return restart_failed(
            stream=self._home.name, epoch=epoch, error=str(err), now=datetime.now(UTC)
        )

    def _for(self, alert: Alert) -> Sequence[Notifier]:
        return self._notifiers.get(alert.alert, [])

    def _is_mine(self, alert: Alert) -> bool:
        return AlertSource.of_key(alert.key) is self._source

    def _has_notifier(self, alert: Alert) -> bool:
        if self._for(alert):
            return True
        self._home.mark_sent(alert.number, "no notifier", now=datetime.now(UTC))
        return False

    def _begin(self, alert: Alert) -> int | None:
        return self._home.begin_try(alert.number, by=self._by, now=datetime.now(UTC))

    def _hand_over(self, alerts: Sequence[Alert], tries: Mapping[int, int | None]) -> None:
        links = alert_links(self._operator, self._context)
        notifications = [
            Notification(alert=alert, notifier=notifier, context=context)
            for alert in alerts
            for context in (enriched(self._context, alert, links),)
            for notifier in self._for(alert)
        ]
        faults = hand_over(notifications, limit=self._limit)
        for alert in alerts:
            answers = zip(notifications, faults, strict=True)
            mine = [
                (notification.label, why)
                for notification, why in answers
                if notification.alert is alert
            ]
            taken = any(not why for _, why in mine)
            untold = ", ".join(f"{label}: {why}" for label, why in mine if why)
            self._mark(alert, taken=taken, untold=untold, attempt=tries[alert.number] or 0)

    def _mark(self, alert: Alert, *, taken: bool, untold: str, attempt: int) -> None:
        from airflow_streaming.home.control import MAX_TRIES  # not at dag parse

        if not taken and attempt < MAX_TRIES:
            self.are_pending = True
            log.warning("Alert %d is tried again by the next task: %s", alert.number, untold)
            return
        outcome = f"failed: {untold}" if not taken else f"sent, but {untold}" if untold else "sent"
        self._home.mark_sent(alert.number, outcome, now=datetime.now(UTC))


def enriched(context: Context, alert: Alert, links: Mapping[str, str]) -> dict[str, Any]:
    """
    Return the context that notifiers and their templates see.

    It is the task's, with ``alert`` (plain values), ``alert_subject``, ``alert_body``,
    ``alert_links`` and ``stream``. ``exception`` and ``reason`` say what happened, as notifiers
    written for failed tasks expect it.
    """
    from airflow_streaming.supervision.alerts.message import render  # not at dag parse

    message = render(alert, links=links)
    return {
        **context,
        "alert": alert.to_dict(),
        "alert_subject": message.subject,
        "alert_body": message.body,
        "alert_links": dict(links),
        "stream": alert.stream,
        "exception": alert.reason,
        "reason": alert.reason,
    }


def alert_links(operator: BaseOperator, context: Context) -> dict[str, str]:
    """Return the pages to open, by their content; nothing while ``[api] base_url`` is not set."""
    from airflow.sdk.configuration import conf  # not at dag parse
    from airflow.sdk.types import TaskInstanceKey

    base, ti = (conf.get("api", "base_url", fallback="") or "").rstrip("/"), context["ti"]
    if not base:
        return {}
    index = -1 if ti.map_index is None else ti.map_index
    key = TaskInstanceKey(ti.dag_id, ti.task_id, ti.run_id, ti.try_number, index)
    links = {"Task log": ti.log_url} if hasattr(ti, "log_url") else {}
    for link in operator.operator_extra_links:
        links[link.name] = base + link.get_link(operator, ti_key=key)
    return links
