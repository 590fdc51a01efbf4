"""
Compare the output of the stream with what one batch computation makes of the same files.

Run by the Spark runtime's own Python, because pyspark is not installed beside Airflow. The batch
side takes the application's own schema and aggregation and keeps the days that the watermark had
passed: those whose end is not after the newest event less the allowed lateness. Rows are compared
as a whole and counted, so that a lost row and a doubled row are two findings, never zero.

    python demo/compare.py --application dags/jobs/retail_revenue.py --input ... --output ...
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import Counter
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


def expected_rows(application: ModuleType, spark: Any, files: str) -> Counter[tuple[str, ...]]:
    """Return what a batch run writes for all days that are closed."""
    lines = (
        spark.read.schema(application.ORDER_LINE).options(**application.CSV_OPTIONS).csv(files)
    ).cache()
    lateness = f"INTERVAL {application.LATENESS}"
    watermark = lines.selectExpr(f"max(InvoiceDate) - {lateness} AS mark")
    closed = application.revenue(lines).crossJoin(watermark).where("day + INTERVAL 1 DAY <= mark")
    return rows_of(closed.drop("mark"))


def rows_of(frame: Any) -> Counter[tuple[str, ...]]:
    """Return how often each row is there."""
    return Counter(tuple(map(str, row)) for row in frame.collect())


def compare(expected: Counter[tuple[str, ...]], found: Counter[tuple[str, ...]]) -> dict[str, Any]:
    """Count the rows that are missing, doubled, or not expected at all."""
    doubled = {row: found[row] - expected[row] for row in found if row in expected}
    strange = {row: count for row, count in found.items() if row not in expected}
    return {
        "expected": expected.total(),
        "found": found.total(),
        "lost": (expected - found).total(),
        "doubled": sum(count for count in doubled.values() if count > 0),
        "wrong": sum(strange.values()),
        "examples": [" | ".join(row) for row in [*(expected - found), *strange][:5]],
    }


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
    found = rows_of(spark.read.parquet(arguments.output))
    spark.stop()
    result = compare(expected, found)
    print(json.dumps(result))
    return 0 if found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
