"""
Which kills does Spark recover from, and what does the repair before a launch make of the others?

``python -m tests.system.kills --results FILE [--only 4.3] [--sinks file,topic] [--format 2]`` runs every query of the
matrix on the runtimes of ``.runtimes`` and of AIRFLOW_STREAMING_TEST_RUNTIMES, one JVM a Spark, continues it
from every cut of a batch, adds a line of JSON for each case to the file, and prints the table of all
results in it. ``--master local-cluster[2,1,1024]`` writes state and rows in executors of their own.

The process ends with 1 when a case had another result than ``matrix.expected_result``, or a repair did not
lead to the exact output.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from demo.pipelines import ICEBERG_JAR
from tests.conftest import find_runtimes
from tests.system.kills.matrix import (
    ICEBERG_SPARK,
    VERSIONS,
    Kill,
    Result,
    expected_result,
    sinks_of,
    stores_of,
)
from tests.system.kills.repairing import repair
from tests.system.kills.results import Measured, add, read, table
from tests.system.kills.running import BATCHES, PROGRAM, Killing
from tests.system.live_session import Session


def main(arguments: list[str]) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", choices=VERSIONS, help="one release; default: all that there are")
    parser.add_argument("--sinks", default="", help="names, with commas between them; default: all")
    parser.add_argument("--format", choices=("1", "2"), help="of the state; default: both")
    parser.add_argument("--master", default="local[2]", help="e.g. local-cluster[2,1,1024]")
    parser.add_argument("--iceberg", type=Path, default=ICEBERG_JAR, help="jar of the connector")
    asked = parser.parse_args(arguments)
    runtimes = find_runtimes()
    for version in VERSIONS:
        runtime = runtimes.get(f"spark-{version}")
        if runtime is not None and asked.only in (None, version):
            measure(version, runtime, asked)
    found = read(asked.results)
    sys.stdout.write(table(found))
    return 1 if any(map(is_surprise, found)) else 0


def measure(version: str, runtime: Path, asked: argparse.Namespace) -> None:
    """Measure one release."""
    jar = asked.iceberg if version == ICEBERG_SPARK and asked.iceberg.exists() else None
    wanted = [name for name in asked.sinks.split(",") if name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = [str(PROGRAM), str(folder / "lake"), str(jar or ""), asked.master]
        with Session(runtime, folder, program=program) as session:
            killing = Killing(session, folder)
            for sink in sinks_of(version, with_iceberg=jar is not None):
                if wanted and sink not in wanted:
                    continue
                for store in stores_of(sink, version):
                    if asked.format and not store.endswith(f"format {asked.format}"):
                        continue
                    for batch in BATCHES:
                        add(
                            asked.results,
                            version,
                            killing.kill(sink, store, batch, tuple(Kill), repair),
                        )


def is_surprise(one: Measured) -> bool:
    """Tell whether a result is another one than is known of Spark, or a repair failed."""
    if one.repaired not in (None, Result.EXACT):
        return True
    return one.result is not expected_result(one.case, one.version)


def unexpected(found: Iterable[Measured]) -> list[Measured]:
    """Return the surprises."""
    return [one for one in found if is_surprise(one)]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
