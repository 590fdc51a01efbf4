"""A real rehearsal: golden checkpoints of two Sparks, and a new version that is good and bad."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal import Rehearsed, RehearsedQuery
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.jobs.rehearsal import Bounds, Ending
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.rehearsal import rehearsal_report
from airflow_streaming.spark_jobs.rehearsal import PREFIX, rehearse
from airflow_streaming.spark_jobs.runner import Program
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint, golden_sources
from tests.patience import PATIENCE, until

SCRIPT = Path(__file__).with_name("rehearsed_job.py")
OLD, NEW = "3.5.9", "4.3.0"
SHAPES = {"agg": OLD, "stateless": NEW, "complete": NEW, "join": OLD, "session": NEW}
MORE = {"agg": "agg", "stateless": "sl", "complete": "co"}
"""Queries whose sources have got new files since, and the short names of those."""


class World:
    """A production of our own: golden checkpoints, their sinks and their input, in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for spark in (OLD, NEW):
            for folder in golden_sources().glob(f"zz_src_{spark}_*"):
                shutil.copytree(folder, f"{self.input(spark)}{folder.name.rpartition('_')[2]}")
        self.checkpoints = {shape: self._put(shape, spark) for shape, spark in SHAPES.items()}

    def input(self, spark: str) -> str:
        return f"{self.root}/input_{spark}_"

    def add_input(self, query: str, name: str, v: int) -> None:
        rows = [{"k": "k0", "v": v, "ts": "2026-01-01T00:09:00.000Z"}] * 3
        file = Path(f"{self.input(SHAPES[query])}{MORE[query]}") / name
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def program(self) -> Program:
        arguments = (self.input(OLD), self.input(NEW), str(self.root / "output"))
        return Program(application=str(SCRIPT), source=SCRIPT.read_bytes(), arguments=arguments)

    def digests(self) -> dict[Path, str]:
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def _put(self, shape: str, spark: str) -> str:
        made = golden_checkpoint(spark, shape).copy_to(self.root / "production" / shape)
        for log in made.glob("sources/*/[0-9]*"):
            recorded, ours = f"/tmp/zz_src_{spark}_", self.input(spark)
            log.write_text(log.read_text().replace(recorded, ours))
            (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
        return str(made)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def query_of(found: Rehearsed, name: str) -> RehearsedQuery:
    return next(query for query in found.queries if query.query == name)


def test_what_fits_goes_on_from_its_state_and_what_does_not_is_told_apart(
    world: World, scratch: Path, spark_4_3: Path
) -> None:
    world.add_input("agg", "006.json", 1)
    world.add_input("stateless", "012.json", 1)
    world.add_input("complete", "004.json", 10_000)
    before = world.digests()

    found = rehearse(
        OfCheckpoints(checkpoints=world.checkpoints),
        world.program(),
        resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)}),
        bounds=Bounds(batches=2, seconds=PATIENCE),
        scratch=scratch,
    )

    assert found.spark == NEW, markdown(rehearsal_report(found))
    assert found.decision is GateDecision.NOT_ALLOWED
    told = {finding.query: finding for finding in found.findings}
    assert {query: finding.rule for query, finding in told.items()} == dict.fromkeys(
        ("complete", "join", "session"), "rehearsal.query_failed"
    )
    assert "v is too large" in told["complete"].message
    assert "after 1 good batch" in told["complete"].message
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in told["session"].message
    agg, stateless = query_of(found, "agg"), query_of(found, "stateless")
    assert (agg.replayed, agg.batches, agg.has_state) == (True, 2, True)
    assert agg.observed == {"seen.rows": 3.0}
    assert stateless.ending in (Ending.ENOUGH_BATCHES, Ending.CAUGHT_UP)
    assert (stateless.batches, stateless.input_rows, stateless.output_rows) == (2, 23, 23)
    assert [column.name for column in stateless.columns] == ["k", "v2", "api_token"]
    assert len(stateless.sample) == 20
    assert {row["api_token"] for row in stateless.sample} == {"(redacted)"}
    assert any("foreachBatch" in note for note in query_of(found, "complete").notes)
    assert "s3cret" not in found.to_bytes().decode()
    assert world.digests() == before
    assert list(scratch.iterdir()) == []


CALLER = """
import sys
from collections.abc import Callable
from pathlib import Path
from airflow_streaming.spark_jobs.runner import read_program
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.spark_jobs.rehearsal import OfCheckpoints, rehearse

checkpoint, script, runtime, scratch, *arguments = sys.argv[1:]
rehearse(
    OfCheckpoints(checkpoints={"": checkpoint}),
    read_program(script, arguments),
    resolve_runtime("spark-4.3", {"spark-4.3": runtime}),
    scratch=Path(scratch),
)
"""
WAITING = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(600)\n"


def test_a_killed_caller_leaves_neither_process_nor_folder(
    world: World, scratch: Path, tmp_path: Path, spark_4_3: Path
) -> None:
    script, running = tmp_path / "waiting.py", tmp_path / "running"
    script.write_text(WAITING)
    given = (world.checkpoints["stateless"], script, spark_4_3, scratch, running)
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, *map(str, given)], cwd=REPOSITORY, env=dict(os.environ)
    )
    try:
        until(
            running.exists,
            "The rehearsal's start",
            failing=lambda: caller.poll() is not None and "its caller has ended.",
        )
        family = psutil.Process(caller.pid).children(recursive=True)
        assert len(list(scratch.glob(f"{PREFIX}*"))) == 1
    finally:
        caller.send_signal(signal.SIGKILL)
        caller.wait()

    until(lambda: not any(scratch.iterdir()), "An empty folder", seen=lambda: [*scratch.iterdir()])
    until(lambda: all(is_gone(process) for process in family), "The end of the rehearsal")
    assert len(family) >= 2


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
