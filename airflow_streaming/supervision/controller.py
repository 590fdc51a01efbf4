"""
Actions on a stream that need its spec: propose, deploy, launch an epoch.

A step is recorded before it is done: the epoch, with the token by which its driver can be found,
exists before the driver does.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from airflow_streaming.exceptions import (
    AlreadyExists,
    LaunchError,
    RecordError,
    SpecError,
    StreamingError,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher, LaunchRequest
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.autoscale import configured_executors
from airflow_streaming.model.durations import number_text
from airflow_streaming.model.lease import OnLostHost
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Launch, LaunchCause, OrderAct, StandbyOrder
from airflow_streaming.model.records.size_change import SizeChange, sized_conf, wanted_executors
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.spark.conf import conf_text
from airflow_streaming.model.spark.secret_conf import secret_values
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.alerts.alerting import sink_repaired
from airflow_streaming.supervision.decide import ReconcileInput, Step
from airflow_streaming.supervision.proposal import propose
from airflow_streaming.supervision.standby import StandbyView

log: Final = logging.getLogger(__name__)
MOST_CHANGES: Final = 12
"""Changed values that one event names."""
_SEEN_ALIVE: Final = (ProcessState.RUNNING, ProcessState.SUSPENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """
    Input of a ``spark-submit`` command.

    :param conf: The whole configuration, including secrets; it goes to a private file only.
    """

    epoch: Epoch
    deployment: Deployment
    conf: dict[str, str]


Submit = Callable[[Submission], LaunchRequest]
"""Builds the command, environment and log of a driver; raises ``SpecError`` for a bad spec."""


class StreamController(StreamActions):
    """
    Acts on one stream on behalf of the task that keeps it alive.

    :param spec: The stream as the dag asks for it now, checked.
    :param submit: Builds the command for the launcher.
    :param storage_options: Returns what fsspec needs for checkpoints and outputs; default: nothing.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        spec: StreamSpec,
        submit: Submit,
        by: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
        storage_options: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        super().__init__(home, launcher, by=by, now=now, chance=chance)
        self._spec, self._submit = spec, submit
        self._storage_options = storage_options

    def _secrets(self) -> Collection[str]:
        env = {key: str(value) for key, value in self._spec.env.items()}
        conf = {key: conf_text(value) for key, value in self._spec.conf.items()}
        return secret_values(conf) | secret_values(env, all_of=tuple(env))

    def propose(
        self,
        runtime: Runtime,
        location: str,
        source: bytes,
        *,
        fresh: bool = False,
        carried_on: Mapping[str, str] | None = None,
        py_files_sha256: Sequence[str] = (),
    ) -> Deployment:
        """Return the deployment that the spec asks for; see ``proposal.propose``."""
        return propose(
            *(self._home, self._spec, runtime, location, source),
            by=self._by,
            at=self._now(),
            fresh=fresh,
            carried_on=carried_on,
            py_files_sha256=py_files_sha256,
        )

    def deploy(self, deployment: Deployment, source: bytes, *, undoes: str = "") -> bool:
        """
        Make a proposed deployment the current one; the running driver is replaced by steering.

        While an upgrade or a cutover is in progress nothing else is deployed.

        :param undoes: Difference to the live deployment, as a sentence for the timeline.
        :returns: Whether it was made.
        """
        # Read after the deployment was numbered: an upgrade opened since then takes the same
        # number, and only one of the two is created. A cutover notices a new deployment of the live
        # lane at its next look and is aborted.
        change = self._home.change_in_hand()
        if change is not None:
            self.tell(
                EventKind.PROPOSED,
                f"The DAG's proposal was not applied, because change {change.number} "
                f"({change.what}) is in progress. Request it again when the change has ended.",
            )
            return False
        try:
            self._home.create_deployment(deployment, source)
        except AlreadyExists:
            log.info("Another task created deployment %d first.", deployment.number)
            return False
        told = f"Deployment {deployment.number} is now the current one. {undoes}".rstrip()
        self.tell(EventKind.DEPLOYED, told)
        return True

    def check_can_launch(self, deployment: Deployment) -> None:
        """
        Do nothing when a deployment, recorded or not, could be launched now.

        :raises SpecError: it could not: a secret, a runtime or a file is not there any more.
        """
        newest = self._home.newest_epoch()
        epoch = self._epoch_after(newest, deployment.number, LaunchCause.START, "Only a try.")
        conf = self._whole_conf(deployment)
        self._submit(Submission(epoch=epoch, deployment=deployment, conf=conf)).discard()

    def supervise(self, notifiers: Sequence[str] = (), tags: Sequence[str] = ()) -> None:
        """
        Record the rules, the restart policy, the stop grace and the notifiers of the DAG.

        :param notifiers: See ``Supervision``, like ``tags``.
        """
        spec = self._spec
        supervision = Supervision(
            number=0,
            by=self._by,
            at=self._now(),
            health=spec.health,
            restart=spec.restart,
            stop_grace=spec.stop_grace,
            freshness=spec.freshness,
            labels=dict(spec.labels),
            tags=tuple(tags),
            notifiers=tuple(notifiers),
        )
        try:
            if self._home.newest_deployment() is None:
                return  # a home that is not mounted, in whose place nothing may be written
            is_first, changes = (
                self._home.supervision().number == 0,
                self._home.supervise(supervision),
            )
        except StreamingError as err:
            log.warning(
                "The rules of stream %s were not recorded, so the recorded ones stay in force: %s",
                *(spec.name, err),
            )
            return
        if changes and not is_first:
            text = "; ".join(changes[:MOST_CHANGES])
            more = f"; {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
            self.tell(EventKind.SUPERVISED, f"The DAG has changed {text}{more}.")

    def begin(
        self,
        situation: ReconcileInput,
        step: Step,
        *,
        change: int | None = None,
        standby: bool = False,
        queries: tuple[str, ...] = (),
        step_number: int | None = None,
    ) -> Epoch | None:
        """
        Take the next epoch and start its driver.

        :param change: The change that launches it, if any.
        :param standby: The driver waits at the barrier, and writes no data before it is released.
        :param queries: Names of the queries that wait there.
        :param step_number: The step of a cutover.
        :returns: The epoch, or ``None`` if another task took it first.
        :raises SpecError: The deployment cannot be launched; no epoch was recorded.
        :raises LaunchError: The process could not be started; the epoch is recorded as dead.
        """
        deployment, previous = situation.deployment, situation.seen
        if deployment is None:
            raise SpecError(f"Stream {self._spec.name!r} has no deployment to launch.")
        if step.promotes is not None:
            return self._promote(situation, step, deployment, change)
        conf = self._whole_conf(deployment)
        epoch = self._epoch_after(
            previous.epoch if previous else None,
            deployment.number,
            step.cause,
            step.reason,
            change,
            standby=standby,
            queries=queries,
            step=step_number,
        )
        epoch = replace(self._with_lease(epoch, previous), executors=self._executors(deployment))
        conf = sized_conf(self._spec.autoscale, conf, epoch.executors)
        request = self._submit(Submission(epoch=epoch, deployment=deployment, conf=conf))
        try:
            if not _take(self._home, epoch):
                request.discard()
                return None
            self.make_sure_of_death(before=epoch)
            self._repair_before_start(epoch, deployment)
            launch = self._start(epoch, request)
        except BaseException:
            # An interrupt as well. From here on the files are the driver's, who deletes them.
            request.discard()
            raise
        self._record(epoch, launch)
        return epoch

    def _promote(
        self, situation: ReconcileInput, step: Step, deployment: Deployment, change: int | None
    ) -> Epoch | None:
        """
        Take the next epoch for the driver of the hot standby, and release it.

        The driver sees the epoch at once, and stays at the barrier until it is released. So the
        drivers before it are proved gone first, as they are before one is started. Two tasks that
        promote one standby do the same: its token makes them one to the fence.
        """
        previous, standby = situation.seen, situation.standby
        if standby is None or standby.epoch.number != step.promotes:
            raise StreamingError(
                f"Standby {step.promotes} changed since the decision to promote it."
            )
        waiting = standby.epoch
        if waiting.change != change or waiting.deployment != deployment.number:
            raise StreamingError(
                f"Standby {waiting.number} of stream {self._home.name!r} is of deployment "
                f"{waiting.deployment}, change {waiting.change}; it is not promoted to run deployment "
                f"{deployment.number}, change {change}."
            )
        epoch = self._epoch_after(
            previous.epoch if previous else None,
            deployment.number,
            step.cause,
            step.reason,
            change,
            standby=True,
            queries=waiting.queries,
        )
        epoch = replace(
            self._with_lease(epoch, previous),
            token=waiting.token,
            host=waiting.host,
            launcher=waiting.launcher,
            owner=waiting.owner,
            promotes=waiting.number,
            token_since=waiting.created_at,
        )
        if not _take(self._home, epoch):
            return None
        # The task that started it may have died before it could say so.
        launch = standby.launch or self._launcher.find(waiting)
        if launch is not None:
            self._record(epoch, replace(launch, epoch=epoch.number))
        self.release(epoch)
        return epoch

    def release(self, epoch: Epoch) -> None:
        """
        Release a promoted standby, once every driver before it is proved gone.

        :raises StreamingError: one of them is still there; the standby waits on, for the next look.
        """
        self.make_sure_of_death(before=epoch)
        self._repair_sinks(epoch, self._home.deployment(epoch.deployment))
        self._home.give_order(
            StandbyOrder(
                epoch=epoch.number, number=1, act=OrderAct.RELEASE, at=self._now(), by=self._by
            )
        )
        self.tell(
            EventKind.STANDBY,
            f"Standby {epoch.promotes} was promoted to epoch {epoch.number}.",
            epoch=epoch.number,
        )

    def launch_standby(self, situation: ReconcileInput, step: Step) -> bool:
        """
        Start the next hot standby; return whether it was started.

        Its record fences the previous standby, so at most one waits.
        """
        deployment, live = situation.deployment, situation.seen
        if deployment is None or live is None:
            return False
        try:
            self.warm_up(situation, step.reason, deployment)
        except StreamingError as err:
            self.tell(EventKind.STANDBY, f"No standby driver was started: {err}")
            return False
        return True

    def warm_up(
        self,
        situation: ReconcileInput,
        reason: str,
        deployment: Deployment,
        queries: tuple[str, ...] = (),
        change: int | None = None,
    ) -> None:
        """
        Start a standby of a deployment.

        :param queries: Queries that must reach the barrier; default: the running ones.
        :param change: The change that proposes the deployment; only it promotes the standby.
        :raises StreamingError: It could not be started.
        """
        standbys, before = self._home.standbys(), situation.standby
        waiting = self._epoch_after(
            before.epoch if before is not None else None,
            deployment.number,
            LaunchCause.STANDBY,
            reason,
            change,
            standby=True,
            queries=queries or _queries_of(situation.seen),
        )
        waiting = replace(waiting, stream=standbys.name, serves=self._home.name)
        request = self._submit(
            Submission(epoch=waiting, deployment=deployment, conf=self._whole_conf(deployment))
        )
        try:
            if not _take(standbys, waiting):
                request.discard()
                return
            self._end_standby(standbys, before)
            launch = self._launcher.launch(request)
        except BaseException:
            request.discard()
            raise
        standbys.record_launch(launch)
        self.tell(
            EventKind.STANDBY,
            f"Standby {waiting.number} of deployment {deployment.number} launched: {reason}",
            driver=launch.driver,
            host=launch.host.name,
            log=launch.log,
        )

    def _end_standby(self, standbys: StreamHome, before: StandbyView | None) -> None:
        # It ends by its fence; a hanging one would keep its memory.
        newest = self._home.newest_epoch()
        if before is None or before.has_ended or newest is None:
            return
        if newest.token != before.epoch.token and before.process.state in _SEEN_ALIVE:
            self._launcher.kill(
                before.epoch, before.launch, partial(standbys.heartbeat, before.epoch.number)
            )

    def _with_lease(self, epoch: Epoch, previous: Observation | None) -> Epoch:
        has_lease = self._spec.on_lost_host == OnLostHost.TAKEOVER
        epoch = replace(
            epoch, lease_seconds=self._spec.lease.total_seconds() if has_lease else None
        )
        if previous is None or previous.death is not None or not previous.is_past_lease:
            return epoch
        return replace(epoch, overtakes=previous.status.beat if previous.status else 0)

    def _executors(self, deployment: Deployment) -> int | None:
        """Return how many executors the next driver gets; ``None`` where its deployment says so."""
        policy = self._spec.autoscale
        if policy is None:
            return None
        try:
            newest = self._home.newest_size()
        except RecordError as err:
            log.warning("Stream %r starts with the size of its conf: %s", self._spec.name, err)
            newest = None
        return wanted_executors(policy, deployment.conf, newest)

    def resize(self, situation: ReconcileInput, step: Step) -> None:
        """Record another number of executors, with its figures, unless another task was first."""
        deployment, seen, size = situation.deployment, situation.seen, step.size
        if deployment is None or seen is None or size is None or situation.size is None:
            return
        change = SizeChange(
            number=situation.size.next_number,
            epoch=seen.epoch.number,
            code=size.code,
            executors=size.executors,
            before=situation.size.present or size.executors,
            configured=configured_executors(deployment.conf) or size.executors,
            reason=size.reason,
            by=self._by,
            at=self._now(),
            figures=size.figures,
        )
        newest = self._home.newest_size()
        if newest is not None and newest.number >= change.number:
            return  # another task was faster
        if not self._home.add_size(change):
            return
        figures = {name: number_text(value, digits=6) for name, value in size.figures.items()}
        self.tell(
            EventKind.SIZED,
            change.sentence,
            epoch=change.epoch,
            code=change.code.value,
            **{"from": str(change.before), "to": str(change.executors)},
            **figures,
        )

    def _repair_before_start(self, epoch: Epoch, deployment: Deployment) -> None:
        """
        Repair the file sinks before a driver starts; see ``_repair_sinks``.

        :raises LaunchError: a repair could not be finished; the epoch is recorded as dead.
        """
        try:
            self._repair_sinks(epoch, deployment)
        except StreamingError as err:
            self.declare_dead(epoch, f"it was not started: {err}")
            raise LaunchError(f"A file sink could not be put back: {err}") from err

    def _repair_sinks(self, epoch: Epoch, deployment: Deployment) -> None:
        """
        Move out of each file sink the one batch that its checkpoint has not committed.

        The drivers before the epoch are proved gone, and its own has not started a query.

        :raises StreamingError: a repair was begun and could not be finished.
        """
        from airflow_streaming.checkpoints.repair.sink_repairs import (
            SinkRepairs,
        )  # not at dag parse

        options = self._storage_options()
        repairs = SinkRepairs(self._home, by=self._by, options=options, now=self._now)
        command = f"airflow-streaming checkpoint repair {self._home.name}"
        by_hand = "" if self._spec.repair_sinks else command
        for found in repairs.before_launch(epoch.number, deployment, by_hand=by_hand):
            facts = {} if found.repair is None else {"aside": found.repair.aside}
            self.tell(EventKind.SINK_REPAIRED, found.reason, epoch=epoch.number, **facts)
            alert = sink_repaired(
                stream=self._home.name,
                epoch=epoch.number - 1,
                query=found.query,
                reason=found.reason,
                is_done=found.repair is not None,
                now=self._now(),
            )
            self._home.add_alert(replace(alert, by=self._by))

    def _start(self, epoch: Epoch, request: LaunchRequest) -> Launch:
        try:
            return self._launcher.launch(request)
        except LaunchError as err:
            self.declare_dead(epoch, f"it could not be started: {err}")
            raise

    def _record(self, epoch: Epoch, launch: Launch) -> None:
        self._home.record_launch(launch)
        launched = f"Epoch {epoch.number} launched ({epoch.cause})"
        self.tell(
            EventKind.LAUNCHED,
            f"{launched}: {epoch.reason}",
            epoch=epoch.number,
            # Why it is restarted was logged when that was decided.
            logged=f"{launched}." if epoch.cause is LaunchCause.RESTART else None,
            driver=launch.driver,
            host=launch.host.name,
            log=launch.log,
        )

    def adopt(self, seen: Observation | None) -> None:
        """
        Record a driver that was started by a task which died before it could say so.

        Without the record its log and its process are not shown, though it is found by its token.
        """
        if seen is None or seen.launch is not None or seen.process.state not in _SEEN_ALIVE:
            return
        try:
            launch = self._launcher.find(seen.epoch)
            if launch is not None:
                self._record(seen.epoch, launch)
        except StreamingError as err:
            log.warning("The driver of epoch %d was not recorded: %s", seen.epoch.number, err)

    def _whole_conf(self, deployment: Deployment) -> dict[str, str]:
        conf = dict(deployment.conf)
        for key in (key for key, value in conf.items() if value == REDACTED):
            if key not in self._spec.conf:
                raise SpecError(
                    f"Deployment {deployment.number} of stream {self._spec.name!r} needs the "
                    f"secret {key!r}, which is missing in the DAG. Put it back into conf, or "
                    "trigger the DAG with restart=True to apply its proposal."
                )
            conf[key] = conf_text(self._spec.conf[key])
        return conf


def _take(home: StreamHome, epoch: Epoch) -> bool:
    try:
        home.create_epoch(epoch)
    except AlreadyExists:
        what = "standby" if epoch.serves else "epoch"
        log.info("Another task began %s %d first.", what, epoch.number)
        return False
    return True


def _queries_of(live: Observation | None) -> tuple[str, ...]:
    status = live.status if live is not None else None
    return tuple(query.name for query in status.queries) if status is not None else ()
