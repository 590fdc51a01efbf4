"""Two versions of a script over the same batches of real checkpoints, on a real Spark."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.copies import OfCheckpoints, checkpoints_at
from airflow_streaming.gates.rehearsal_compare import Compared
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.jobs.rehearsal import Bounds
from airflow_streaming.spark_jobs.rehearsal_compare import Version, compare_versions
from airflow_streaming.spark_jobs.runner import Program
from tests.patience import PATIENCE
from tests.quick_java import spark_environment

SCRIPT = Path(__file__).with_name("compared_job.py")
PAST, HELD_BACK = 2, 2


class World:
    """Checkpoints of the job after its first files, and files that came since."""

    def __init__(self, root: Path, runtime: Runtime) -> None:
        self.input, self.checkpoints = root / "input", root / "checkpoints"
        self.runtime = runtime
        self.input.mkdir(parents=True)
        for number in range(PAST):
            self._arrive(number)
        command = [str(runtime.spark_submit), "--master", "local[2]", str(SCRIPT)]
        subprocess.run(
            [*command, str(self.input), str(self.checkpoints)],
            check=True,
            timeout=PATIENCE,
            capture_output=True,
            env=spark_environment(runtime),
        )
        for number in range(PAST, PAST + HELD_BACK):
            self._arrive(number)

    def _arrive(self, number: int) -> None:
        rows = [
            {"k": f"k{v % 2}", "v": v, "ts": f"2026-01-01T00:{number:02}:0{v % 4}.000Z"}
            for v in range(1, 9)
        ]
        file = self.input / f"{number:03}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def compared(self, source: str, scratch: Path, **given: int) -> Compared:
        found = checkpoints_at(str(self.checkpoints))
        assert isinstance(found, OfCheckpoints)
        versions = [
            Version(
                program=Program(
                    application=str(SCRIPT),
                    source=text.encode(),
                    arguments=(str(self.input), str(self.checkpoints)),
                ),
                runtime=self.runtime,
            )
            for text in (SCRIPT.read_text(), source)
        ]
        bounds = Bounds(batches=10, seconds=PATIENCE)
        return compare_versions(found, *versions, bounds=bounds, scratch=scratch, **given)

    def digests(self) -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for folder in (self.input, self.checkpoints)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark_4_3: Path) -> World:
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    return World(tmp_path_factory.mktemp("world"), runtime)


def answers(found: Compared) -> dict[str, Answer]:
    return {query.query: query.answer for query in found.queries}


@pytest.mark.nightly("Several rehearsals one after the other.")
def test_the_same_version_is_the_same_and_nothing_of_the_stream_is_touched(
    world: World, tmp_path: Path
) -> None:
    before = world.digests()

    found = world.compared(SCRIPT.read_text() + "\n# the same\n", tmp_path)

    assert answers(found) == dict.fromkeys(("plain", "sums", "windows"), Answer.SAME), found
    for query in found.queries:
        assert query.from_scratch, query
        # The newest batch that the old version had run is run again.
        assert len(query.batches) > HELD_BACK, query
    assert world.digests() == before
    assert [*tmp_path.iterdir()] == []


@pytest.mark.nightly("Several rehearsals one after the other.")
def test_another_version_is_judged_by_what_it_makes_of_the_state(
    world: World, tmp_path: Path
) -> None:
    changed = SCRIPT.read_text()
    changed = changed.replace("json(folder)", 'json(folder).where("v > 3")')

    found = world.compared(changed, tmp_path)

    assert answers(found) == {
        "plain": Answer.NOT_REVISED,
        "sums": Answer.WRONG_FOR_GOOD,
        "windows": Answer.SETTLES,
    }, found


@pytest.mark.nightly("Several rehearsals one after the other.")
def test_without_a_run_from_scratch_state_that_differs_is_undecided(
    world: World, tmp_path: Path
) -> None:
    changed = (
        SCRIPT.read_text()
        .replace("v * 2", "v * 3")
        .replace('agg(F.sum("v"))', 'agg(F.max("v"))', 1)
    )

    found = world.compared(changed, tmp_path, most_past=0)

    assert answers(found) == {
        "plain": Answer.NOT_REVISED,
        "sums": Answer.UNDECIDED,
        "windows": Answer.SAME,
    }, found
    assert not any(query.from_scratch for query in found.queries)
