"""Observations, and the verdict on each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from airflow_streaming.model.health_rules import Finding, HealthRules, RuleState, Severity
from airflow_streaming.model.observation import BUSY_SHARE, LAST_WORD_GRACE, ProcessState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.status import DriverState, PauseStatus
from airflow_streaming.supervision.health import SPAWN_GRACE
from tests.unit.supervision.builders import (
    NOW,
    a_death,
    a_launch,
    a_query,
    a_status,
    an_epoch,
    an_exit,
    minutes,
    observed,
    seconds,
)

RULES: Final = HealthRules()
RUNNING, SUSPENDED = ProcessState.RUNNING, ProcessState.SUSPENDED
GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN

WAITING: Final = a_query(processing=False, data_available=False)
UNBORN: Final[dict[str, Any]] = {
    "launch": None,
    "status": None,
    "epoch": an_epoch(created_at=NOW - seconds(5)),
}
UNHEARD: Final[dict[str, Any]] = {"status": None}
HANGING: Final[dict[str, Any]] = {"silent_for": RULES.hang_after}


STALLED: Final = a_query(batch_for_s=400.0, quiet_for_s=400.0)


def a_finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "rule": "late",
        "state": RuleState.FIRING,
        "severity": Severity.ALERT,
        "query": "revenue",
        "reason": "Epoch 17 is late.",
    }
    return Finding(**fields | changes)


def busy(silent_for: timedelta, share: float = 2 * BUSY_SHARE) -> dict[str, Any]:
    used = share * silent_for.total_seconds()
    return {"silent_for": silent_for, "cpu_in_silence": used}


CASES: Final = {
    "held between two batches is paused": (
        observed(
            RUNNING,
            status=a_status(
                queries=(a_query(quiet_for_s=7200.0),),
                pause=PauseStatus(number=4, is_held=True, held_for_s=20.0, left_s=280.0),
            ),
        ),
        "paused",
    ),
    # The launcher is at work.
    "an epoch begun moments ago is starting": (observed(GONE, **UNBORN), "starting"),
    "also where its host cannot be seen": (observed(UNSEEN, **UNBORN), "starting"),
    "also by a clock that was set back": (
        observed(GONE, **UNBORN | {"epoch": an_epoch(created_at=NOW + seconds(5))}),
        "starting",
    ),
    "an epoch that never got a driver is dead after the grace": (
        observed(GONE, **UNBORN | {"epoch": an_epoch(created_at=NOW - SPAWN_GRACE)}),
        "dead",
    ),
    "a clock that is hours ahead does not keep it starting": (
        observed(GONE, **UNBORN | {"epoch": an_epoch(created_at=NOW + minutes(90))}),
        "dead",
    ),
    "a launch that failed is dead at once": (observed(GONE, **UNBORN, death=a_death()), "dead"),
    "a young driver that left a launch record and is gone is dead": (
        observed(GONE, **UNBORN | {"launch": a_launch()}),
        "dead",
    ),
    "a young driver that left its last word failed": (
        observed(GONE, **UNBORN, exit=an_exit()),
        "failed",
    ),
    # No sign of life yet.
    "a driver without a heartbeat is starting Spark": (observed(**UNHEARD), "starting"),
    "a driver found without a launch record is starting": (
        observed(launch=None, status=None),
        "starting",
    ),
    "a slow start is not a hang": (
        observed(**UNHEARD, silent_for=RULES.startup_timeout - seconds(1)),
        "starting",
    ),
    "a start that takes too long is a hang": (
        observed(**UNHEARD, silent_for=RULES.startup_timeout),
        "hung",
    ),
    "however busy it is": (observed(**UNHEARD, **busy(RULES.startup_timeout)), "hung"),
    "a start on an unseen host is waited for": (
        observed(UNSEEN, **UNHEARD, **HANGING),
        "starting",
    ),
    "a start on an unseen host that takes too long is unreachable": (
        observed(UNSEEN, **UNHEARD, silent_for=RULES.startup_timeout),
        "unreachable",
    ),
    "a suspended start is a hang much sooner": (
        observed(SUSPENDED, **UNHEARD, **HANGING),
        "hung",
    ),
    "a driver without a batch is starting": (
        observed(status=a_status(state=DriverState.STARTING, first_progress_at=None, queries=())),
        "starting",
    ),
    # Beating.
    "a query in a batch is healthy": (observed(), "healthy"),
    "a query with data to read is healthy": (
        observed(status=a_status(queries=(a_query(processing=False),))),
        "healthy",
    ),
    "one working query is enough": (
        observed(status=a_status(queries=(WAITING, a_query()))),
        "healthy",
    ),
    "queries without data are idle": (
        observed(status=a_status(queries=(WAITING, WAITING))),
        "idle",
    ),
    "a query that has ended has no say": (
        observed(status=a_status(queries=(WAITING, a_query(active=False)))),
        "idle",
    ),
    "a driver on an unseen host that beats is healthy": (observed(UNSEEN), "healthy"),
    "a suspension shorter than a pause is nothing": (
        observed(SUSPENDED, silent_for=RULES.suspended_after - seconds(1)),
        "healthy",
    ),
    "a suspension is a hang sooner than silence is": (
        observed(SUSPENDED, silent_for=RULES.suspended_after),
        "hung",
    ),
    "a long garbage collection is nothing": (
        observed(silent_for=seconds(20), cpu_in_silence=0.0),
        "healthy",
    ),
    # At work, but not well.
    "a rule that fires makes it degraded": (observed(findings=(a_finding(),)), "degraded"),
    "a rule that may yet fire does not": (
        observed(findings=(a_finding(state=RuleState.PENDING),)),
        "healthy",
    ),
    "nor does one that knows nothing": (
        observed(findings=(a_finding(state=RuleState.UNKNOWN),)),
        "healthy",
    ),
    "a query that failed beside others makes it degraded": (
        observed(status=a_status(queries=(a_query(), a_query(active=False, error="it broke")))),
        "degraded",
    ),
    "a long batch at work is slow": (
        observed(status=a_status(queries=(a_query(batch_for_s=400.0, quiet_for_s=5.0),))),
        "slow",
    ),
    "a long quiet batch is stalled": (observed(status=a_status(queries=(STALLED,))), "stalled"),
    "what is stalled outweighs what is degraded": (
        observed(status=a_status(queries=(STALLED,)), findings=(a_finding(),)),
        "stalled",
    ),
    "but not a rule that asks for more": (
        observed(
            status=a_status(queries=(STALLED,)),
            findings=(a_finding(severity=Severity.RESTART),),
        ),
        "degraded",
    ),
    # Silent.
    "silence without CPU time is a hang": (observed(**busy(RULES.hang_after, 0.0)), "hung"),
    "silence with next to no CPU time is a hang": (
        observed(**busy(RULES.hang_after, BUSY_SHARE)),
        "hung",
    ),
    "silence with CPU time is slow": (observed(**busy(RULES.hang_after)), "slow"),
    "silence with CPU time becomes a hang too": (observed(**busy(RULES.busy_hang_after)), "hung"),
    "silence is a hang where CPU time cannot be seen": (observed(**HANGING), "hung"),
    "a silent suspended driver is a hang": (observed(SUSPENDED, **HANGING), "hung"),
    "a suspended driver is a hang whatever its CPU time": (
        observed(SUSPENDED, **busy(RULES.hang_after)),
        "hung",
    ),
    "silence on an unseen host is unreachable": (observed(UNSEEN, **HANGING), "unreachable"),
    "however long": (observed(UNSEEN, silent_for=timedelta(days=30)), "unreachable"),
    # Going down.
    "a driver that stops its queries is stopping": (
        observed(status=a_status(state=DriverState.STOPPING)),
        "stopping",
    ),
    "a driver that has said its last word is stopping": (observed(exit=an_exit()), "stopping"),
    "also before its first heartbeat": (observed(**UNHEARD, exit=an_exit()), "stopping"),
    "a last word on an unseen host is no proof while its process may live": (
        observed(UNSEEN, exit=an_exit(Outcome.FAILED), silent_for=seconds(10)),
        "stopping",
    ),
    "a last word on an unseen host, and silence after it, is proof": (
        observed(UNSEEN, exit=an_exit(Outcome.FAILED), silent_for=LAST_WORD_GRACE),
        "failed",
    ),
    "a restarted driver whose queries wait for data is idle": (
        observed(
            status=a_status(
                first_progress_at=None,
                queries=(replace(WAITING, message="Waiting for data to arrive"),),
            )
        ),
        "idle",
    ),
    "a restarted driver whose queries initialize is starting": (
        observed(
            status=a_status(
                first_progress_at=None, queries=(replace(WAITING, message="Initializing sources"),)
            )
        ),
        "starting",
    ),
    "after the last word nothing is worth waiting for": (
        observed(exit=an_exit(), **busy(RULES.hang_after)),
        "hung",
    ),
    # Gone.
    "gone without a word is dead": (observed(GONE), "dead"),
    "gone after a failure": (observed(GONE, exit=an_exit(Outcome.FAILED)), "failed"),
    "gone after the work is done": (observed(GONE, exit=an_exit(Outcome.COMPLETED)), "completed"),
    "gone after a stop": (observed(GONE, exit=an_exit(Outcome.STOPPED)), "stopped"),
    "gone because a newer epoch owns the stream": (
        observed(GONE, exit=an_exit(Outcome.FENCED)),
        "stopped",
    ),
    # A person's word.
    "declared dead where nobody can look": (observed(UNSEEN, death=a_death(), **HANGING), "dead"),
    "declared dead although it seemed well": (observed(UNSEEN, death=a_death()), "dead"),
    "its last word counts when a person declares it dead": (
        observed(UNSEEN, death=a_death(), exit=an_exit(Outcome.STOPPED)),
        "stopped",
    ),
}
