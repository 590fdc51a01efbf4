"""
Tries every edit on a real Spark and writes down what came of it.

``python -m tests.system.edits --runtime .runtimes/spark-4.3 [--random] [--only totals pairs]
[--again]``: what was found before is kept, so that it can be stopped at any time. The runtime needs
pandas, pyarrow and protobuf beside pyspark.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.system.edits.bases import BASES
from tests.system.edits.catalogue import EDITS
from tests.system.edits.input import arrivals
from tests.system.edits.random_edits import random_edits
from tests.system.edits.recorded import Truths
from tests.system.edits.trial import Spark, Trials


def main() -> None:
    """Try the edits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--random", action="store_true", help="those that are made at random")
    parser.add_argument("--only", nargs="*", default=[""], help="edits whose name begins so")
    parser.add_argument("--again", action="store_true", help="try those too that were tried")
    parser.add_argument("--folder", type=Path, help="where the runs are; quickest in memory")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other edit after it")
    args = parser.parse_args()
    begun = time.monotonic()
    edits = random_edits() if args.random else sorted(EDITS, key=lambda one: BASES.index(one.base))
    with tempfile.TemporaryDirectory(prefix="edits-") as scratch, Spark(args.runtime) as spark:
        truths = Truths.of(spark.version)
        trials = Trials(spark, arrivals(), args.folder or Path(scratch))
        for edit in edits:
            if not edit.name.startswith(tuple(args.only)) or edit.base.oldest > spark.version:
                continue
            if edit.name in truths and not args.again:
                continue
            if time.monotonic() - begun > args.seconds:
                break
            started = time.monotonic()
            tried = trials.tried(edit)
            if args.random:
                tried = replace(tried, made=f"{edit.theme}: {edit.why}")
            truths.note(edit.name, tried)
            took = time.monotonic() - started
            print(
                f"{edit.name}: {tried.truth} {tried.condition} {tried.rows} {took:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
