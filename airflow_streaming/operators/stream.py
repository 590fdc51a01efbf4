"""
Operators that keep a stream alive, start it and stop it.

They observe, decide, record and act, and between two acts they are deferred: the worker slot is
free while the stream runs, waits for its restart, or is parked.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.control import DesiredState, EventKind
from airflow_streaming.core.deployment import Deployment, StreamSpec
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.restart import RestartAction, RestartPolicy
from airflow_streaming.core.steering import Action, Situation, Step, decide
from airflow_streaming.exceptions import HomeNotExclusive, SpecError, StreamFailed
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.links.stream import STREAM_XCOM_KEY, DriverLogLink, SparkUiLink
from airflow_streaming.triggers.stream import StreamTrigger, seconds_of

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.launch.acts import StreamActs
    from airflow_streaming.launch.observer import Observer

MAX_ACTS: Final = 8
"""Acts in one worker slice; a healthy path needs two. More means that something fights back."""


class SparkStreamOperator(BaseOperator):
    """
    Keep a PySpark streaming application running.

    The first run launches the driver as a process of its own and defers. The driver outlives the
    task, the worker and Airflow itself; whatever happens to the task, the next attempt adopts the
    driver that runs. When the driver fails, the task wakes, asks the restart policy, and relaunches
    it on the same checkpoint.

    An edited spec is a proposal: the running deployment stays until a run of the dag is triggered
    with the parameter ``restart=True``.

    Marking the task failed or successful by hand stops the stream; clearing it does not.

    :param stream: The stream. (templated, field by field)
    :param conn_id: Spark connection of the apache-spark provider. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param poll_interval: Time between two looks of the trigger.
    :param rollover_after: Age of the dag run at which the task succeeds and leaves the stream to
        the next run, so that ``airflow db clean`` never meets a task that is months old.
    """

    template_fields: Sequence[str] = ("stream", "conn_id", "home_conn_id")
    operator_extra_links: Collection[BaseOperatorLink] = (SparkUiLink(), DriverLogLink())
    ui_color = "#e25a1c"

    def __init__(
        self,
        *,
        stream: StreamSpec,
        conn_id: str = "spark_default",
        home_conn_id: str | None = None,
        poll_interval: timedelta = timedelta(seconds=5),
        rollover_after: timedelta | None = timedelta(days=7),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.conn_id = conn_id
        self.home_conn_id = home_conn_id
        self.poll_interval = poll_interval
        self.rollover_after = rollover_after

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        if not isinstance(content, StreamSpec):
            return super().render_template(content, context, jinja_env, seen_oids)
        rendered = {
            name: super(SparkStreamOperator, self).render_template(
                getattr(content, name), context, jinja_env, seen_oids
            )
            for name in content.template_fields
        }
        return dataclasses.replace(content, **rendered)

    def execute(self, context: Context) -> dict[str, Any]:
        hook = self._hook(context)
        context["ti"].xcom_push(
            key=STREAM_XCOM_KEY,
            value={
                "home": self.stream.home,
                "home_conn_id": self.home_conn_id,
                "stream": self.stream.name,
            },
        )
        self._deploy(hook, context)
        return self._steer(hook, context, watched=None, memory=None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Act on what the trigger saw; it is looked at again before anything is done."""
        self.log.info("Woken to %s: %s", event.get("action"), event.get("reason"))
        hook = self._hook(context)
        return self._steer(hook, context, watched=event.get("watched"), memory=event.get("memory"))

    def on_kill(self) -> None:
        # A worker's SIGTERM comes here on every deploy. The driver is no child of this task.
        self.log.info("The stream is left running; the next attempt adopts it.")

    def _hook(self, context: Context) -> SparkStreamHook:
        from airflow_streaming.hooks.stream import SparkStreamHook  # not at parse

        with _spec_errors_are_final():
            return SparkStreamHook(
                self.stream,
                conn_id=self.conn_id,
                home_conn_id=self.home_conn_id,
                by=_who(context),
                folders=_folders(self),
            )

    def _deploy(self, hook: SparkStreamHook, context: Context) -> None:
        with _spec_errors_are_final():
            current = hook.home.newest_deployment()
            proposed, source = hook.proposal()
        if current is None or (_restart_is_asked(context) and _differs(proposed, current)):
            hook.keeper.deploy(proposed, source)
            hook.keeper.forgive("A new deployment was applied.")
        elif _differs(proposed, current):
            hook.keeper.tell(EventKind.PROPOSED, _proposal_message(proposed, current))

    def _steer(
        self,
        hook: SparkStreamHook,
        context: Context,
        *,
        watched: int | None,
        memory: dict[str, Any] | None,
    ) -> dict[str, Any]:
        observer = hook.observer(memory)
        for _ in range(MAX_ACTS):
            situation = observer.situation(
                watched=watched,
                run_started_at=context["dag_run"].start_date,
                rollover_after=self.rollover_after,
            )
            step = decide(situation)
            self.log.info("%s: %s", step.action, step.reason)
            if step.is_passive:
                self._defer(context, situation)
            if step.action is Action.BLOCKED:
                hook.keeper.tell(EventKind.BLOCKED, blocked_message(self.stream.name, step))
                self._defer(context, situation, blocked=True)
            if step.action is Action.FINISH:
                return self._summary(situation, step)
            if not self._act(hook, situation, step):
                self._defer(context, situation, blocked=True)
        return self._defer(context, situation)

    def _act(self, hook: SparkStreamHook, situation: Situation, step: Step) -> bool:
        """Do one step; tell whether it could be done."""
        keeper, seen = hook.keeper, situation.seen
        match step.action:
            case Action.LAUNCH:
                with _spec_errors_are_final():
                    keeper.begin(situation, step)
            case Action.SETTLE:
                decision = keeper.settle(situation)
                if decision.action is RestartAction.GIVE_UP:
                    self._fail(decision.reason)
            case Action.STOP if seen is not None:
                keeper.stop(seen, step.reason, self.stream.stop_grace)
            case Action.KILL if seen is not None:
                return keeper.kill(seen, step.reason)
        return True

    def _fail(self, reason: str) -> NoReturn:
        error = StreamFailed(
            f"Stream {self.stream.name!r} is down and stays down: {reason} The circuit is open. "
            "Mend the cause, then start it again with StartStreamOperator or "
            f"'airflow-streaming close-circuit {self.stream.name}'."
        )
        raise AirflowFailException(str(error)) from error

    def _defer(self, context: Context, situation: Situation, *, blocked: bool = False) -> NoReturn:
        seen, rollover = situation.seen, self.rollover_after
        half_open = self.stream.restart.half_open_after
        started = context["dag_run"].start_date
        self.defer(
            trigger=StreamTrigger(
                home=self.stream.home,
                stream=self.stream.name,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poll_interval.total_seconds(),
                watched=seen.epoch.number if seen else None,
                run_started_at=started.isoformat() if started else None,
                rollover_seconds=rollover.total_seconds() if rollover else None,
                rules=seconds_of(self.stream.health),
                half_open_seconds=half_open.total_seconds() if half_open else None,
                blocked=blocked,
            ),
            method_name="on_event",
        )

    def _summary(self, situation: Situation, step: Step) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "epoch": situation.seen.epoch.number if situation.seen else None,
            "reason": step.reason,
        }


class StopStreamOperator(BaseOperator):
    """
    Stop a stream and prove that its driver is down.

    The wish is recorded first, so that no task brings the stream back. The driver is asked to stop
    at a batch boundary; one that does not is killed after the grace. The task succeeds when no
    process of the driver exists, and it is deferred while it waits.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param grace: How long the driver may take to reach a batch boundary.
    :param poll_interval: Time between two looks of the trigger.
    """

    template_fields: Sequence[str] = ("home", "stream", "reason", "home_conn_id")
    ui_color = "#f4c7b4"

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        reason: str = "Stopped from a dag.",
        home_conn_id: str | None = None,
        grace: timedelta = timedelta(seconds=60),
        poll_interval: timedelta = timedelta(seconds=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.stream = stream
        self.reason = reason
        self.home_conn_id = home_conn_id
        self.grace = grace
        self.poll_interval = poll_interval

    def execute(self, context: Context) -> dict[str, Any]:
        home = _open(self.home, self.home_conn_id, self.stream)
        home.want(DesiredState.STOPPED, by=_who(context), reason=self.reason, now=datetime.now(UTC))
        return self._steer(context, memory=None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and act if the driver has not stopped by itself."""
        return self._steer(context, memory=event.get("memory"))

    def _steer(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        acts, observer = _attend(self.home, self.home_conn_id, self.stream, context, memory)
        for _ in range(MAX_ACTS):
            situation = observer.situation()
            step, seen = decide(situation), situation.seen
            self.log.info("%s: %s", step.action, step.reason)
            if step.action is Action.PARK:
                return {"stream": self.stream, "epoch": seen.epoch.number if seen else None}
            if seen is None or step.action is Action.WATCH:
                break
            if step.action is Action.STOP:
                acts.stop(seen, self.reason, self.grace)
            elif step.action is not Action.KILL or not acts.kill(seen, step.reason):
                raise AirflowFailException(blocked_message(self.stream, step))
        return self._defer()

    def _defer(self) -> NoReturn:
        self.defer(
            trigger=StreamTrigger(
                home=self.home,
                stream=self.stream,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poll_interval.total_seconds(),
                until_parked=True,
            ),
            method_name="on_event",
        )


class StartStreamOperator(BaseOperator):
    """
    Let a stopped stream run again, and close its circuit.

    The task that keeps the stream alive launches it; this one only records the wish. Gate what
    comes after it with ``StreamHealthSensor``.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("home", "stream", "reason", "home_conn_id")
    ui_color = "#f4c7b4"

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        reason: str = "Started from a dag.",
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.stream = stream
        self.reason = reason
        self.home_conn_id = home_conn_id

    def execute(self, context: Context) -> None:
        home = _open(self.home, self.home_conn_id, self.stream)
        by, now, epoch = _who(context), datetime.now(UTC), home.newest_epoch()
        home.want(DesiredState.RUNNING, by=by, reason=self.reason, now=now)
        if epoch is not None:
            home.close_circuit(epoch=epoch.number, by=by, reason=self.reason, now=now)


def blocked_message(stream: str, step: Step) -> str:
    """Return what a person has to do about a driver that cannot be proved dead."""
    return (
        f"Stream {stream!r} is not restarted: {step.reason} Two drivers on one checkpoint would "
        "write batches twice. When you know that the old driver is gone, say so with "
        f"'airflow-streaming declare-dead {stream} --epoch N --by NAME --reason TEXT'."
    )


def _open(home: str, home_conn_id: str | None, stream: str) -> StreamHome:
    with _spec_errors_are_final():
        return StreamHomeHook(home, home_conn_id).get_conn().stream(stream)


def _attend(
    home: str,
    home_conn_id: str | None,
    stream: str,
    context: Context,
    memory: dict[str, Any] | None,
) -> tuple[StreamActs, Observer]:
    from airflow_streaming.launch.acts import StreamActs  # not at dag parse
    from airflow_streaming.launch.local import LocalLauncher
    from airflow_streaming.launch.observer import Observer

    records, launcher = _open(home, home_conn_id, stream), LocalLauncher()
    observer = Observer(
        records, launcher, rules=HealthRules(), policy=RestartPolicy(), memory=memory
    )
    return StreamActs(records, launcher, by=_who(context)), observer


def _who(context: Context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}.{ti.task_id} run {ti.run_id} try {ti.try_number}"


def _folders(operator: BaseOperator) -> tuple[Path, ...]:
    return (Path(operator.dag.folder),) if operator.dag else ()


def _restart_is_asked(context: Context) -> bool:
    return bool(context["params"].get("restart", False))


def _differs(proposed: Deployment, current: Deployment) -> bool:
    return proposed.fingerprint != current.fingerprint


def _proposal_message(proposed: Deployment, current: Deployment) -> str:
    return (
        f"The dag proposes another deployment than the running {current.number}: "
        f"{', '.join(proposed.differences(current))} differ. The running one stays; trigger the "
        "dag with restart=True to apply the proposal."
    )


@contextlib.contextmanager
def _spec_errors_are_final() -> Iterator[None]:
    # The one place that turns "retrying is useless" into Airflow's word for it.
    try:
        yield
    except (SpecError, HomeNotExclusive) as err:
        raise AirflowFailException(str(err)) from err
