"""
The operators that stop a stream, hold it between two batches, and let it run again.

Each writes a record into the home first; the task that keeps the stream alive, or the driver, follows it. They act on
the lane of the stream that is live.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable, PauseRefused, SameCopyRefused
from airflow_streaming.model.arguments.calls import NamedParameters
from airflow_streaming.model.arguments.fields import Pause, Range, checked
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.operators.common.base import actor_of, blocked_message, run_key, who
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.supervision.actions import StreamActions
    from airflow_streaming.supervision.observer import Observer

MAX_ACTS = 4
"""Acts in one worker slice; stopping needs two."""

LONGEST_STOP = timedelta(days=115)
"""The most that a stop with an end may last."""
LONGEST_PAUSE = timedelta(days=1)
SHORTEST_PAUSE = timedelta(minutes=1)
"""Bounds of a pause's length; ``services.streams`` checks the same."""


class StreamSwitch(NamedParameters, BaseOperator):
    """
    Shared by stopping and starting.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("home", "stream", "reason", "home_conn_id")
    ui_color = "#f4c7b4"

    @checked
    def __init__(
        self,
        *,
        home: str,
        stream: str,
        reason: str = "Asked from a dag.",
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.stream = stream
        self.reason = reason
        self.home_conn_id = home_conn_id

    def open(self, context: Context) -> StreamHome:
        """
        Open the records of the lane of the stream that is live now.

        :raises AirflowFailException: the stream belongs to another team.
        """
        from airflow_streaming.home.live_lane import live_lane  # not at dag parse
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse
        from airflow_streaming.model.records.owner import DagAct

        with spec_errors_are_final():
            home = StreamHomeHook(self.home, self.home_conn_id).get_conn()
            lane = home.stream(live_lane(home, self.stream))
            lane.check_owner(actor_of(self, context), DagAct.OPERATE)
            return lane


class StopStreamOperator(StreamSwitch):
    """
    Stop a stream and prove that its driver is down.

    The desired state is recorded first, so that no task restarts the stream. The driver stops at a
    batch boundary; after the grace it is killed. The task succeeds when no process of the driver
    exists, and it is deferred while it waits.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param grace: How long the driver may take to reach a batch boundary; by default
        ``StreamSpec.stop_grace`` of the stream's dag.
    :param resume_after: Time after which the stream's keep-alive task starts it again, at most 115 days; by
        default a ``StartStreamOperator`` or a user starts it.
    :param poll_interval: Interval between two looks of the trigger.
    """

    @checked
    def __init__(
        self,
        *,
        grace: timedelta | None = None,
        resume_after: Annotated[timedelta, Range(most=LONGEST_STOP)] | None = None,
        poll_interval: Pause = timedelta(seconds=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.grace = grace
        self.resume_after = resume_after
        self.poll_interval = poll_interval

    def execute(self, context: Context) -> dict[str, Any]:
        lane = self.open(context)
        self._stop(context, lane)
        return self._steer(context, {"lane": lane.name})

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and act if the driver has not stopped on its own."""
        return self._steer(context, event)

    def _stop(self, context: Context, lane: StreamHome) -> None:
        from airflow_streaming.services.streams import stop  # not at dag parse

        until = datetime.now(UTC) + self.resume_after if self.resume_after is not None else None
        stop(lane, by=who(context), reason=self.reason, grace=self.grace, until=until)

    def _grace(self, lane: StreamHome) -> timedelta:
        from airflow_streaming.services.streams import stop_grace  # not at dag parse

        return stop_grace(lane) if self.grace is None else self.grace

    def _steer(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        from airflow_streaming.supervision.decide import Action, decide  # not at dag parse

        lane, memory = self.open(context), event.get("memory")
        if event.get("lane", lane.name) != lane.name:
            # A cutover has moved the stream since: the wish is for whichever lane is live.
            self._stop(context, lane)
            memory = None
        acts, observer = self._attend(context, lane, memory)
        for _ in range(MAX_ACTS):
            situation = observer.situation()
            step, seen = decide(situation), situation.seen
            self.log.info("%s: %s", step.action, step.reason)
            if not situation.desired_number:
                raise HomeUnavailable(
                    f"The home {self.home!r} does not show the wish that this task wrote for "
                    f"stream {lane.name!r}. Is the home mounted? Then clear this task."
                )
            if situation.desired is not DesiredState.STOPPED:
                raise AirflowFailException(
                    f"The desired state of stream {self.stream!r} is running again, so the "
                    "stop is abandoned. Its newest 'desired' record names the user. Stop it "
                    "again if needed."
                )
            if step.action in (Action.PARK, Action.RESUME):
                if situation.change is not None:
                    self.log.warning("%s This ends the driver in the other lane.", situation.change)
                return {"stream": self.stream, "epoch": seen.epoch.number if seen else None}
            if seen is None or step.action is Action.WATCH:
                break
            if step.action is Action.STOP:
                # Another driver was started since, or it lives on after its last word.
                acts.stop(seen, self.reason, self._grace(lane))
            elif step.action is not Action.KILL or not acts.kill(seen, step.reason):
                raise AirflowFailException(blocked_message(self.stream, step))
        return self._defer()

    def _attend(
        self, context: Context, records: StreamHome, memory: dict[str, Any] | None
    ) -> tuple[StreamActions, Observer]:
        from airflow_streaming.hooks.launchers import task_launcher
        from airflow_streaming.supervision.actions import StreamActions  # not at dag parse
        from airflow_streaming.supervision.observer import Observer

        launcher = task_launcher(records)
        observer = Observer(records, launcher, memory=memory)
        return StreamActions(records, launcher, by=who(context)), observer

    def _defer(self) -> NoReturn:
        from airflow_streaming.triggers.stream import StreamTrigger  # not at dag parse

        self.defer(
            trigger=StreamTrigger(
                home=self.home,
                stream=self.stream,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poll_interval.total_seconds(),
                until_parked=True,
            ),
            method_name="execute_complete",
        )


class StartStreamOperator(StreamSwitch):
    """
    Let a stopped stream run again, and close its circuit.

    The task that keeps the stream alive launches it; this one only records the desired state. Gate
    later tasks with ``StreamHealthSensor``.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param again: Also launch a copy that was abandoned because of a failure in the copy.
    """

    @checked
    def __init__(self, *, again: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.again = again

    def execute(self, context: Context) -> None:
        from airflow_streaming.services.streams import start  # not at dag parse

        try:
            start(self.open(context), by=who(context), reason=self.reason, again=self.again)
        except SameCopyRefused as err:
            raise AirflowFailException(str(err)) from err


class PauseStreamOperator(StreamSwitch):
    """
    Hold a stream between two batches, for tasks that change its tables, files or topics.

    The driver lives on with its state loaded. It lets the stream continue when ``ResumeStreamOperator`` of the same
    run closes the pause, or after ``longest``. The task is deferred until every query is held. Retries
    and cleared tasks of the same run find their open pause.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param longest: How long the stream is held at most, from a minute to a day.
    :param begin_within: How long the batches in work may take to end; afterwards the task fails, and the stream
        continues.
    :param poll_interval: Interval between two looks of the trigger.
    """

    @checked
    def __init__(
        self,
        *,
        longest: Annotated[timedelta, Range(least=SHORTEST_PAUSE, most=LONGEST_PAUSE)] = timedelta(
            hours=1
        ),
        begin_within: Annotated[timedelta, Range(most=LONGEST_PAUSE)] = timedelta(minutes=10),
        poll_interval: Pause = timedelta(seconds=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.longest = longest
        self.begin_within = begin_within
        self.poll_interval = poll_interval

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_streaming.services.streams import begin_pause  # not at dag parse

        lane = self.open(context)
        pause = begin_pause(
            lane,
            longest=self.longest,
            begin_within=self.begin_within,
            by=who(context),
            reason=self.reason,
            key=run_key(context),
        )
        return self._await(context, lane, pause.number)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again; the trigger has seen the stream stand still, or that it cannot."""
        lane = self.open(context)
        number = event.get("pause")
        if number is None or event.get("lane") != lane.name:
            # A damaged record, or a cutover since: the pause belongs to the lane that is live.
            return self.execute(context)
        return self._await(context, lane, int(number))

    def _await(self, context: Context, lane: StreamHome, number: int) -> dict[str, Any]:
        from airflow_streaming.hooks.launchers import task_launcher
        from airflow_streaming.services.streams import end_pause, look_at_pause
        from airflow_streaming.supervision.batch_pause import PauseState

        pause, probe = lane.batch_pause(number), task_launcher(lane).probe
        standing = look_at_pause(lane, pause, probe)
        self.log.info("%s: %s", standing.state, standing.reason)
        if standing.state is PauseState.WAITING:
            self._defer(lane.name, number)
        if standing.state is not PauseState.HELD:
            closing = {"by": who(context), "reason": standing.reason, "key": run_key(context)}
            end_pause(lane, pause, probe, **closing)
            raise PauseRefused(
                f"Stream {self.stream!r} is not held by pause {number}: {standing.reason} The stream "
                "continues. Clear this task to try again, with a longer begin_within if batches take longer; or "
                "stop the stream with StopStreamOperator."
            )
        return {"stream": self.stream, "lane": lane.name, "pause": number}

    def _defer(self, lane: str, number: int) -> NoReturn:
        from airflow_streaming.triggers.batch_pause import BatchPauseTrigger  # not at dag parse

        self.defer(
            trigger=BatchPauseTrigger(
                home=self.home,
                stream=self.stream,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poll_interval.total_seconds(),
                pause=number,
                paused_lane=lane,
            ),
            method_name="execute_complete",
        )


class ResumeStreamOperator(StreamSwitch):
    """
    Close the pause of the same run: the stream continues.

    The task fails when the stream had continued before, because the pause was too short or a user closed it: the
    tasks may have met a running stream. A run that opened no pause has nothing to close.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param reason: Why, for the records. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    def execute(self, context: Context) -> None:
        from airflow_streaming.hooks.launchers import task_launcher
        from airflow_streaming.services.streams import end_pause  # not at dag parse

        lane, key = self.open(context), run_key(context)
        pause = lane.pause_of(key)
        if pause is None:
            self.log.info("This run has opened no pause of stream %r.", self.stream)
            return
        end = lane.batch_pause_end(pause.number)
        if end is not None and end.key == key:
            self.log.info("Pause %d is closed already.", pause.number)
            return
        probe = task_launcher(lane).probe
        done = end_pause(lane, pause, probe, by=who(context), reason=self.reason, key=key)
        if not done.held:
            raise AirflowFailException(
                f"Stream {self.stream!r} was not held until the end of pause {pause.number}: "
                f"{done.reason} Verify the changes of the tasks in it, and give the pause a longer "
                "'longest'."
            )
