"""A stopped stream with a backup to go back to, and changes that die on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore.stream_restore import RestoreRequest, Switched
from airflow_streaming.changes.restore.undo import switch, undo
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.deployment import ProposalAction, decide_proposal
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.storage import LocalStore, Store
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.checkpoints.restoring import (
    Killed,
    Life,
    back_up,
    is_sound_at,
    limit_local,
    new_store,
    run_batches,
)
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

QUERIES = {"counts": "c-0-0-0-1", "sums": "5-0-0-0-1"}


def restore_request(asked: dict[str, Any]) -> RestoreRequest:
    """Take out of some arguments what they ask of a restore."""
    names = [field.name for field in fields(RestoreRequest) if field.name in asked]
    return RestoreRequest(**{name: asked.pop(name) for name in names})


class DyingStore:
    """The home's files, each of whose changes is a durable step."""

    def __init__(self, store: Store, life: Life) -> None:
        self.uri = store.uri
        self.read, self.names = store.read, store.names
        self.create = life.around(store.create)
        self.replace = life.around(store.replace)
        self.delete = life.around(store.delete)


class Stream:
    """A stopped stream at batch 3 of two queries, with a backup at batch 1."""

    def __init__(
        self, folder: Path, places: Mapping[str, str] | None = None, **deployment: Any
    ) -> None:
        """
        Make its home.

        :param places: Folder of each query's checkpoint; default: its name.
        """
        self.places = places or {name: name for name in QUERIES}
        queries = dict(zip(self.places, QUERIES.values(), strict=True))
        self.folder = folder
        self.uri = str(folder / "home")
        self.launcher = FakeLauncher()
        self.old = f"{self.uri}/orders/checkpoints/000001"
        self.deploy(1, checkpoint=self.old, **deployment)
        for name, query_id in queries.items():
            run_batches(Path(self.old) / self.places[name], 1, query_id)
            self.claim(name, query_id, f"file:{self.old}/{self.places[name]}")
        self.store = new_store(folder)
        self.backup = back_up(self.store, Path(self.old))
        for name, query_id in queries.items():
            run_batches(Path(self.old) / self.places[name], 3, query_id)
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        self.want(DesiredState.STOPPED)

    @property
    def home(self) -> StreamHome:
        return self.home_on(LocalStore(self.uri))

    @staticmethod
    def home_on(store: Any) -> StreamHome:
        return StreamHome(store, "orders")

    def deploy(self, number: int, **changes: Any) -> None:
        self.home.create_deployment(make_deployment(number, **changes), SCRIPT)

    def claim(self, query: str, query_id: str, location: str, deployment: int = 1) -> None:
        claim = QueryClaim(query=query, query_id=query_id, checkpoint=location, epoch=1)
        self.home.store.create(
            Layout("orders").place(QueryClaim, deployment=deployment, query=query),
            Layout("orders").bytes_of(claim),
        )

    def want(self, state: DesiredState) -> None:
        self.home.want(state, by="test", reason="The test says so.", now=NOON)

    def switch(self, home: StreamHome | None = None, **asked: Any) -> Switched:
        request, how = restore_request(asked), {"by": "kim", **asked}
        return switch(home or self.home, self.launcher, self.store, self.backup.id, request, **how)

    def undo(self, home: StreamHome | None = None) -> Switched:
        return undo(home or self.home, self.launcher, by="kim")

    @property
    def checkpoint(self) -> str:
        """What the next driver starts on."""
        newest = self.home.newest_deployment()
        assert newest is not None
        return newest.checkpoint

    def is_at(self, batch: int) -> bool:
        """Tell whether every query of what the next driver starts on is whole and at a batch."""
        places = self.places.values()
        return all(is_sound_at(Path(self.checkpoint) / place, batch) for place in places)

    def proposal(self, **spec: Any) -> ProposalAction:
        """Return what becomes of what the dag, unchanged but for this, proposes."""
        asked = {
            "name": "orders",
            "application": "/dags/jobs/orders.py",
            "home": self.uri,
            "runtime": "spark-4.3",
            "application_args": ("--output", "{output}"),
            "conf": {"spark.sql.shuffle.partitions": "2"},
        }
        controller = StreamController(
            self.home, self.launcher, spec=StreamSpec(**asked | spec), submit=no_launch, by="dag"
        )
        runtime = Runtime(
            name="spark-4.3",
            spark_home=Path("/opt/spark"),
            python=Path("/opt/spark/bin/python"),
            java_home=None,
            spark_version="4.3.0",
        )
        proposed = controller.propose(runtime, "/dags/jobs/orders.py", SCRIPT)
        return decide_proposal(self.home.newest_deployment(), proposed, restart_asked=False)


def no_launch(_: Any) -> LaunchRequest:
    raise AssertionError("A proposal launches nothing.")


def lives(act: Callable[[Stream, StreamHome], Any], stream: Stream, step: int) -> bool:
    """Do something with a process that dies before a step; tell whether it lived."""
    life = Life(step)
    home = stream.home_on(DyingStore(LocalStore(stream.uri), life))
    with pytest.MonkeyPatch.context() as patch:
        # The home's own files are counted as steps by themselves.
        limit_local(patch, Life())
        patch.setattr(
            "airflow_streaming.checkpoints.restore.local_target._write_all",
            life.around(lambda handle, data: os.write(handle, data)),
        )
        patch.setattr(
            "airflow_streaming.checkpoints.restore.local_target._sync_folder", life.around(str)
        )
        patch.setattr(os, "sync", life.around(lambda: None))
        patch.setattr(Path, "rename", life.around(Path.rename))
        try:
            act(stream, home)
        except Killed:
            return False
    return True


def begun(stream: Stream) -> None:
    """Let a switch die when its change is on record and nothing else is done."""
    assert not lives(lambda s, home: s.switch(home), stream, 2)
    assert stream.home.unfinished_change() is not None
