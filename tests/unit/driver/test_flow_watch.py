"""The flows of a pipeline are queries of the driver; a lost checkpoint stops the next update."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.driver.pipeline.flow_watch import WAITING, FlowRun, FlowWatch, TrackedFlow
from airflow_streaming.exceptions import CheckpointMismatch
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import LAYOUT, CheckpointFolder, FakeQuery

SILVER = "spark_catalog.default.silver"
FOLDER = "_checkpoints/spark_catalog/default/silver/silver/0"


class JavaQuery:
    """A run of a flow, as Spark's table of active queries has it."""

    def __init__(
        self, name: str | None, folder: Path, *, run: str = "run-1", id: str = "id-1"
    ) -> None:
        self._values = {"name": name, "runId": run, "id": id, "resolvedCheckpointRoot": str(folder)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: self._values[name]


class Watched:
    def __init__(self, folder: Path) -> None:
        self.storage = folder / "storage"
        self.checkpoint = self.storage / FOLDER
        self.queries, self.ending = Queries(), ShutdownState()
        self.claims = Claims(LocalStore(str(folder / "home")), LAYOUT, deployment=1, epoch=1)
        self.watch = FlowWatch(
            str(self.storage),
            queries=self.queries,
            claims=self.claims,
            ending=self.ending,
            open_checkpoint=lambda place: CheckpointFolder(place.removeprefix("file:")),
        )

    def made(self, id: str = "id-1") -> None:
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": id}))

    def run(self, **fields: str) -> Any:
        return JavaQuery(SILVER, self.checkpoint, **fields)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_each_run_is_tracked_once_under_the_flows_name(watched: Watched) -> None:
    first, second = watched.run(), watched.run(run="run-2")
    watched.watch.look([first])
    tracked = watched.queries.named(SILVER)
    watched.watch.look([first])

    assert watched.queries.named(SILVER) is tracked
    assert tracked is not None
    assert (tracked.run_id, tracked.id) == ("run-1", "id-1")
    assert tracked.checkpoint == f"file:{watched.checkpoint}"
    assert tracked.origin is CheckpointOrigin.DEPLOYMENT

    watched.watch.look([second])
    newer = watched.queries.named(SILVER)
    assert newer is not None
    assert newer.run_id == "run-2"


def test_a_run_that_could_not_be_tracked_is_tried_again_and_holds_no_other_up(
    watched: Watched, tmp_path: Path
) -> None:
    class Unanswered(JavaQuery):
        fails = True

        def id(self) -> str:
            if self.fails:
                raise OSError("no answer")
            return "id-2"

    slow = Unanswered("spark_catalog.default.gold", tmp_path / "gold", run="run-2")
    watched.watch.look([slow, watched.run()])
    assert watched.queries.named("spark_catalog.default.gold") is None
    assert watched.queries.named(SILVER) is not None

    slow.fails = False
    watched.watch.look([slow, watched.run()])
    assert watched.queries.named("spark_catalog.default.gold") is not None


def test_runs_that_have_ended_are_not_remembered(watched: Watched) -> None:
    for number in range(3):
        watched.watch.look([watched.run(run=f"run-{number}")])

    assert watched.watch._seen == {"run-2"}


def test_a_name_that_can_be_no_folder_ends_the_driver(watched: Watched) -> None:
    watched.watch.look([JavaQuery("spark_catalog.default.`a/b`", watched.checkpoint)])

    assert watched.ending.begun.is_set()
    assert "cannot be used as a folder name" in str(watched.ending.refusal)


def test_an_update_begins_on_new_flows_and_on_flows_as_they_were_left(watched: Watched) -> None:
    watched.watch.check()
    watched.made()
    watched.watch.look([watched.run()])
    watched.claims.write()

    watched.watch.check()


@pytest.mark.parametrize("left", [None, "id-2"])
def test_no_update_begins_on_a_checkpoint_that_was_lost_or_exchanged(
    watched: Watched, left: str | None
) -> None:
    watched.watch.look([watched.run()])
    watched.claims.write()
    if left is not None:
        watched.made(left)

    with pytest.raises(CheckpointMismatch, match=SILVER):
        watched.watch.check()


def test_claims_on_another_storage_do_not_count(watched: Watched, tmp_path: Path) -> None:
    watched.claims.keep("elsewhere", "id-9", f"file:{tmp_path}/storage-of-another/x/0")
    watched.claims.write()

    watched.watch.check()


def tracked_flow(query: FakeQuery, folder: Path) -> TrackedFlow:
    return TrackedFlow(
        query,
        name=SILVER,
        id="id-1",
        run_id="run-1",
        checkpoint=str(folder),
        files=LocalStore(str(folder)),
        origin=CheckpointOrigin.DEPLOYMENT,
        gated=False,
    )


def test_a_flow_between_two_updates_waits(tmp_path: Path) -> None:
    query = FakeQuery()
    query.commit(0)
    flow = tracked_flow(query, tmp_path)
    query.active = False
    flow.poll()

    status = flow.as_status()
    assert (status.active, status.processing, status.message) == (True, False, WAITING)
    assert status.batches == 1


def test_a_flow_that_has_failed_does_not_wait(tmp_path: Path) -> None:
    query = FakeQuery()
    flow = tracked_flow(query, tmp_path)
    query.fail(QueryError(message="no", exception_class="ValueError"))
    flow.poll()

    assert not flow.as_status().active
    assert flow.as_status().error == "no"


def test_a_run_answers_like_pysparks_wrapper(tmp_path: Path) -> None:
    java = JavaQuery(SILVER, tmp_path)

    assert FlowRun(java).streamingQuery() is java
    assert FlowRun(java).name() == SILVER
