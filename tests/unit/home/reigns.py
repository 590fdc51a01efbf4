"""Lanes that are deployed, and made live by steps of a cutover."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_streaming.home.home import Home
from airflow_streaming.model.names import Layout, base_of
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from tests.unit.home.make import NOON, SCRIPT, make_deployment

SWITCHED, BACK = CutoverEvent.SWITCHED, CutoverEvent.SOAK_FAILED
_BEFORE = {SWITCHED: CutoverState.SWITCHING, CutoverEvent.ABORT: CutoverState.SWITCHING}


def output_of(lane: str, number: int) -> str:
    return f"/lake/{lane}/{number}"


def deploy(home: Home, lane: str, number: int, at: datetime = NOON) -> None:
    made = make_deployment(
        number, stream=lane, output=output_of(lane, number), created_at=at, color="blue"
    )
    home.stream(lane).create_deployment(made, SCRIPT)


def record(lane: str, step: int = 9, **changes: object) -> LiveRecord:
    deployment = changes.get("deployment", 1)
    told: dict[str, object] = {
        "number": 1,
        "stream": base_of(lane),
        "lane": lane,
        "deployment": deployment,
        "output": output_of(lane, int(str(deployment))),
        "leader": "orders",
        "change": 1,
        "step": step,
        "event": SWITCHED,
        "at": NOON,
        "by": "kim",
    }
    return LiveRecord(**told | changes)  # type: ignore[arg-type]


def take(home: Home, step: int, event: CutoverEvent = SWITCHED, change: int = 1) -> None:
    before = _BEFORE.get(event, CutoverState.SOAKING)
    taken = CutoverTransition(
        change=change,
        number=step,
        before=before,
        event=event,
        after=CUTOVER.after(before, event),
        reason="So it is.",
        at=NOON + timedelta(hours=change, minutes=step),
        by="kim",
    )
    path = Layout("orders").place(CutoverTransition, change=change, number=step)
    home.store.create(path, taken.to_bytes("orders"))


def cut_over(home: Home, lane: str, change: int, deployment: int = 1) -> LiveRecord:
    made = home.stream("orders").point(record(lane, change=change, deployment=deployment))
    take(home, 9, change=change)
    return made
