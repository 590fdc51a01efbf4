"""
A slice of the task that keeps a stream alive: observe, decide, record, act, and defer.

The operator loads this module when its task runs, not when its DAG file is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow_streaming import telemetry
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.owner import DagAct
from airflow_streaming.model.records.restart_decision import RestartAction
from airflow_streaming.notifications.alerts import Alerts, notifier_names
from airflow_streaming.operators.common.base import actor_of, blocked_message, gave_up, who
from airflow_streaming.operators.common.stream import Deploying, TriggerFactory
from airflow_streaming.settings import read_settings
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide
from airflow_streaming.supervision.observer import is_other_home
from airflow_streaming.supervision.standby import WITH_STANDBY
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.arguments.calls import Notifiers
    from airflow_streaming.model.records.owner import Actor
    from airflow_streaming.operators.common.base import SpecTask
    from airflow_streaming.supervision.observer import Observer

MAX_ACTS: Final = 8
"""Acts in one worker slice; a healthy path needs two. More means that something fights back."""
_LOGGED_BY_THE_ACT: Final = frozenset(
    {
        *(Action.ALERT, Action.BLOCKED, Action.KILL, Action.LAUNCH, Action.SETTLE, Action.STOP),
        Action.STANDBY,
    }
)
"""Steps whose reason is in the log line of their action."""


_ALERTS: Final = {
    "on_unhealthy": AlertKind.UNHEALTHY,
    "on_restart": AlertKind.RESTARTED,
    "on_gave_up": AlertKind.GAVE_UP,
    "on_recovered": AlertKind.RECOVERED,
}
_MOST_TAGS: Final = 32
"""Tags of a DAG that are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """
    The work of one slice, with the arguments of ``SparkStreamOperator``.

    :param notifiers: By the argument of the operator.
    """

    task: SpecTask
    context: Context
    poll_interval: timedelta
    rollover_after: timedelta | None
    backup_before_restart: bool
    apply_allowed: bool
    backup_store: str | None
    changed_by: Sequence[str]
    notifiers: Mapping[str, Notifiers]

    def begin(self) -> dict[str, Any]:
        """Deploy, claim and record what the DAG asks, then steer the stream."""
        task, context = self.task, self.context
        hook = task.open_hook(context)
        actor = actor_of(task, context)
        with spec_errors_are_final():
            if context["params"].get("init_home") is True:
                hook.init_home()
            hook.home.check_owner(actor, DagAct.KEEP)
        if self._has_no_successor():
            task.log.warning(
                "Dag %r is @continuous and has no start_date. Airflow 3.3 gives each of its runs "
                "the same logical date and skips all after the first, so this run does not end by "
                "rollover. Give the dag a start_date.",
                task.dag_id,
            )
        self._deploy(hook)
        self._claim(hook, actor)
        self._supervise(hook)
        if not task.stream.standby:
            hook.controller.retire_standby("The dag asks for no standby.")
        return self._steer(hook, {})

    def resume(self, event: dict[str, Any]) -> dict[str, Any]:
        self.task.log.info("The trigger asks to %s; looking at the stream.", event.get("action"))
        # The event is about this lane. The next step checks whether it is still live.
        lane = str(event.get("lane") or self.task.stream.name)
        hook = self.task.open_hook(self.context, has_seen_home=True).lane(lane)
        is_known = False
        try:
            is_known = self._is_known(hook, event)
            if is_known:
                self._claim(hook, actor_of(self.task, self.context))
        except (HomeUnavailable, RecordError) as err:
            # The running driver is watched all the same; the next run looks again.
            self.task.log.warning(
                "The owner of stream %r is not known: %s", self.task.stream.name, err
            )
        if is_known:
            self._supervise(hook)
        return self._steer(hook, event)

    def _claim(self, hook: SparkStreamHook, actor: Actor) -> None:
        with spec_errors_are_final():
            hook.home.claim_ownership(actor, self.changed_by, by=hook.by, now=datetime.now(UTC))

    def _is_known(self, hook: SparkStreamHook, event: Mapping[str, Any]) -> bool:
        """Tell whether the home is the remembered one; an empty folder is not."""
        home, mark = hook.home, str(event.get("mark") or "")
        if home.newest_deployment() is None:
            return False
        return not is_other_home(home, home.newest_epoch(), event.get("watched"), mark)

    def _deploy(self, hook: SparkStreamHook) -> None:
        deploying = Deploying(
            hook=hook,
            log=self.task.log,
            apply_allowed=self.apply_allowed,
            backs_up=self.backup_before_restart,
            backup_store=self.backup_store,
        )
        deploying.deploy(
            restart_asked=bool(self.context["params"].get("restart", False)),
            run_started_at=self.context["dag_run"].start_date,
        )

    def _supervise(self, hook: SparkStreamHook) -> None:
        """Record what this DAG asks; task, trigger, command line, page and sensors judge by that."""
        tags = sorted(self.task.dag.tags)[:_MOST_TAGS] if self.task.has_dag() else ()
        hook.controller.supervise(notifier_names(self.notifiers), tags)

    def _steer(self, hook: SparkStreamHook, event: dict[str, Any]) -> dict[str, Any]:
        observer = hook.observer(event.get("memory"), follows=True)
        with self._alerts(hook) as alerts:
            for _ in range(MAX_ACTS):
                situation = self._look(hook, observer, event)
                hook.controller.adopt(situation.seen)
                step = decide(situation)
                if step.action not in _LOGGED_BY_THE_ACT:
                    self.task.log.info("%s: %s", step.action, step.reason)
                if step.action is Action.FOLLOW and _is_there(hook, situation):
                    break
                told = alerts.tell(*step.alerts)
                if step.action is Action.FINISH:
                    return self._summary(situation, step)
                if step.is_passive:
                    self._defer(hook, situation, alerts)
                if step.action is Action.BLOCKED:
                    hook.controller.tell(
                        EventKind.BLOCKED, blocked_message(self.task.stream.name, step)
                    )
                is_told = told or step.action is not Action.ALERT
                if not is_told or not self._act(hook, situation, step, alerts):
                    self._defer(hook, situation, alerts, unable_to=step.action)
            else:
                self._defer(hook, situation, alerts)
        return self._follow(hook, event)

    def _follow(self, hook: SparkStreamHook, event: dict[str, Any]) -> dict[str, Any]:
        # It runs already, so no deployment is needed: the next task proposes the dag's spec to it,
        # like an edited stream.
        live = hook.lane(hook.live_lane())
        self._supervise(live)
        return self._steer(live, {"successor_waits": event.get("successor_waits")})

    def _look(
        self,
        hook: SparkStreamHook,
        observer: Observer,
        event: dict[str, Any],
    ) -> ReconcileInput:
        return observer.situation(
            watched=event.get("watched"),
            mark=str(event.get("mark") or ""),
            run_started_at=self.context["dag_run"].start_date,
            rollover_after=self._rollover(),
            successor_waits=bool(event.get("successor_waits")),
            tells=True,
            wants_standby=self.task.stream.standby and hook.launcher.kind in WITH_STANDBY,
            autoscale=self.task.stream.autoscale,
        )

    def _rollover(self) -> timedelta | None:
        # Ending a run that no other run follows would leave the stream unwatched.
        return None if self._has_no_successor() else self.rollover_after

    def _has_no_successor(self) -> bool:
        dag = self.task.dag
        return type(dag.timetable).__name__ == "ContinuousTimetable" and dag.start_date is None

    def _act(
        self, hook: SparkStreamHook, situation: ReconcileInput, step: Step, alerts: Alerts
    ) -> bool:
        """Do one step; tell whether it could be done."""
        controller, seen = hook.controller, situation.seen
        match step.action:
            case Action.LAUNCH:
                with alerts.launch_failures(step, seen), spec_errors_are_final():
                    controller.begin(situation, step)
            case Action.SETTLE:
                self._settle(hook, situation, alerts)
            case Action.STOP if seen is not None:
                controller.stop(
                    seen, step.reason, self.task.stream.stop_grace, verdict=step.verdict
                )
            case Action.KILL if seen is not None:
                return controller.kill(seen, step.reason)
            case Action.RESUME:
                controller.resume(situation, step.reason)
            case Action.STANDBY:
                return controller.launch_standby(situation, step)
            case Action.RESIZE:
                controller.resize(situation, step)
            case Action.RELEASE if seen is not None:
                controller.release(seen.epoch)
            case Action.BLOCKED | Action.FOLLOW:
                return False
        return True

    def _settle(self, hook: SparkStreamHook, situation: ReconcileInput, alerts: Alerts) -> None:
        decision = hook.controller.settle(situation)
        labels = read_settings().metric_labels.of(self.task.stream.labels)
        tags = {**labels, "stream": self.task.stream.name, "lane": hook.home.name}
        alerts.tell_decision(decision)
        if decision.action is RestartAction.GIVE_UP:
            telemetry.count("gave_up", **tags)
            raise gave_up(self.task.stream.name, decision)
        telemetry.count("restarts", **tags)

    def _alerts(self, hook: SparkStreamHook) -> Alerts:
        notifiers = {kind: self.notifiers[name] for name, kind in _ALERTS.items()}
        return Alerts(
            hook.home,
            self.task,
            notifiers=notifiers,
            context=self.context,
            by=who(self.context),
        )

    def _defer(
        self,
        hook: SparkStreamHook,
        situation: ReconcileInput,
        alerts: Alerts,
        *,
        unable_to: Action | None = None,
    ) -> NoReturn:
        alerts.deliver()
        waiting = TriggerFactory(
            spec=self.task.stream,
            home_conn_id=self.task.home_conn_id,
            poll_interval=self.poll_interval,
            rollover_after=self._rollover(),
        )
        trigger = waiting.trigger(
            situation,
            lane=hook.home.name,
            run_started_at=self.context["dag_run"].start_date,
            unable_to=unable_to,
            has_undelivered=alerts.are_pending,
        )
        self.task.defer(trigger=trigger, method_name="execute_complete")

    def _summary(self, situation: ReconcileInput, step: Step) -> dict[str, Any]:
        return {
            "stream": self.task.stream.name,
            "epoch": situation.seen.epoch.number if situation.seen else None,
            "reason": step.reason,
        }


def _is_there(hook: SparkStreamHook, situation: ReconcileInput) -> bool:
    # A home that is not mounted any more names the first lane, and has no deployment of it.
    lane = situation.follows
    return lane is not None and hook.streams.stream(lane).newest_deployment() is not None
