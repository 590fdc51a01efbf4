"""
One look at a stream for a person: observation, verdict and what explains them.

Whoever keeps a stream alive times its silence by watching. A person at a terminal has no time for
that, so this look compares the heartbeat's time with the clock here, and when that looks bad it
watches for a few seconds before it says so. Nothing is ever decided on this look.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.core.alerts.alert import Alert
from airflow_streaming.core.alerts.alerting import open_incidents
from airflow_streaming.core.codec import encode
from airflow_streaming.core.control import Circuit, Desired, DesiredState, Event
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import Epoch, Launch
from airflow_streaming.core.health import HealthRules, judge
from airflow_streaming.core.lanes import Colour, colour_of, other_lane
from airflow_streaming.core.observation import Observation, Process
from airflow_streaming.core.restart import RestartAction, RestartDecision
from airflow_streaming.core.times import format_time
from airflow_streaming.core.verdict import Verdict
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live_lane
from airflow_streaming.observe.changes import change_in_progress
from airflow_streaming.observe.figures import Figures

Probe = Callable[[Epoch, Launch | None], Process]
"""How the processes of an epoch's driver are seen from here."""

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What there is to tell of a stream.

    :param decision: What was decided about the newest epoch, if it failed.
    :param restarts: Restarts decided since the circuit was last closed by a person.
    :param incidents: What people were told and is not over.
    :param is_live: Whether it is the lane that consumers of the stream are led to.
    :param has_lanes: Whether the stream has a second lane.
    :param change: How far an upgrade or a cutover has come that is open; empty when none is.
    """

    stream: str
    now: datetime
    desired: Desired | None
    circuit: Circuit | None
    deployment: Deployment | None
    seen: Observation | None
    verdict: Verdict | None
    decision: RestartDecision | None
    restarts: int
    events: tuple[Event, ...]
    incidents: tuple[Alert, ...] = ()
    is_live: bool = True
    has_lanes: bool = False
    change: str = ""

    @property
    def colour(self) -> Colour:
        """Return the colour of the lane."""
        return colour_of(self.stream)

    @property
    def wants_to_run(self) -> bool:
        """Tell whether the stream should run; one that nobody ever stopped should."""
        return self.desired is None or self.desired.state is DesiredState.RUNNING

    @property
    def circuit_is_open(self) -> bool:
        """Tell whether the circuit keeps the stream down."""
        return self.circuit is not None and self.circuit.holds(
            self.seen.epoch.number if self.seen else None
        )

    @property
    def is_all_right(self) -> bool:
        """
        Tell whether the stream works or waits for data, or is down because it is wanted so.

        A lane that is not live may be down at any time.
        """
        is_down = self.verdict is None or self.verdict.has_ended
        if self.wants_to_run and not (is_down and not self.is_live):
            return self.verdict is not None and self.verdict.is_well
        return is_down

    @property
    def next_attempt_at(self) -> datetime | None:
        """Return when a restart is due; ``None`` when none is decided."""
        return self.decision.next_attempt_at if self.decision is not None else None

    @property
    def consecutive_failures(self) -> int:
        """Return the failures in a row without healthy progress; 0 while the newest epoch lives."""
        return self.decision.consecutive_failures if self.decision is not None else 0

    @property
    def backing_off(self) -> bool:
        """Tell whether a restart is decided and waits."""
        return self.decision is not None and self.decision.is_waiting(self.now)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for ``--json``; records have the form they have in the home."""
        seen, verdict = self.seen, self.verdict
        found = (seen.epoch, seen.launch, seen.status, seen.exit, seen.death) if seen else ()
        return {
            "stream": self.stream,
            "colour": self.colour.value,
            "live": self.is_live,
            "change": self.change,
            "at": format_time(self.now),
            "all_right": self.is_all_right,
            "verdict": verdict.state.value if verdict else None,
            "reason": verdict.reason if verdict else "The stream has never run.",
            "findings": [encode(finding) for finding in verdict.findings] if verdict else [],
            "rules": [encode(finding) for finding in seen.findings] if seen else [],
            "incidents": [alert.to_dict() for alert in self.incidents],
            "consecutive_failures": self.consecutive_failures,
            "backing_off": self.backing_off,
            "process": seen.process.state.value if seen else None,
            "restarts": self.restarts,
            "next_attempt_at": format_time(self.next_attempt_at) if self.next_attempt_at else None,
            **{
                record.KIND: record.to_dict()
                for record in (self.desired, self.circuit, self.deployment, *found)
                if record is not None
            },
            "events": [event.to_dict() for event in self.events],
        }


def local_probe() -> Probe:
    """Return a probe of this host's processes; where it cannot be had, nothing is seen."""
    try:
        from airflow_streaming.launch.local import LocalLauncher
    except ImportError as err:
        reason = f"processes cannot be looked at from here ({err})"
        return lambda _epoch, _launch: Process.unseen(reason)
    return LocalLauncher().probe


def report(home: StreamHome, probe: Probe, *, patience: float, events: int = 5) -> Report:
    """
    Look at a stream.

    :param patience: Seconds to watch for a sign of life from a driver that seems silent.
    """
    streams, supervision = Home(home.store), home.supervision()
    rules = supervision.health if supervision else HealthRules()
    seen = observe(home, probe, patience=patience, rules=rules)
    decision = home.restart_decision(seen.epoch.number) if seen else None
    earlier = home.earlier_decisions(seen.epoch.number + 1) if seen else []
    return Report(
        stream=home.name,
        now=datetime.now(UTC),
        desired=home.desired(),
        circuit=home.circuit(),
        deployment=home.newest_deployment(),
        seen=seen,
        verdict=judge(seen, rules) if seen else None,
        decision=decision,
        restarts=sum(one.action is RestartAction.RESTART for one in earlier),
        events=tuple(home.events(events)),
        incidents=open_incidents(home.alerts()),
        is_live=live_lane(streams, home.name) == home.name,
        has_lanes=_has_lanes(streams, home.name),
        change=_change(home),
    )


def _has_lanes(streams: Home, lane: str) -> bool:
    is_green = colour_of(lane) is Colour.GREEN
    return is_green or streams.stream(other_lane(lane)).newest_deployment() is not None


def _change(home: StreamHome) -> str:
    change = change_in_progress(home)
    return "" if change is None else str(change)


def observe(
    home: StreamHome, probe: Probe, *, patience: float, rules: HealthRules = HealthRules()
) -> Observation | None:
    """Observe the newest epoch, ``None`` when the stream has never run."""
    epoch = home.newest_epoch()
    if epoch is None:
        return None
    first = _look(home, epoch, probe)
    if first.status is not None and rules.rules:
        figures = Figures(home, epoch.number, rules)
        first = replace(first, findings=figures.findings(first.status, time.monotonic()))
    if first.is_dead or first.silent_for < rules.hang_after:
        return replace(first, silent_for=timedelta(0))
    started = time.monotonic()
    second = first
    while time.monotonic() - started < patience:
        time.sleep(POLL_SECONDS)
        second = _look(home, epoch, probe)
        if second.is_dead or second.silent_for < first.silent_for:
            return replace(second, silent_for=timedelta(0))
    return replace(second, cpu_in_silence=_cpu(first, second, time.monotonic() - started))


def _look(home: StreamHome, epoch: Epoch, probe: Probe) -> Observation:
    launch = home.launch(epoch.number)
    # The process first: one that ends in between is seen "going down", never "gone, no exit".
    process = probe(epoch, launch)
    status = home.status(epoch.number)
    now = datetime.now(UTC)
    return Observation(
        epoch=epoch,
        process=process,
        now=now,
        launch=launch,
        status=status,
        exit=home.exit(epoch.number),
        death=home.death(epoch.number),
        silent_for=now - (status.at if status else epoch.created_at),
    )


def _cpu(first: Observation, second: Observation, watched: float) -> float | None:
    """Stretch the CPU time used while watching over the whole silence."""
    before, after = first.process.cpu_seconds, second.process.cpu_seconds
    if before is None or after is None or watched < POLL_SECONDS:
        return None
    return (after - before) / watched * second.silent_for.total_seconds()
