"""Real migrations from the command line: the gate's file, Spark, the proof; and a kill in the middle."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.cli.main import main
from airflow_streaming.gates.change_gate import look_at
from airflow_streaming.model.jobs.migration import BEFORE
from airflow_streaming.storage.folders import open_folders
from tests.patience import PATIENCE
from tests.system.edits.plans import CHECKPOINTS, Plans

pytestmark = pytest.mark.nightly("A Spark for each migration; the parts have unit tests.")
BASES = ("totals", "totals_rocksdb")


class World:
    """A recorded checkpoint, the plans of its script and of an edit, and the file of their migration."""

    def __init__(self, folder: Path, base: str) -> None:
        with tarfile.open(CHECKPOINTS) as archive:
            members = [one for one in archive if one.name.startswith(f"{base}/")]
            archive.extractall(folder, members, filter="data")
        self.source, self.target = folder / base / "checkpoint", folder / "migrated"
        self.file = folder / "migration.toml"
        plans = Plans.of("4.3.0")
        for name, edit in (("old", base), ("new", f"{base}.total_added")):
            (folder / f"{name}.json").write_bytes(plans[edit].to_bytes())
        main(
            [
                *("gate", "change", "--checkpoint", str(self.source), "--query", "totals"),
                *("--plan", str(folder / "new.json"), "--old-plan", str(folder / "old.json")),
                *("--write-migration", str(self.file)),
            ]
        )

    def command(self, spark: Path) -> list[str]:
        return [
            *("checkpoint", "migrate", str(self.source), str(self.target)),
            *("--plan", str(self.file), "--runtime", str(spark), "--json"),
        ]

    def digests(self) -> dict[Path, str]:
        files = (path for path in sorted(self.source.rglob("*")) if path.is_file())
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("base", BASES)
def test_a_checkpoint_is_migrated_and_proved(
    base: str, tmp_path: Path, spark_4_3: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, base)
    before = world.digests()
    capsys.readouterr()

    assert main(world.command(spark_4_3)) == 0

    (proof,) = json.loads(capsys.readouterr().out)["proofs"]
    assert proof["before"] == proof["after"] > 0
    looked = look_at(str(world.target))
    assert looked.checkpoint is not None
    assert looked.checkpoint.is_sound, looked.checkpoint.problems
    assert [column.name for column in looked.schemas[0].value] == ["sum", "count", "min"]
    assert world.digests() == before


def test_a_kill_leaves_the_source_and_the_command_can_be_repeated(
    tmp_path: Path, spark_4_3: Path
) -> None:
    world = World(tmp_path, "totals")
    before = world.digests()
    command = [sys.executable, "-m", "airflow_streaming.cli.main", *world.command(spark_4_3)]

    process = subprocess.Popen(command, start_new_session=True)
    until = time.monotonic() + PATIENCE
    while not (world.target / BEFORE / "metadata").exists() and time.monotonic() < until:
        assert process.poll() is None, "It ended before it could be killed."
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)

    assert world.digests() == before
    assert main(world.command(spark_4_3)) == 0
    assert Reader(open_folders(str(world.target))).inspect().is_sound
    assert not (world.target / BEFORE).exists()
