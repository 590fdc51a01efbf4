"""
Tests of streaming scripts: run their queries over given files, and compare with a batch run.

Needs neither Airflow nor pyspark where the tests run; Spark runs in a process of its own, with the
Python that is named. See docs/testing.md.
"""

from airflow_streaming.testing.rows import Difference, compare_rows
from airflow_streaming.testing.tester import (
    LiveScript,
    QueryRun,
    ScriptRun,
    StreamTester,
    StreamTestError,
    undo_last_commit,
)

__all__ = [
    "Difference",
    "LiveScript",
    "QueryRun",
    "ScriptRun",
    "StreamTestError",
    "StreamTester",
    "compare_rows",
    "undo_last_commit",
]
