"""A stateful query with a file sink that has written a batch which its checkpoint has not committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.repair.batch_move import Repaired
from airflow_streaming.checkpoints.repair.sink_repairs import SinkRepairs
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore, Store
from tests.fakes import FAKE_HOST
from tests.unit.checkpoints.filesink import NOON_MS, FileSink
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

QUERY = "counts"
ID = "5ae4d9f1-0000-4000-8000-00000000000{}"


class DeadStream:
    """
    A stream of one stateful query, whose driver died after the sink's write.

    :param committed: Newest committed batch; -1 for none. The sink has one more.
    """

    def __init__(self, folder: Path, *, committed: int = 5, interval: int = 4) -> None:
        self.folder = folder
        self.home = self.home_on(LocalStore(str(folder / "home")))
        self.checkpoint = folder / "checkpoints" / QUERY
        self.sink = FileSink(folder / "out put", interval=interval)
        self.deployment = make_deployment(
            checkpoint=str(self.checkpoint.parent), output=str(self.sink.root)
        )
        self.home.create_deployment(self.deployment, SCRIPT)
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        self.record_plan(1)
        for batch in range(committed + 2):
            self.plan(batch)
            self.sink.write(batch)
            if batch <= committed:
                self.commit(batch)
        self.batch = committed + 1

    def home_on(self, store: Store) -> StreamHome:
        return StreamHome(store, "orders")

    def record_plan(self, epoch: int, query: str = QUERY) -> None:
        plan = replace(plan_of(self.sink.root), query=query)
        path = Layout("orders").place(QueryPlan, epoch=epoch, query=query)
        self.home.store.create(path, plan.to_bytes("orders"))

    def add_stream(self, name: str, output: Path | None = None) -> None:
        """
        Add another stream to the home.

        :param output: Folder of its file sink; default: the same sink.
        """
        written = output or self.sink.root
        home = self.home.beside(name)
        place = str(self.folder / name)
        home.create_deployment(
            make_deployment(stream=name, checkpoint=place, output=str(written)), SCRIPT
        )
        home.create_epoch(make_epoch(1, stream=name, host=FAKE_HOST))
        path = Layout(name).place(QueryPlan, epoch=1, query=QUERY)
        home.store.create(path, plan_of(written).to_bytes(name))

    def plan(self, batch: int) -> None:
        about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": NOON_MS, "conf": {}})
        self.write(f"offsets/{batch}", f'v1\n{about}\n{{"logOffset":{batch}}}')
        for partition in (0, 1):
            name = f"{batch + 1}_{ID.format(partition)}.changelog"
            self.write(f"state/0/{partition}/{name}", "state")

    def commit(self, batch: int, ids: bool = True) -> None:
        about: dict[str, Any] = {"nextBatchWatermarkMs": 0}
        if ids:
            about["stateUniqueIds"] = {"0": [[ID.format(0)], [ID.format(1)]]}
        self.write(f"commits/{batch}", f"v{2 if ids else 1}\n{json.dumps(about)}")

    def write(self, path: str, text: str) -> None:
        place = self.checkpoint / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def launch(self, epoch: int = 2, home: StreamHome | None = None) -> list[Repaired]:
        """Do what a launch does before the driver starts."""
        repairs = SinkRepairs(home or self.home, by="a test", now=lambda: NOON)
        return repairs.before_launch(epoch, self.deployment)

    def run(self, batch: int, by: str = "again") -> None:
        """Do what Spark does at the start: the batch is skipped where the sink has it."""
        assert batch not in self.batches_in_sink(), "Spark would skip the batch and fail."
        self.sink.write(batch, by=by)
        self.commit(batch)

    def batches_in_sink(self) -> set[int]:
        names = (path.name for path in self.sink.log.iterdir() if path.name[0] != ".")
        return {int(name.removesuffix(".compact")) for name in names}

    def aside(self) -> Mapping[str, str]:
        return {k: v for k, v in self.sink.tree().items() if k.startswith("_rolled_back/")}


def plan_of(output: Path) -> QueryPlan:
    return QueryPlan(
        query=QUERY,
        spark="4.3.0",
        output_mode="append",
        sink=SinkPlan(sink="file", format="json", target=str(output)),
        operators=(OperatorPlan(sort=OperatorKind.DEDUPLICATE),),
    )
