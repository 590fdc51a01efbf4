"""
The operator that keeps a stream alive.

It observes, decides, records and acts, and between two acts it is deferred: the worker slot is free
while the stream runs, waits for its restart, or is parked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseOperatorLink

from airflow_streaming import telemetry
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.hooks.home import spec_errors_are_final
from airflow_streaming.links.stream import DriverLogLink, SparkUiLink
from airflow_streaming.model.arguments.fields import Pause, Positive, checked, is_template
from airflow_streaming.model.names import check_is_stream
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.records.policy import RestartAction
from airflow_streaming.notifications.alerts import Alerts, Notifiers, notifier_names
from airflow_streaming.operators.common.base import (
    SpecTask,
    actor_of,
    blocked_message,
    gave_up,
    who,
)
from airflow_streaming.operators.common.stream import Deploying, TriggerFactory
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide
from airflow_streaming.supervision.standby import WITH_STANDBY

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.spark.plan import QueryPlan
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
        hook = self.open_hook(context)
        actor = actor_of(self, context)
        with spec_errors_are_final():
            if context["params"].get("init_home") is True:
                hook.init_home()
            hook.home.check_owner(actor, to_keep=True)
        if self._has_no_successor():
            self.log.warning(
                "Dag %r is @continuous and has no start_date. Airflow 3.3 gives each of its runs "
                "the same logical date and skips all after the first, so this run does not end by "
                "rollover. Give the dag a start_date.",
                self.dag_id,
            )
        self._deploy(hook, context)
        self._claim(hook, actor)
        self._supervise(hook)
        if not self.stream.standby:
            hook.keeper.retire_standby("The dag asks for no standby.")
        return self._steer(hook, context, {})

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Handle the trigger's event, after a new look at the stream."""
        self.log.info("The trigger asks to %s; looking at the stream.", event.get("action"))
        # The event is about this lane. The next step checks whether it is still live.
        lane = str(event.get("lane") or self.stream.name)
        hook = self.open_hook(context, has_seen_home=True).lane(lane)
        is_known = False
        try:
            is_known = self._is_known(hook, event)
            if is_known:
                self._claim(hook, actor_of(self, context))
        except (HomeUnavailable, RecordError) as err:
            # The running driver is watched all the same; the next run looks again.
            self.log.warning("The owner of stream %r is not known: %s", self.stream.name, err)
        if is_known:
            self._supervise(hook)
        return self._steer(hook, context, event)

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

    def _claim(self, hook: SparkStreamHook, actor: Actor) -> None:
        with spec_errors_are_final():
            hook.home.claim_ownership(actor, self.changed_by, by=hook.by, now=datetime.now(UTC))

    def _is_known(self, hook: SparkStreamHook, event: Mapping[str, Any]) -> bool:
        """Tell whether the home is the remembered one; an empty folder is not."""
        from airflow_streaming.supervision.observer import is_other_home  # not at dag parse

        home, mark = hook.home, str(event.get("mark") or "")
        if home.newest_deployment() is None:
            return False
        return not is_other_home(home, home.newest_epoch(), event.get("watched"), mark)

    def _deploy(self, hook: SparkStreamHook, context: Context) -> None:
        deploying = Deploying(
            hook=hook,
            log=self.log,
            apply_allowed=self.apply_allowed,
            backs_up=self.backup_before_restart,
            backup_store=self.backup_store,
        )
        deploying.deploy(
            restart_asked=bool(context["params"].get("restart", False)),
            run_started_at=context["dag_run"].start_date,
        )

    def _supervise(self, hook: SparkStreamHook) -> None:
        """Record what this DAG asks; task, trigger, command line, page and sensors judge by that."""
        given = {
            "on_unhealthy": self.on_unhealthy,
            "on_restart": self.on_restart,
            "on_gave_up": self.on_gave_up,
            "on_recovered": self.on_recovered,
        }
        hook.keeper.supervise(notifier_names(given))

    def _steer(
        self, hook: SparkStreamHook, context: Context, event: dict[str, Any]
    ) -> dict[str, Any]:
        observer = hook.observer(event.get("memory"), follows=True)
        with self._alerts(hook, context) as alerts:
            for _ in range(MAX_ACTS):
                situation = self._look(hook, observer, context, event)
                hook.keeper.adopt(situation.seen)
                step = decide(situation)
                if step.action not in _LOGGED_BY_THE_ACT:
                    self.log.info("%s: %s", step.action, step.reason)
                if step.action is Action.FOLLOW and _is_there(hook, situation):
                    break
                told = alerts.tell(*step.alerts)
                if step.action is Action.FINISH:
                    return self._summary(situation, step)
                if step.is_passive:
                    self._defer(hook, context, situation, alerts)
                if step.action is Action.BLOCKED:
                    hook.keeper.tell(EventKind.BLOCKED, blocked_message(self.stream.name, step))
                is_told = told or step.action is not Action.ALERT
                if not is_told or not self._act(hook, situation, step, alerts):
                    self._defer(hook, context, situation, alerts, unable_to=step.action)
            else:
                self._defer(hook, context, situation, alerts)
        return self._follow(hook, context, event)

    def _follow(
        self, hook: SparkStreamHook, context: Context, event: dict[str, Any]
    ) -> dict[str, Any]:
        # It runs already, so no deployment is needed: the next task proposes the dag's spec to it,
        # like an edited stream.
        live = hook.lane(hook.live_lane())
        self._supervise(live)
        return self._steer(live, context, {"successor_waits": event.get("successor_waits")})

    def _look(
        self,
        hook: SparkStreamHook,
        observer: Observer,
        context: Context,
        event: dict[str, Any],
    ) -> ReconcileInput:
        return observer.situation(
            watched=event.get("watched"),
            mark=str(event.get("mark") or ""),
            run_started_at=context["dag_run"].start_date,
            rollover_after=self._rollover(),
            successor_waits=bool(event.get("successor_waits")),
            tells=True,
            wants_standby=self.stream.standby and hook.launcher.kind in WITH_STANDBY,
            autoscale=self.stream.autoscale,
        )

    def _rollover(self) -> timedelta | None:
        # Ending a run that no other run follows would leave the stream unwatched.
        return None if self._has_no_successor() else self.rollover_after

    def _has_no_successor(self) -> bool:
        dag = self.dag
        return type(dag.timetable).__name__ == "ContinuousTimetable" and dag.start_date is None

    def _act(
        self, hook: SparkStreamHook, situation: ReconcileInput, step: Step, alerts: Alerts
    ) -> bool:
        """Do one step; tell whether it could be done."""
        keeper, seen = hook.keeper, situation.seen
        match step.action:
            case Action.LAUNCH:
                with alerts.launch_failures(step, seen), spec_errors_are_final():
                    keeper.begin(situation, step)
            case Action.SETTLE:
                decision = keeper.settle(situation)
                tags: dict[str, Any] = {"stream": self.stream.name, "lane": hook.home.name}
                alerts.tell_decision(decision)
                if decision.action is RestartAction.GIVE_UP:
                    telemetry.count("gave_up", **tags)
                    raise gave_up(self.stream.name, decision)
                telemetry.count("restarts", **tags)
            case Action.STOP if seen is not None:
                keeper.stop(seen, step.reason, self.stream.stop_grace, verdict=step.verdict)
            case Action.KILL if seen is not None:
                return keeper.kill(seen, step.reason)
            case Action.STANDBY:
                return keeper.launch_standby(situation, step)
            case Action.RESIZE:
                keeper.resize(situation, step)
            case Action.RELEASE if seen is not None:
                keeper.release(seen.epoch)
            case Action.BLOCKED | Action.FOLLOW:
                return False
        return True

    def _alerts(self, hook: SparkStreamHook, context: Context) -> Alerts:
        notifiers = {
            AlertKind.UNHEALTHY: self.on_unhealthy,
            AlertKind.RESTARTED: self.on_restart,
            AlertKind.GAVE_UP: self.on_gave_up,
            AlertKind.RECOVERED: self.on_recovered,
        }
        return Alerts(hook.home, self, notifiers=notifiers, context=context, by=who(context))

    def _defer(
        self,
        hook: SparkStreamHook,
        context: Context,
        situation: ReconcileInput,
        alerts: Alerts,
        *,
        unable_to: Action | None = None,
    ) -> NoReturn:
        alerts.deliver()
        waiting = TriggerFactory(
            spec=self.stream,
            home_conn_id=self.home_conn_id,
            poll_interval=self.poll_interval,
            rollover_after=self._rollover(),
        )
        trigger = waiting.trigger(
            situation,
            lane=hook.home.name,
            run_started_at=context["dag_run"].start_date,
            unable_to=unable_to,
            has_undelivered=alerts.are_pending,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def _summary(self, situation: ReconcileInput, step: Step) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "epoch": situation.seen.epoch.number if situation.seen else None,
            "reason": step.reason,
        }


def _is_there(hook: SparkStreamHook, situation: ReconcileInput) -> bool:
    # A home that is not mounted any more names the first lane, and has no deployment of it.
    lane = situation.follows
    return lane is not None and hook.streams.stream(lane).newest_deployment() is not None
