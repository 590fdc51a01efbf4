from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaits
from pathlib import Path

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.start_guard import Started, StartGuard, StartRequest
from airflow_streaming.exceptions import (
    CheckpointMismatch,
    DriverRefusal,
    HomeUnavailable,
    StopRequested,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE
from tests.unit.driver.fakes import LAYOUT, AbsentStore, CheckpointFolder, FakeQuery


class Script:
    """A script that starts queries; Spark is played by the test."""

    def __init__(self, folder: Path) -> None:
        self.ending, self.queries = ShutdownState(), Queries()
        self.home = folder / "home"
        self.store = AbsentStore(str(self.home))
        self.store.present = True
        self.claims = Claims(self.store, LAYOUT, deployment=1, epoch=1)
        self.folder = folder / "checkpoints"
        self.guard = StartGuard(
            str(self.folder), queries=self.queries, claims=self.claims, ending=self.ending
        )
        self.launched: list[tuple[str, str]] = []
        self.absorbed: list[str] = []
        self.absorbs = True
        self.fakes: list[FakeQuery] = []
        self.launching, self.may_launch = threading.Event(), threading.Event()
        self.may_launch.set()

    def start(self, name: str | None = "q", location: str | None = None, *queues: str) -> None:
        self.guard.start(
            StartRequest(name=name, location=location, gated=False, queues=queues),
            open_checkpoint=lambda uri: CheckpointFolder(uri.rstrip("/")),
            launch=self._launch,
            run_planned=self._run_planned,
        )

    def _run_planned(self, name: str, location: str) -> None:
        assert self.launched == [], "before the query is started"
        if not self.absorbs:
            raise ValueError("a bad row")
        self.absorbed.append(name)
        (self.folder / "q" / "commits" / "8").touch()

    def claim(self, **more: int) -> None:
        """Claim the checkpoint of q, which has planned batch 8 and committed 7."""
        checkpoint = self.folder / "q"
        for path in ("offsets/7", "offsets/8", "commits/7"):
            (checkpoint / path).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / path).touch()
        (checkpoint / "metadata").write_text(json.dumps({"id": "id-q"}))
        location = f"file:{checkpoint}"
        claim = QueryClaim(query="q", query_id="id-q", checkpoint=location, epoch=1, **more)
        StreamHome(LocalStore(str(self.home)), "orders").add_claim(1, claim)

    def _launch(self, name: str, location: str) -> Started:
        self.launching.set()
        assert self.may_launch.wait(PATIENCE)
        self.launched.append((name, location))
        self.fakes.append(FakeQuery())
        return Started(query=self.fakes[-1], id=f"id-{name}", run_id=f"run-{len(self.fakes)}")


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_a_query_gets_a_folder_of_its_name_under_the_deployments_checkpoint(script: Script) -> None:
    script.start("q")
    assert script.launched == [("q", f"file://{script.folder}/q")]
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.origin is CheckpointOrigin.DEPLOYMENT
    assert (tracked.id, tracked.run_id) == ("id-q", "run-1")


def test_a_location_that_the_script_chose_is_kept(script: Script) -> None:
    script.start("q", "file:///own/place")
    assert script.launched == [("q", "file:///own/place")]
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.origin is CheckpointOrigin.SCRIPT


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param(None, r'has no name.*Add \.queryName\("\.\.\."\)', id="none"),
        pytest.param("", "has no name", id="empty"),
        pytest.param("../up", "cannot be used as a folder name", id="a path"),
        pytest.param("my query", "cannot be used as a folder name", id="a space"),
    ],
)
def test_a_name_that_is_no_folder_is_refused_for_good(
    script: Script, name: str | None, sentence: str
) -> None:
    with pytest.raises(DriverRefusal, match=sentence) as refusal:
        script.start(name)
    assert script.ending.refusal is refusal.value
    assert script.launched == []


def test_two_active_queries_never_share_a_checkpoint(script: Script) -> None:
    script.start("a")
    with pytest.raises(DriverRefusal, match="which the active query 'a' uses already"):
        script.start("b", f"file://{script.folder}/a/")
    assert len(script.launched) == 1


def test_a_query_may_be_started_again_once_it_has_ended(script: Script) -> None:
    script.start("q")
    script.fakes[0].commit(0, 1, 2)
    script.fakes[0].active = False
    script.start("q")
    script.fakes[1].commit(3)
    script.queries.poll()

    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.run_id == "run-2"
    assert tracked.batches == 4


def test_nothing_starts_once_the_end_has_begun(script: Script) -> None:
    script.ending.ask_stop(Stop(by="ann", reason="Enough.", grace=60))
    with pytest.raises(StopRequested, match="Query 'q' was not started"):
        script.start("q")
    assert script.ending.refusal is None


def test_a_foreign_checkpoint_is_refused(script: Script) -> None:
    script.claims.keep("q", "id-q", f"file:{script.folder}/q")
    script.claims.write()
    (script.folder / "q").mkdir(parents=True)
    (script.folder / "q" / "metadata").write_text(json.dumps({"id": "other"}))
    with pytest.raises(CheckpointMismatch):
        script.start("q")
    assert script.launched == []


def test_the_claim_says_by_how_much_batch_ids_are_shifted(script: Script) -> None:
    script.claim(batch_shift=40)
    script.start("q")
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.as_status().batch_shift == script.queries.batch_shift("q") == 40
    assert script.absorbed == []


def test_a_batch_that_is_in_the_sink_already_is_absorbed_by_whichever_driver_comes(
    script: Script,
) -> None:
    script.claim(absorb=8)
    script.start("q")
    assert (script.absorbed, len(script.launched)) == (["q"], 1)


def test_a_batch_to_absorb_is_not_forgotten_because_the_home_is_away(script: Script) -> None:
    script.claim(absorb=8)
    script.store.present = False
    with pytest.raises(HomeUnavailable):
        script.start("q")
    assert (script.absorbed, script.launched) == ([], [])
    script.store.present = True
    script.start("q")
    assert (script.absorbed, len(script.launched)) == (["q"], 1)


def test_whoever_stops_the_queries_waits_for_one_that_is_just_starting(script: Script) -> None:
    script.may_launch.clear()
    with ThreadPoolExecutor() as threads:
        starting = threads.submit(script.start, "q")
        assert script.launching.wait(PATIENCE)
        script.ending.ask_stop(Stop(by="ann", reason="Enough.", grace=60))
        asked = threads.submit(script.guard.started)
        with pytest.raises(StillWaits):
            asked.result(0.05)
        script.may_launch.set()
        starting.result(10)
        assert [query.name for query in asked.result(10)] == ["q"]


def test_a_query_whose_batch_cannot_be_absorbed_is_not_started_and_ends_the_driver(
    script: Script,
) -> None:
    script.claim(absorb=8)
    script.absorbs = False
    with pytest.raises(ValueError, match="a bad row"):
        script.start("q")
    failed = script.queries.first_failed
    assert failed is not None
    assert failed.error is not None
    assert (failed.name, failed.error.message) == ("q", "ValueError: a bad row")
    assert script.ending.begun.is_set()
    assert script.launched == []


def test_a_checkpoint_that_has_not_planned_the_batch_to_absorb_is_refused(script: Script) -> None:
    script.claim(absorb=9)
    with pytest.raises(DriverRefusal, match="Batch 9 of query 'q' cannot be absorbed"):
        script.start("q")
    assert script.ending.refusal is not None
    assert script.launched == []


def test_a_source_without_positions_ends_the_driver_with_a_sentence(tmp_path: Path) -> None:
    script = Script(tmp_path)
    with pytest.raises(DriverRefusal, match=r"'q' reads from kafka-share.*format\('kafka'\)"):
        script.start("q", None, "kafka-share")

    assert script.launched == []
    assert script.ending.begun.is_set()
