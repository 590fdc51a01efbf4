"""A downstream dag may rely on a stream that was seen to be well for long enough."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.core.control import CircuitState, DesiredState
from airflow_streaming.core.health import ProcessState
from airflow_streaming.core.readiness import ReadinessState, assess
from tests.unit.core.builders import (
    EPOCH,
    a_circuit,
    a_query,
    a_situation,
    a_status,
    an_exit,
    minutes,
    observed,
)

SEEN: Final = observed(beating=True)
WAITING: Final = a_query(processing=False, data_available=False)

TABLE: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "healthy and beating": ({}, "ready", "1 of 1 queries active"),
    "idle and beating": (
        {"seen": observed(beating=True, status=a_status(queries=(WAITING,)))},
        "ready",
        "waiting for data",
    ),
    "healthy by a status that may be old": (
        {"seen": observed()},
        "waiting",
        "Waiting to see the driver's heartbeat rise.",
    ),
    "never run": ({"seen": None}, "waiting", "The stream has never run."),
    "starting": (
        {"seen": observed(status=None, beating=True)},
        "waiting",
        "Driver of epoch 17 is starting Spark.",
    ),
    "failed, to be restarted": (
        {"seen": observed(ProcessState.GONE, exit=an_exit())},
        "waiting",
        "Driver of epoch 17 ended",
    ),
    "wanted stopped, though still healthy": (
        {"desired": DesiredState.STOPPED},
        "lost",
        "The stream is wanted stopped.",
    ),
    "circuit open": ({"circuit": a_circuit()}, "lost", "The circuit is open: The disk was full."),
    "circuit open before the first epoch": (
        {"circuit": a_circuit(), "seen": None},
        "lost",
        "The circuit is open: The disk was full.",
    ),
    "circuit closed": ({"circuit": a_circuit(CircuitState.CLOSED)}, "ready", "1 of 1 queries"),
    "circuit half-open and its trial healthy": (
        {"circuit": a_circuit(epoch=EPOCH - 1)},
        "ready",
        "1 of 1 queries active",
    ),
}


@pytest.mark.parametrize(("changes", "state", "words"), TABLE.values(), ids=TABLE.keys())
def test_readiness(changes: dict[str, Any], state: str, words: str) -> None:
    readiness = assess(a_situation(**{"seen": SEEN} | changes), minutes(5))

    assert readiness.state == state
    assert words in readiness.reason


def test_the_table_reaches_every_state() -> None:
    assert {state for _, state, _ in TABLE.values()} == {state.value for state in ReadinessState}


@pytest.mark.parametrize(
    ("healthy_for", "state"), [(0, "ready"), (50, "ready"), (51, "waiting")], ids=str
)
def test_it_has_to_be_well_for_long_enough(healthy_for: int, state: str) -> None:
    # The builder's stream made its first progress fifty minutes ago.
    readiness = assess(a_situation(seen=SEEN), minutes(healthy_for))

    assert readiness.state == state
    if state == "waiting":
        assert readiness.reason.startswith("Healthy for 3000 s of 3060 s.")


def test_a_stream_that_is_not_asked_to_be_old_is_ready_at_its_first_batch() -> None:
    assert assess(a_situation(seen=SEEN), timedelta(0)).state is ReadinessState.READY
