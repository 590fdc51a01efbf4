"""
Compare the output of the stream with what one batch computation makes of the same files.

Run by the Spark runtime's own Python, because pyspark is not installed beside Airflow. The batch
side takes the application's own schema and aggregation and keeps the days that the watermark had
passed: those whose end is not after the newest event less the allowed lateness. Rows are compared
as a whole and counted, so that a lost row and a doubled row are two findings, never zero.

Both sides come sorted, one partition at a time: the memory that it takes does not grow with the output.

    python demo/compare.py --application dags/jobs/retail_revenue.py --input ... --output ...
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any


def load(path: Path) -> ModuleType:
    """Import the application from its file, without running it."""
    spec = importlib.util.spec_from_file_location("application", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Counts = Iterable[tuple[str, int]]
"""Rows as text with how often each is there, sorted by the text, each once."""


def expected_rows(application: ModuleType, spark: Any, files: str) -> Any:
    """Return what a batch run writes for all days that are closed."""
    lines = spark.read.schema(application.ORDER_LINE).options(**application.CSV_OPTIONS).csv(files)
    lateness = f"INTERVAL {application.LATENESS}"
    watermark = lines.selectExpr(f"max(InvoiceDate) - {lateness} AS mark")
    closed = application.revenue(lines).crossJoin(watermark).where("day + INTERVAL 1 DAY <= mark")
    return closed.drop("mark")


def counted(frame: Any) -> Iterator[tuple[str, int]]:
    """Yield each row as text with how often it is there, sorted."""
    fields = ", ".join(f"coalesce(string(`{name}`), 'None')" for name in frame.columns)
    rows = frame.selectExpr(f"concat_ws(' | ', {fields}) AS line").groupBy("line").count()
    yield from ((row[0], row[1]) for row in rows.orderBy("line").toLocalIterator())


def compare(expected: Counts, found: Counts) -> dict[str, Any]:
    """Count the rows that are missing, doubled, or not expected at all."""
    result = dict.fromkeys(("expected", "found", "lost", "doubled", "wrong"), 0)
    examples: list[str] = []
    tagged = heapq.merge(
        ((line, 0, count) for line, count in expected), ((line, 1, count) for line, count in found)
    )
    for line, group in groupby(tagged, key=itemgetter(0)):
        sides = {side: count for _, side, count in group}
        wanted, there = sides.get(0, 0), sides.get(1, 0)
        result["expected"] += wanted
        result["found"] += there
        result["lost"] += max(0, wanted - there)
        result["doubled" if wanted else "wrong"] += max(0, there - wanted)
        if (there < wanted or not wanted) and len(examples) < 5:
            examples.append(line)
    return {**result, "examples": examples}


def main() -> int:
    """Print the comparison as one line of JSON; 0 when the two are equal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--application", type=Path, required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    application = load(arguments.application)
    spark = application.new_session()
    expected = expected_rows(application, spark, arguments.input)
    result = compare(counted(expected), counted(spark.read.parquet(arguments.output)))
    spark.stop()
    print(json.dumps(result))
    return 1 if result["lost"] or result["doubled"] or result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
