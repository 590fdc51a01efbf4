"""Every situation a stream can be in, and the step that follows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from airflow_streaming.model.arguments.policies import Blackout, RestartPolicy
from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.records.size_change import SizeCode
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.status import DriverState
from airflow_streaming.supervision.decide import STOP_MARGIN
from airflow_streaming.supervision.scaling.autoscale import SizeStep, SizeView
from airflow_streaming.supervision.scaling.carry_out import SizeState
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_circuit,
    a_death,
    a_deployment,
    a_give_up,
    a_query,
    a_restart,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
    minutes,
    observed,
    seconds,
)

GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN
STOPPED: Final = DesiredState.STOPPED
OVERDUE: Final = seconds(60) + STOP_MARGIN
SILENT: Final[dict[str, Any]] = {"silent_for": minutes(1)}
FINAL: Final = a_give_up(failure_kind=FailureKind.CONFIGURATION)
HALF_OPENING: Final = RestartPolicy(half_open_after=minutes(30))

ALIVE: Final = observed()
HUNG: Final = observed(**SILENT)
LOST: Final = observed(UNSEEN, **SILENT)
STARTING: Final = observed(status=None)
UNBORN: Final = observed(GONE, launch=None, status=None, epoch=an_epoch(created_at=NOW))
DEAD: Final = observed(GONE)
FAILED: Final = observed(GONE, exit=an_exit())
COMPLETED: Final = observed(GONE, exit=an_exit(Outcome.COMPLETED))
HAS_STOPPED: Final = observed(GONE, exit=an_exit(Outcome.STOPPED))
FENCED: Final = observed(GONE, exit=an_exit(Outcome.FENCED))
STALLED: Final = observed(
    status=a_status(
        queries=(a_query(processing=True, batch_for_s=1e5, quiet_for_s=1e5, planned_batch=42),)
    )
)
RESTARTING: Final = HealthRules(stalled=Severity.RESTART)
STOPPING: Final = HealthRules(stalled=Severity.STOP)
VERDICTS_STOP: Final = a_stop(verdict=Severity.RESTART)
OVERRULING: Final = a_stop(verdict=Severity.STOP, wish=2)
BLACKED_OUT: Final = RestartPolicy(blackouts=(Blackout(start="00:00", end="00:00"),))
NEXT: Final = a_deployment(number=4)
OPEN: Final = a_circuit()
CLOSED: Final = a_circuit(CircuitState.CLOSED)
OPEN_BEFORE: Final = a_circuit(epoch=EPOCH - 1)

TABLE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    # No epoch yet.
    "a stream that has never run is launched": ({"seen": None, "deployment": None}, "launch"),
    "unless it is wanted stopped": ({"seen": None, "desired": STOPPED}, "park"),
    "or its circuit was opened by hand": ({"seen": None, "circuit": OPEN}, "park"),
    # A home that has lost what the task has seen in it.
    "a home that has become empty is waited for": ({"seen": None, "watched": EPOCH}, "watch"),
    "a home restored to the past is waited for": ({"seen": DEAD, "watched": EPOCH + 1}, "watch"),
    "another home in its place is waited out": (
        {"seen": DEAD, "watched": EPOCH, "is_other_home": True},
        "watch",
    ),
    "also with a stop in it": ({"seen": DEAD, "watched": EPOCH + 1, "desired": STOPPED}, "watch"),
    # A driver that runs.
    "a healthy driver is watched": ({}, "watch"),
    "a starting driver is watched": ({"seen": STARTING}, "watch"),
    "an epoch that another task has just begun is watched": ({"seen": UNBORN}, "watch"),
    "a busy silent driver is watched": (
        {"seen": observed(**SILENT, cpu_in_silence=30.0)},
        "watch",
    ),
    "a driver on an unseen host that beats is watched": ({"seen": observed(UNSEEN)}, "watch"),
    "a driver that stops by itself is watched": (
        {"seen": observed(status=a_status(state=DriverState.STOPPING))},
        "watch",
    ),
    "a driver that goes down is watched": ({"seen": observed(exit=an_exit())}, "watch"),
    "a running trial is watched although the circuit is open": ({"circuit": OPEN_BEFORE}, "watch"),
    "a hung driver is killed": ({"seen": HUNG}, "kill"),
    "also when it is wanted stopped": ({"seen": HUNG, "desired": STOPPED}, "kill"),
    "also when it was asked to stop": ({"seen": HUNG, "stop": a_stop()}, "kill"),
    "also when its deployment is replaced": ({"seen": HUNG, "deployment": NEXT}, "kill"),
    "a silent driver on an unseen host blocks": ({"seen": LOST}, "blocked"),
    "it blocks when it is wanted stopped": ({"seen": LOST, "desired": STOPPED}, "blocked"),
    "it blocks when it was asked to stop": ({"seen": LOST, "stop": a_stop()}, "blocked"),
    "not so after its last word": ({"seen": replace(LOST, exit=an_exit())}, "settle"),
    # A driver that lives, and a verdict that asks for more than a word.
    "a stalled query is left alone unless a rule asks": ({"seen": STALLED}, "watch"),
    "a verdict that asks for a restart stops the driver": (
        {"seen": STALLED, "rules": RESTARTING},
        "stop",
    ),
    "it asks once": ({"seen": STALLED, "rules": RESTARTING, "stop": VERDICTS_STOP}, "watch"),
    "not in a blackout": (
        {"seen": STALLED, "rules": RESTARTING, "policy": BLACKED_OUT},
        "watch",
    ),
    "a hung driver is not killed in a blackout": ({"seen": HUNG, "policy": BLACKED_OUT}, "watch"),
    "unless a person wants it stopped": (
        {"seen": HUNG, "policy": BLACKED_OUT, "desired": STOPPED},
        "kill",
    ),
    "a rule that asks for a stop gets it in a blackout too": (
        {"seen": STALLED, "rules": STOPPING, "policy": BLACKED_OUT},
        "stop",
    ),
    "a dead one comes back in a blackout too": (
        {"seen": DEAD, "decision": a_restart(), "policy": BLACKED_OUT},
        "launch",
    ),
    "the end a verdict asked for counts as a failure": (
        {"seen": HAS_STOPPED, "stop": VERDICTS_STOP},
        "settle",
    ),
    "also when the driver had to be killed": ({"seen": DEAD, "stop": VERDICTS_STOP}, "settle"),
    "and is over when its restart is due": (
        {"seen": HAS_STOPPED, "stop": VERDICTS_STOP, "decision": a_restart()},
        "launch",
    ),
    "a person who has stopped and started it since has the last word": (
        {"seen": HAS_STOPPED, "stop": OVERRULING, "desired_number": 4},
        "launch",
    ),
    "also before what was decided meanwhile": (
        {"seen": DEAD, "stop": OVERRULING, "desired_number": 4, "decision": a_give_up()},
        "launch",
    ),
    "but not before an open circuit": (
        {"seen": DEAD, "stop": OVERRULING, "desired_number": 4, "circuit": OPEN},
        "park",
    ),
    "who had started it before the verdict has not": (
        {"seen": HAS_STOPPED, "stop": OVERRULING, "desired_number": 2},
        "settle",
    ),
    "nor before a verdict that names no desired state": (
        {"seen": HAS_STOPPED, "stop": VERDICTS_STOP, "desired_number": 4},
        "settle",
    ),
    # Telling.
    "what nobody was told is told first": ({"seen": STALLED, "tells": True}, "alert"),
    "also of a driver that blocks": ({"seen": LOST, "tells": True}, "alert"),
    "also of one that beats out of sight and heeds no stop": (
        {"seen": observed(UNSEEN), "stop": a_stop(), "stopping_for": OVERDUE, "tells": True},
        "alert",
    ),
    "a driver that must be killed is not kept waiting": ({"seen": HUNG, "tells": True}, "kill"),
    "a decision that nobody was told is told before the restart waits": (
        {"seen": FAILED, "decision": a_restart(due_in=seconds(5)), "tells": True},
        "alert",
    ),
    "a stream that was given up is not parked untold": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": OPEN, "tells": True},
        "alert",
    ),
    # Stopping.
    "a driver that is wanted stopped is asked to": ({"desired": STOPPED}, "stop"),
    "also before its first heartbeat": ({"desired": STOPPED, "seen": STARTING}, "stop"),
    "also before it is born": ({"desired": STOPPED, "seen": UNBORN}, "stop"),
    "also through the home where its host is unseen": (
        {"desired": STOPPED, "seen": observed(UNSEEN)},
        "stop",
    ),
    "a driver of a replaced deployment is asked to stop": ({"deployment": NEXT}, "stop"),
    "it is asked once": ({"desired": STOPPED, "stop": a_stop()}, "watch"),
    "it is asked once, whatever it runs": ({"deployment": NEXT, "stop": a_stop()}, "watch"),
    "it has its grace": (
        {"desired": STOPPED, "stop": a_stop(), "stopping_for": OVERDUE - seconds(1)},
        "watch",
    ),
    "after its grace it is killed": (
        {"desired": STOPPED, "stop": a_stop(), "stopping_for": OVERDUE},
        "kill",
    ),
    "also when nobody wants it stopped any more": (
        {"stop": a_stop(), "stopping_for": OVERDUE},
        "kill",
    ),
    "after its grace it blocks where its host is unseen": (
        {"seen": observed(UNSEEN), "stop": a_stop(), "stopping_for": OVERDUE},
        "blocked",
    ),
    # Ended, and wanted stopped.
    "a stopped stream is parked": ({"seen": HAS_STOPPED, "desired": STOPPED}, "park"),
    "a killed driver that is wanted stopped is parked": (
        {"seen": DEAD, "desired": STOPPED},
        "park",
    ),
    "a failure that is wanted stopped is parked": ({"seen": FAILED, "desired": STOPPED}, "park"),
    "a stop whose end has come is over once the driver is gone": (
        {"seen": HAS_STOPPED, "desired": STOPPED, "is_stop_over": True},
        "resume",
    ),
    "also of a stream that never ran": (
        {"seen": None, "desired": STOPPED, "is_stop_over": True},
        "resume",
    ),
    "also of a stream that was given up": (
        {"seen": FAILED, "desired": STOPPED, "is_stop_over": True, "circuit": OPEN},
        "resume",
    ),
    "until then its driver is asked to stop": ({"desired": STOPPED, "is_stop_over": True}, "stop"),
    "a completed stream that is wanted stopped is parked": (
        {"seen": COMPLETED, "desired": STOPPED, "watched": EPOCH},
        "park",
    ),
    # Ended without a failure.
    "the task that watched a script complete is done": (
        {"seen": COMPLETED, "watched": EPOCH},
        "finish",
    ),
    "a new task runs a completed script again": ({"seen": COMPLETED}, "launch"),
    "also one that has watched another epoch": ({"seen": COMPLETED, "watched": 16}, "launch"),
    "a stopped stream that is wanted again is launched": (
        {"seen": HAS_STOPPED, "stop": a_stop()},
        "launch",
    ),
    "a stop that had to kill is no failure": ({"seen": DEAD, "stop": a_stop()}, "launch"),
    "a stop that failed is no failure": ({"seen": FAILED, "stop": a_stop()}, "launch"),
    "a trial that was stopped does not wait for the old circuit": (
        {"seen": HAS_STOPPED, "stop": a_stop(), "circuit": OPEN_BEFORE},
        "launch",
    ),
    # Failed.
    "a failure is settled": ({"seen": FAILED}, "settle"),
    "a death is settled": ({"seen": DEAD}, "settle"),
    "a death that a person declared is settled": (
        {"seen": replace(LOST, death=a_death())},
        "settle",
    ),
    "a launch that failed is settled": ({"seen": replace(UNBORN, death=a_death())}, "settle"),
    "a stop that nobody asked for is settled": ({"seen": HAS_STOPPED}, "settle"),
    "a driver fenced by nobody is settled": ({"seen": FENCED}, "settle"),
    "a restart that is not yet due is waited for": (
        {"seen": FAILED, "decision": a_restart(due_in=seconds(5))},
        "wait",
    ),
    "a restart that is due is launched": ({"seen": FAILED, "decision": a_restart()}, "launch"),
    "a restart decided by a clock years ahead is launched": (
        {
            "seen": FAILED,
            "decision": a_restart(due_in=timedelta(days=900), decided_at=NOW + timedelta(days=899)),
        },
        "launch",
    ),
    "a replaced deployment needs no settling": ({"seen": FAILED, "deployment": NEXT}, "launch"),
    "nor does it wait": (
        {"seen": FAILED, "deployment": NEXT, "decision": a_restart(due_in=minutes(5))},
        "launch",
    ),
    # The circuit.
    "a failure that was given up parks": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": OPEN},
        "park",
    ),
    "a circuit that was never opened is opened now": (
        {"seen": FAILED, "decision": a_give_up()},
        "settle",
    ),
    "also when it was last closed for an older epoch": (
        {
            "seen": FAILED,
            "decision": a_give_up(),
            "circuit": a_circuit(CircuitState.CLOSED, epoch=16),
        },
        "settle",
    ),
    "an open circuit holds whatever the epoch died of": (
        {"seen": COMPLETED, "circuit": OPEN},
        "park",
    ),
    "a restart that is due does not pass an open circuit": (
        {"seen": FAILED, "decision": a_restart(), "circuit": OPEN},
        "park",
    ),
    "a new deployment does not pass an open circuit": (
        {"seen": FAILED, "deployment": NEXT, "circuit": OPEN},
        "park",
    ),
    "a closed circuit lets a stream that was given up start": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": CLOSED},
        "launch",
    ),
    "closing it ends a wait": (
        {"seen": FAILED, "decision": a_restart(due_in=minutes(5)), "circuit": CLOSED},
        "launch",
    ),
    "a circuit closed long ago is no pass": (
        {"seen": FAILED, "circuit": a_circuit(CircuitState.CLOSED, epoch=3)},
        "settle",
    ),
    "an open circuit half-opens after its time": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(30)), "policy": HALF_OPENING},
        "launch",
    ),
    "but not for a copy that can only fail in the same way": (
        {
            "seen": FAILED,
            "decision": FINAL,
            "deployment": a_deployment(),
            "circuit": a_circuit(at=NOW - minutes(30)),
            "policy": HALF_OPENING,
        },
        "park",
    ),
    "it does for a corrected copy": (
        {
            "seen": FAILED,
            "decision": FINAL,
            "deployment": a_deployment(number=4),
            "circuit": a_circuit(at=NOW - minutes(30)),
            "policy": HALF_OPENING,
        },
        "launch",
    ),
    "it does after user code, which a restart may help": (
        {
            "seen": FAILED,
            "decision": a_give_up(failure_kind=FailureKind.USER_CODE),
            "deployment": a_deployment(),
            "circuit": a_circuit(at=NOW - minutes(30)),
            "policy": HALF_OPENING,
        },
        "launch",
    ),
    "but not before": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(29)), "policy": HALF_OPENING},
        "park",
    ),
    "and not at all without being told to": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - timedelta(days=900))},
        "park",
    ),
    "a trial that failed is settled, not tried again at once": (
        {
            "seen": observed(GONE, epoch=an_epoch(cause=LaunchCause.TRIAL), exit=an_exit()),
            "circuit": a_circuit(epoch=EPOCH - 1, at=NOW - minutes(31)),
            "policy": HALF_OPENING,
        },
        "settle",
    ),
    "another lane is live": ({"follows": "orders.green"}, "follow"),
    "another lane is live, and this one is down": (
        {"seen": FAILED, "follows": "orders.green"},
        "follow",
    ),
    "another lane is live, and the home shows less than was seen": (
        {"follows": "orders.green", "watched": EPOCH + 1},
        "watch",
    ),
    "a stream that asks for a hot standby and has none gets one": (
        {"wants_standby": True},
        "standby",
    ),
    "a stream whose load has changed gets another size": (
        {
            "size": SizeView(
                state=SizeState(epoch=EPOCH, wanted=4, started_with=4, now=NOW),
                step=SizeStep(code=SizeCode.UP, executors=6, reason="It is busy."),
            )
        },
        "resize",
    ),
    "a promoted standby that was not released is": (
        {"seen": observed(epoch=an_epoch(promotes=5)), "is_unreleased": True},
        "release",
    ),
    "a trial that had earned a restart gets it": (
        {"seen": DEAD, "circuit": OPEN_BEFORE, "decision": a_restart()},
        "launch",
    ),
}
