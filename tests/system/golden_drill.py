"""
Can every golden checkpoint be drilled by the Spark that wrote it?

``python -m tests.system.golden_drill [--only 4.3.0] [--shapes agg,join]`` backs the twelve golden
checkpoints of each Spark version up as one stream, restores and drills them with a runtime of that
version from AIRFLOW_STREAMING_TEST_RUNTIMES, and prints a row for each. All twelve run in one JVM.

The process ends with 1 when a drill found a problem, when a checkpoint, sink or input was changed
by it, or when anything was left in the scratch.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import QueryBackup
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT, Drilled
from airflow_streaming.spark_jobs.drill import Copy, drill, drill_copies
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.storage.folders import open_folders
from tests.conftest import find_runtimes
from tests.golden import golden_checkpoints, golden_sources

SCRIPT: Final = Path(__file__).parent / "shapes" / "golden.py"
INPUT: Final = Path("/tmp")  # the logs of the golden file sources name it
TIMEOUT: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    The golden checkpoints of one Spark release.

    :param folder: The folder with a folder for each shape.
    """

    version: str
    folder: Path
    shapes: tuple[str, ...]

    @property
    def program(self) -> Program:
        """The script of these shapes."""
        prefix = f"{INPUT}/zz_src_{self.version}_"
        return Program(
            application=str(SCRIPT),
            source=SCRIPT.read_bytes(),
            arguments=(prefix, SCRATCH_OUTPUT, *self.shapes),
        )

    def digests(self) -> dict[str, str]:
        """Every file that a drill may not change."""
        roots = [self.folder / shape for shape in self.shapes]
        roots += sorted(INPUT.glob(f"zz_src_{self.version}_*"))
        files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def drill_plain(golden: Release, runtime: Runtime, scratch: Path) -> Drilled:
    """Drill plain copies, without a backup."""
    copies = []
    for shape in golden.shapes:
        origin = golden.folder / shape / "checkpoint"
        copy = Path(shutil.copytree(origin, scratch / "checkpoints" / shape))
        copies.append(Copy(_described(shape, origin), copy))
    work = scratch / "work"
    work.mkdir()
    return drill_copies(
        copies, runtime=runtime, program=golden.program, scratch=work, timeout=TIMEOUT
    )


def _described(shape: str, origin: Path) -> QueryBackup:
    batch = max(int(path.name) for path in (origin / "commits").iterdir() if path.name.isdigit())
    return QueryBackup(
        folder=shape, checkpoint=str(origin), query_id=None, batch=batch, planned=batch
    )


def drill_backup(golden: Release, runtime: Runtime, scratch: Path) -> Drilled:
    """Back up all shapes as one stream, and drill the backup."""
    store = open_backup_store(str(scratch / "store"), create=True)
    sources = [
        Source(folder=shape, folders=open_folders(str(golden.folder / shape / "checkpoint")))
        for shape in golden.shapes
    ]
    backup = take_backup(
        sources,
        store,
        stream="golden",
        origin=Origin.MANUAL,
        by="golden_drill",
        spark_version=golden.version,
        clock=lambda: datetime.now(UTC),
    )
    parent = scratch / "drill"
    parent.mkdir()
    found = drill(
        store, backup, runtime=runtime, program=golden.program, scratch=parent, timeout=TIMEOUT
    )
    left = [path.name for path in parent.iterdir()]
    assert not left, f"The drill left {left} behind."
    return found


def put_input_back(sources: Path) -> None:
    """Put the input of the golden queries where their logs say it is."""
    for folder in sources.iterdir():
        target = INPUT / folder.name
        if not target.exists():
            shutil.copytree(folder, target)


def main(arguments: Sequence[str]) -> int:
    """Drill everything and print the table."""
    parser = argparse.ArgumentParser(prog="golden_drill", description=__doc__)
    parser.add_argument("--only", help="a Spark version, e.g. 4.3.0")
    parser.add_argument("--shapes", help="comma-separated; all by default")
    parser.add_argument("--plain", action="store_true", help="copy instead of back up and restore")
    options = parser.parse_args(arguments)
    runtimes = {name: str(path) for name, path in find_runtimes().items()}
    bad = 0
    put_input_back(golden_sources())
    folders = sorted({golden.path.parent.parent for golden in golden_checkpoints()})
    with tempfile.TemporaryDirectory(prefix="golden-drill-") as temporary:
        for folder in folders:
            version = folder.name.removeprefix("spark-")
            name = f"spark-{'.'.join(version.split('.')[:2])}"
            if options.only not in {None, version} or name not in runtimes:
                continue
            chosen = options.shapes.split(",") if options.shapes else _shapes(folder)
            golden = Release(version=version, folder=folder, shapes=tuple(chosen))
            scratch = Path(temporary) / version
            scratch.mkdir()
            bad += _drill(golden, resolve_runtime(name, runtimes), scratch, plain=options.plain)
    return 1 if bad else 0


def _shapes(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/checkpoint"))


def _drill(golden: Release, runtime: Runtime, scratch: Path, *, plain: bool) -> int:
    before, begun = golden.digests(), time.monotonic()
    found = (drill_plain if plain else drill_backup)(golden, runtime, scratch)
    took = time.monotonic() - begun
    for shape in golden.shapes:
        state, batch = found.facts.get(f"{shape}.state"), found.facts.get(f"{shape}.batch")
        _say(f"{golden.version:6} {shape:20} | {batch or '-'} | {state or '-'}")
    untouched = golden.digests() == before
    _say(
        f"{golden.version}: {len(golden.shapes)} shapes with Spark {found.facts.get('spark')} in "
        f"{took:.0f} s, {len(found.problems)} problems, checkpoints, sinks and input "
        f"{'unchanged' if untouched else 'CHANGED'}."
    )
    for problem in found.problems:
        _say(f"  {problem}")
    return len(found.problems) + (not untouched)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
