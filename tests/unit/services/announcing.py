"""
A world for announced windows: real operator, home and records; Airflow is a small model.

The model has the rules of Airflow 3.3 that the guarantee rests on: events are written together with the
success of a running task instance, a success is taken by its id only, and a retry has another id.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.home.home import Home, StreamHome, init_home, open_home
from airflow_streaming.hooks import window_events
from airflow_streaming.operators.windows import ClosedWindowsOperator
from airflow_streaming.supervision.readiness.closed_windows import Committed

DAY = datetime(2026, 11, 21, tzinfo=UTC)
ASSET = Asset(name="orders.windows", uri="stream+file:/home/orders")


class Killed(BaseException):
    """The task's process was killed."""


class DyingStore:
    """A store whose user is killed before or after one of its calls."""

    def __init__(self, store: Any, fuse: int | None, *, after: bool = False) -> None:
        self._store, self._fuse, self._after = store, fuse, after

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in ("read", "create", "names", "replace"):
            return real

        def call(*args: Any, **named: Any) -> Any:
            if self._fuse is None:
                return real(*args, **named)
            self._fuse -= 1
            if self._fuse == 0 and not self._after:
                raise Killed
            found = real(*args, **named)
            if self._fuse == 0:
                raise Killed
            return found

        return call


@dataclass
class Try:
    """One try of a task of a run."""

    run_id: str
    ti_id: str
    result: Any = None
    outlets: Any = None


@dataclass
class FakeAirflow:
    """Task instances and asset events."""

    events: list[SimpleNamespace] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    """The id of the running task instance of each run."""
    ids: Any = field(default_factory=lambda: count(1))

    def begin(self, run_id: str) -> Try:
        self.running[run_id] = str(next(self.ids))
        return Try(run_id=run_id, ti_id=self.running[run_id])

    def succeed(self, one: Try) -> bool:
        """Take a success with its events, in one transaction; from the running task instance only."""
        if self.running.get(one.run_id) != one.ti_id:
            return False
        del self.running[one.run_id]
        for asset, outlet in one.outlets.items():
            for key in outlet.partition_keys or [None]:
                event = SimpleNamespace(
                    asset=asset.name,
                    partition_key=key,
                    source_dag_id="orders_windows",
                    source_run_id=one.run_id,
                    source_task_id="windows",
                    extra=dict(outlet.extra),
                )
                self.events.append(event)
        return True

    def announced(self) -> list[tuple[str, int]]:
        """Return key and revision of every event, in order."""
        return [
            (one.partition_key, one.extra["revisions"][one.partition_key])
            for one in self.events
            if one.partition_key is not None  # a receipt has no key
        ]


class Outlet:
    """As much of Airflow's accessor of outlet events as the task uses."""

    def __init__(self) -> None:
        self.partition_keys: set[str] = set()
        self.extra: dict[str, Any] = {}

    def add_partitions(self, keys: list[str]) -> None:
        self.partition_keys.update(keys)


class World:
    """One stream with announced windows."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **terms: Any) -> None:
        self.uri = str(folder / "home")
        init_home(self.uri)
        self.airflow, self.until, self.never = FakeAirflow(), DAY, False
        self.terms: dict[str, Any] = {"since": DAY, **terms}
        self.runs = count(1)
        airflow = self.airflow

        class Accessor:
            def __init__(self, *, asset_name: str, asset_uri: str) -> None:
                # Airflow cannot return the events of windows while a run of theirs is queued.
                assert (asset_name, asset_uri) != (ASSET.name, ASSET.uri)
                self.name = asset_name

            def after(self, _: str) -> list[SimpleNamespace]:
                return [one for one in airflow.events if one.asset == self.name]

        patch.setattr(window_events, "InletEventsAccessor", Accessor)

    @property
    def home(self) -> StreamHome:
        return open_home(self.uri).stream("orders")

    def hours(self, until: float) -> None:
        """Let the committed output be complete up to an hour."""
        self.until = DAY + timedelta(hours=until)

    def attempt(self, run_id: str, *, fuse: int | None = None, after: bool = False) -> Try | None:
        """Execute one try; return it when it wants to succeed, ``None`` when it was killed or waits."""
        one = self.airflow.begin(run_id)
        try:
            self.execute(one, fuse, after=after)
        except (Killed, TaskDeferred):
            # Deferred or dead: its state is not "running" any more, and a retry has another id.
            del self.airflow.running[run_id]
            return None
        return one

    def execute(self, one: Try, fuse: int | None = None, *, after: bool = False) -> None:
        with DAG("orders_windows", schedule=None):
            task: Any = ClosedWindowsOperator(
                task_id="windows", stream="orders", home=self.uri, asset=ASSET, **self.terms
            )
        store = DyingStore(open_home(self.uri).store, fuse, after=after)
        task._records = lambda: Home(store).stream("orders")
        reason = "No query has a watermark." if self.never else ""
        until = None if self.never else self.until
        task._committed = lambda: (Committed(until=until, reason=reason, never=self.never), "/out")
        one.outlets = {outlet: Outlet() for outlet in task.outlets}
        ti = SimpleNamespace(
            id=one.ti_id,
            dag_id="orders_windows",
            run_id=one.run_id,
            task_id="windows",
            try_number=1,
            map_index=-1,
            get_task_states=self._states,
        )
        one.result = task.execute({"ti": ti, "outlet_events": one.outlets})

    def _states(self, *, run_ids: list[str], **_: Any) -> dict[str, Any]:
        return {
            run: {"windows": "running" if run in self.airflow.running else "failed"}
            for run in run_ids
        }

    def run(self, **kill: Any) -> Try | None:
        """Execute a try in a run of its own, and let it succeed."""
        one = self.attempt(f"run-{next(self.runs)}", **kill)
        if one is not None:
            assert self.airflow.succeed(one)
        return one

    def settle(self) -> None:
        """Run until nothing is due."""
        while self.run() is not None:
            pass

    def stormy(self, chance: random.Random, tries: int = 4) -> None:
        """Run with kills at any call, and before or after the success is recorded."""
        run_id = f"run-{next(self.runs)}"
        zombies: list[Try] = []
        for _ in range(tries):
            one = self.attempt(
                run_id,
                fuse=chance.choice([None, *range(1, 14)]),
                after=chance.random() < 0.5,
            )
            if one is None:
                continue
            if chance.random() < 0.4:
                # Killed before Airflow has heard of the success; it may still try to say so.
                zombies.append(one)
                continue
            assert self.airflow.succeed(one)
            break
        # Airflow has missed the heartbeats of the last try, if that one has died.
        self.airflow.running.pop(run_id, None)
        for zombie in zombies:
            assert not self.airflow.succeed(zombie)

    def revisions(self) -> Counter[tuple[str, int]]:
        return Counter(self.airflow.announced())
