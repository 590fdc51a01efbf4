"""
Actions on a stream that need no spec: stop, kill, settle, and writing the timeline.

An action may run twice and in two tasks at once: each one-time step is an exclusive create in the
home, and the loser continues from the winner's record.
"""

from __future__ import annotations

import logging
import os
import random
import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from airflow_streaming.exceptions import AlreadyExists, RecordError, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.records.control import Desired, DesiredState, Event, EventKind
from airflow_streaming.model.records.epoch import (
    Epoch,
    Launch,
    LaunchCause,
    StopRequest,
    TerminationProof,
)
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.status import Status
from airflow_streaming.model.texts import one_line
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.driver_logs import keep_log
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.restart import decide_restart, failure_of

log: Final = logging.getLogger(__name__)


class StreamActions:
    """
    Acts on one stream for one task or user.

    :param by: Who acts, for the records.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        by: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._home, self._launcher = home, launcher
        self._by, self._now, self._chance = by, now, chance

    @property
    def launcher(self) -> Launcher:
        """How drivers are started and seen."""
        return self._launcher

    def stop(
        self,
        seen: Observation,
        reason: str,
        grace: timedelta,
        *,
        verdict: Severity | None = None,
        change: int | None = None,
    ) -> StopRequest:
        """
        Request a stop at a batch boundary; the driver polls for the request.

        :param verdict: Severity of the health verdict that stops the driver, if any.
        :param change: The stream's change that requests it, if any.
        """
        number = seen.epoch.number
        request = self._home.request_stop(
            StopRequest(
                epoch=number,
                by=self._by,
                reason=reason,
                grace_seconds=grace.total_seconds(),
                requested_at=self._now(),
                verdict=verdict,
                wish=None if verdict is None else self._desired_number(),
                change=change,
            )
        )
        self.tell(EventKind.STOP_REQUESTED, f"Epoch {number}: {reason}", epoch=number)
        return request

    def _desired_number(self) -> int:
        desired = self._home.desired()
        return desired.number if desired is not None else 0

    def retire_standby(self, reason: str, *, change: int | None = None) -> None:
        """
        Stop the newest standby if it waits or starts.

        :param change: The change it was warmed for; ``None``: the stream's own hot standby.
        """
        standbys, live = self._home.standbys(), self._home.newest_epoch()
        waiting = standbys.newest_epoch()
        if waiting is None or (live is not None and live.token == waiting.token):
            return
        if waiting.change != change:
            return
        written = standbys.aftermath(waiting.number)
        if written.exit or written.death or written.stop:
            return
        standbys.request_stop(
            StopRequest(
                epoch=waiting.number,
                by=self._by,
                reason=reason,
                grace_seconds=0.0,
                requested_at=self._now(),
            )
        )
        self.tell(EventKind.STANDBY, f"Standby {waiting.number} was requested to end: {reason}")

    def resume(self, situation: ReconcileInput, reason: str) -> None:
        """Record that a stream whose stop is over should run, unless another wish was recorded since."""
        wish = Desired(
            number=situation.desired_number + 1,
            state=DesiredState.RUNNING,
            by=self._by,
            reason=reason,
            at=self._now(),
        )
        if self._home.want_next(wish):
            self.tell(EventKind.DESIRED, f'Desired state is "{wish.state}": {reason}')

    def kill(self, seen: Observation, reason: str) -> bool:
        """Kill the driver; tell whether it is proved gone."""
        number = seen.epoch.number
        self.tell(EventKind.KILLED, f"Killing the driver of epoch {number}: {reason}", epoch=number)
        heartbeat = partial(self._home.heartbeat, number)
        self._keep_log(seen)
        process = self._launcher.kill(seen.epoch, seen.launch, heartbeat)
        if process.state is not ProcessState.GONE:
            log.error("The driver of epoch %d could not be killed: %s", number, process.detail)
            return False
        self._launcher.clean_up(seen.epoch, seen.launch)
        self.declare_dead(seen.epoch, f"killed: {reason} {process.detail}")
        return True

    def _keep_log(self, seen: Observation) -> None:
        keep_log(
            self._home,
            self._launcher,
            seen.epoch,
            seen.launch,
            now=self._now(),
            secrets=self._secrets(),
        )

    def _secrets(self) -> Collection[str]:
        """Return the values that must not be kept of a driver's output."""
        return ()

    def declare_dead(self, epoch: Epoch, evidence: str) -> None:
        """Record that an epoch's driver is proved gone."""
        self._launcher.clean_up(epoch)
        self._home.declare_dead(
            TerminationProof(
                epoch=epoch.number,
                evidence=evidence,
                by=self._by,
                override=False,
                declared_at=self._now(),
            )
        )

    def make_sure_of_death(self, before: Epoch) -> None:
        """
        Prove every driver before an epoch gone, or kill it.

        :raises StreamingError: one of them is still there; the next look tries again.
        """
        # The new epoch is the fence: an older driver, should a late launcher have started it after
        # we looked, ends itself when it sees the fence. It must be gone before ours starts. An
        # epoch that got as far as a driver had made sure of the ones before it.
        for number in range(before.number - 1, 0, -1):
            old, launch = self._home.epoch(number), self._home.launch(number)
            self._prove_dead(old, launch, before)
            has_driver = launch is not None or self._home.status(number) is not None
            # A promoted driver is there first, and is released once that was made sure.
            if has_driver and (old.promotes is None or self._home.is_released(number)):
                return

    def _prove_dead(self, old: Epoch, launch: Launch | None, before: Epoch) -> None:
        if self._home.death(old.number) is not None:
            return
        heartbeat = partial(self._home.heartbeat, old.number)
        process = self._launcher.probe(old, launch, heartbeat)
        if process.state is ProcessState.UNSEEN and self._home.exit(old.number) is not None:
            return
        if process.state is ProcessState.UNSEEN and self._is_overtaken(old):
            self.declare_dead(old, f"its lease is over: {process.detail}")
            return
        if process.state is not ProcessState.GONE:
            log.warning(
                "Driver of epoch %d started late, after the next epoch was begun; killing it.",
                old.number,
            )
            process = self._launcher.kill(old, launch, heartbeat)
        if process.state is not ProcessState.GONE:
            # The driver of a promoted standby is there: it waits on, and is released by a later look.
            if before.promotes is None:
                self.declare_dead(before, f"never started: epoch {old.number} is alive")
            raise StreamingError(
                f"Driver of epoch {old.number} of stream {self._home.name!r} is still there "
                f"({process.detail}). No other driver may write; the next look tries again."
            )

    def _is_overtaken(self, old: Epoch) -> bool:
        # Read after the next epoch was created: a lease renewed before that is seen here, and a
        # driver that renews it later sees that epoch before it starts a query.
        status = self._home.status(old.number)
        beat = status.beat if status is not None else 0
        return self._home.epoch(old.number + 1).overtakes == beat

    def fence(
        self,
        last: Epoch | None,
        reason: str,
        *,
        change: int,
        step: int | None = None,
        deployment: int | None = None,
    ) -> None:
        """
        Take the epoch after a gone one, so that no other driver is started.

        A task with an older view finds the number taken, and a driver that was started late finds
        itself fenced. This epoch gets no driver: it is stopped and declared dead at once. If
        another task has the number, this does nothing: read the stream again.

        :param last: The newest epoch, proved gone; ``None`` before the first.
        :param step: The step of a cutover.
        :param deployment: The deployment's number, if no earlier epoch has it.
        """
        number = last.deployment if last is not None else deployment or 0
        fence = self._epoch_after(last, number, LaunchCause.FENCE, reason, change, step=step)
        try:
            self._home.create_epoch(fence)
        except AlreadyExists:
            log.info("Another task took epoch %d first.", fence.number)
            return
        self.finish_fence(fence)

    def finish_fence(self, fence: Epoch) -> None:
        """Write the missing records of a fence whose task may have died; see ``fence``."""
        reason = fence.reason
        self._home.request_stop(
            StopRequest(
                epoch=fence.number,
                by=self._by,
                reason=reason,
                grace_seconds=0.0,
                requested_at=self._now(),
                change=fence.change,
            )
        )
        self._keep_circuit(fence)
        self.declare_dead(fence, "no driver was ever started for it")

    def _epoch_after(
        self,
        last: Epoch | None,
        deployment: int,
        cause: LaunchCause,
        reason: str,
        change: int | None = None,
        *,
        standby: bool = False,
        queries: tuple[str, ...] = (),
        step: int | None = None,
    ) -> Epoch:
        return Epoch(
            number=last.number + 1 if last else 1,
            stream=self._home.name,
            deployment=deployment,
            token=uuid.uuid4().hex,
            host=self._launcher.host(),
            launcher=self._launcher.kind,
            cause=cause,
            reason=reason,
            by=self._by,
            created_at=self._now(),
            change=change,
            standby=standby,
            queries=queries,
            step=step,
            owner=os.geteuid(),
        )

    def _keep_circuit(self, fence: Epoch) -> None:
        # A stream that gave up stays so: a fence is not an attempt to start it.
        circuit = self._home.circuit()
        if circuit is not None and circuit.holds(fence.number - 1):
            self._home.open_circuit(
                epoch=fence.number, by=self._by, reason=circuit.reason, now=self._now()
            )

    def settle(self, situation: ReconcileInput) -> RestartDecision:
        """Record the decision on a failed epoch, and open the circuit if the stream gives up."""
        seen = situation.seen
        if seen is None:
            raise StreamingError("The stream has no epoch to settle; no decision was recorded.")
        if seen.process.state is ProcessState.GONE:
            self._launcher.clean_up(seen.epoch, seen.launch)
        self._keep_log(seen)
        decision = self._home.restart_decision(seen.epoch.number)
        if decision is None:
            earlier = self._home.earlier_decisions(
                seen.epoch.number, since=situation.policy.looks_back_to(self._now())
            )
            decision = self._home.record_restart_decision(
                decide_restart(
                    failure_of(seen, judge(seen, situation.rules), situation.stop),
                    earlier=earlier,
                    between=self._progress_since(earlier, seen.epoch.number),
                    policy=situation.policy,
                    now=self._now(),
                    chance=self._chance(),
                )
            )
            if decision.action is RestartAction.RESTART:
                self._tell_decision(EventKind.RESTART_DECIDED, decision)
        if decision.action is RestartAction.GIVE_UP:
            self._home.open_circuit(
                epoch=decision.epoch, by=self._by, reason=decision.reason, now=self._now()
            )
            self._tell_decision(EventKind.CIRCUIT_OPENED, decision)
        return decision

    def _tell_decision(self, event: EventKind, decision: RestartDecision) -> None:
        failures = str(decision.consecutive_failures)
        self.tell(event, decision.reason, epoch=decision.epoch, failures_in_a_row=failures)

    def _progress_since(self, earlier: Sequence[RestartDecision], epoch: int) -> list[Status]:
        if not earlier:
            return []
        try:
            return self._home.statuses_between(earlier[-1].epoch, epoch)
        except RecordError as err:
            log.warning("Earlier drivers of %r count as failed: %s", self._home.name, err)
            return []

    def forgive(self, reason: str) -> None:
        """Close the circuit if it is open."""
        epoch = self._home.newest_epoch()
        if epoch is not None:
            self._home.close_circuit(
                epoch=epoch.number, by=self._by, reason=reason, now=self._now()
            )

    def tell(
        self,
        kind: EventKind,
        message: str,
        *,
        epoch: int | None = None,
        logged: str | None = None,
        **facts: str,
    ) -> None:
        """
        Add a line to the stream's timeline and to the task log.

        :param logged: Text for the task log if it has the rest of the message already.
        """
        log.info("%s", one_line(message if logged is None else logged))
        self._home.add_event(
            Event(
                event=kind, at=self._now(), by=self._by, message=message, epoch=epoch, facts=facts
            )
        )
