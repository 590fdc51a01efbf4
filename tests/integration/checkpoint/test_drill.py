"""Real drills: golden checkpoints, the script they were written with, and a Spark for each drill."""

from __future__ import annotations

import hashlib
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import QueryBackup
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.spark_jobs.drill import Copy, drill, drill_copies
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.storage.folders import open_folders
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint, golden_sources
from tests.patience import PATIENCE

SPARK = "4.3.0"
SCRIPT = REPOSITORY / "tests" / "system" / "shapes" / "golden.py"
RECORDED = f"/tmp/zz_src_{SPARK}_"
"""Where the logs of the golden file sources say that their input is."""


class World:
    """A production of our own: golden checkpoints and their input, under one folder."""

    def __init__(self, root: Path, runtime: Runtime) -> None:
        self.root, self.runtime = root, runtime
        for folder in golden_sources().glob(f"zz_src_{SPARK}_*"):
            shutil.copytree(folder, f"{self.input}{folder.name.rpartition('_')[2]}")

    @property
    def input(self) -> str:
        return f"{self.root}/input_"

    def checkpoint(self, shape: str) -> Path:
        """Put a golden checkpoint into production; its input is that of this world."""
        made = golden_checkpoint(SPARK, shape).copy_to(self.root / "production" / shape)
        for log in made.glob("sources/*/[0-9]*"):
            log.write_text(log.read_text().replace(RECORDED, self.input))
            (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
        return made

    def program(self, *shapes: str) -> Program:
        arguments = (self.input, SCRATCH_OUTPUT, *shapes)
        return Program(application=str(SCRIPT), source=SCRIPT.read_bytes(), arguments=arguments)

    def digests(self) -> dict[Path, str]:
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def world(tmp_path: Path, spark_4_3: Path) -> World:
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    return World(tmp_path / "world", runtime)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def newest_batch(checkpoint: Path) -> int:
    return max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))


def test_a_good_backup_is_opened_and_runs_a_batch_without_touching_production(
    world: World, scratch: Path, tmp_path: Path
) -> None:
    shapes = ("agg_rocks_v2", "complete")
    store = open_backup_store(str(tmp_path / "store"), create=True)
    backup = take_backup(
        [Source(folder=s, folders=open_folders(str(world.checkpoint(s)))) for s in shapes],
        store,
        stream="golden",
        origin=Origin.MANUAL,
        by="a test",
        spark_version=SPARK,
        clock=lambda: datetime.now(UTC),
    )
    before = world.digests()

    found = verify(
        store,
        backup.id,
        Level.DRILL,
        by="a test",
        now=datetime.now(UTC),
        drill=partial(
            drill, runtime=world.runtime, program=world.program(*shapes), scratch=scratch
        ),
    )

    assert found.problems == ()
    assert found.facts["spark"] == SPARK
    assert found.facts["agg_rocks_v2.state"] == "operator 0 (stateStoreSave): 10 rows"
    assert found.facts["agg_rocks_v2.batch"] == "batch 5 ran again, 20 rows of input"
    assert found.facts["complete.batch"] == "batch 3 ran again, 20 rows of input"
    assert world.digests() == before
    assert list(scratch.iterdir()) == []


@pytest.mark.nightly("Three more drills.")
def test_what_cannot_be_used_is_told_from_what_only_lost_its_input(
    world: World, scratch: Path
) -> None:
    shapes = ("dedup", "session", "stateless")
    copies = []
    for shape in shapes:
        copy = world.checkpoint(shape)
        batch = newest_batch(copy)
        query = QueryBackup(
            folder=shape, checkpoint=f"/{shape}", query_id=None, batch=batch, planned=batch
        )
        copies.append(Copy(query, copy))
    torn = copies[0].folder / "state" / "0" / "1" / "3.delta"
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    (torn.parent / ".3.delta.crc").unlink(missing_ok=True)
    for file in Path(f"{world.input}sw").iterdir():
        file.unlink()
    program = world.program(*shapes, "complete")

    found = drill_copies(
        copies, runtime=world.runtime, program=program, scratch=scratch, timeout=PATIENCE
    )

    opened, ran = found.problems
    assert "Query 'dedup': Spark 4.3.0 cannot open the state of operator 0 (dedupe)" in opened
    assert "Query 'dedup': batch 4 does not run on this backup" in ran
    assert found.facts["session.batch"] == (
        "batch 3 ran again, 0 rows of input, although its plan reads some: the input may be gone"
    )
    assert found.facts["stateless.batch"] == "batch 11 ran again, 20 rows of input"
    assert found.facts["not_in_backup"] == "complete"
