"""The repair of this provider, made on what a kill has left of a query without a stream."""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_streaming.checkpoints.repair.sink_repairs import SinkRepairs
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore
from tests.system.kills.cutting import Folders
from tests.system.kills.matrix import Case
from tests.unit.home.make import make_deployment, make_epoch

QUERY = "checkpoint"


def repair(case: Case, folders: Folders) -> bool:
    """Repair a file sink as a launch does; tell whether it was ahead."""
    if case.sink != "file":
        return False
    home = _home_of(folders)
    found = SinkRepairs(home, by="the kill program").before_launch(2, home.deployment(1))
    return any(one.repair is not None for one in found)


def _home_of(folders: Folders) -> StreamHome:
    place = folders.root.with_name("home")
    shutil.rmtree(place, ignore_errors=True)
    home = StreamHome(LocalStore(str(place)), "orders")
    deployment = make_deployment(checkpoint=str(folders.root), output=str(folders.output))
    home.create_deployment(deployment, _SCRIPT)
    home.create_epoch(make_epoch(1))
    path = Layout("orders").place(QueryPlan, epoch=1, query=QUERY)
    home.store.create(path, _plan(folders.output).to_bytes("orders"))
    return home


_SCRIPT = b"print('a stream')\n"


def _plan(output: Path) -> QueryPlan:
    return QueryPlan(
        query=QUERY,
        spark="4.3.0",
        output_mode="append",
        sink=SinkPlan(sink="file", format="json", target=str(output)),
        operators=(OperatorPlan(sort=OperatorKind.DEDUPLICATE),),
    )
