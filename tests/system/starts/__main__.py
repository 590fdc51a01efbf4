"""
Starts what Spark may refuse on a real Spark and writes down what came of it.

``python -m tests.system.starts --runtime .runtimes/spark-4.3 [--jars FOLDER] [--only kafka]``: with a folder of the jars of
spark-sql-kafka the cases of Kafka run too, against a broker of this host.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.integration.servers.broker import create_topic, kafka_broker
from tests.quick_java import spark_environment
from tests.system.edits.trial import REPOSITORY
from tests.system.starts.cases import starts
from tests.system.starts.recorded import started, write


def main() -> None:
    """Start all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--jars", type=Path, help="folder with the jars of spark-sql-kafka")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name begins so")
    parser.add_argument("--missing", nargs="?", const="4.3.0", help="cases not tried on that Spark")
    args = parser.parse_args()
    only = list(args.only)
    if args.missing:
        known = {one.name for one in started() if one.spark == args.missing}
        only = [case.name for case in starts() if case.name not in known]
    jars = ",".join(map(str, sorted(args.jars.glob("*.jar")))) if args.jars else ""
    with (
        tempfile.TemporaryDirectory(prefix="starts-") as scratch,
        _broker(Path(scratch), jars) as at,
    ):
        told = _run(args.runtime.absolute(), [at, jars, scratch, *only])
        version = str(next(told)["ready"])
        found = {}
        for one in told:
            found[str(one.pop("name"))] = one
            print(one.get("when") or "runs", one.get("says"), flush=True)
    write(version, found)


@contextlib.contextmanager
def _broker(folder: Path, jars: str) -> Iterator[str]:
    if not jars:
        yield ""
        return
    with kafka_broker(folder / "broker") as address:
        create_topic(address, "in", 2)
        create_topic(address, "out", 2)
        yield address


def _run(runtime: Path, arguments: list[str]) -> Iterator[dict[str, object]]:
    command = [str(runtime / "bin/python"), "-m", "tests.system.starts.spark_side", *arguments]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, env=spark_environment(runtime)
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("@"):
                yield json.loads(line[1:])


if __name__ == "__main__":
    main()
