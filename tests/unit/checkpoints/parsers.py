"""Every parser of a checkpoint's files, and the golden files that it is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.read.file_logs import parse_sink_log, parse_source_log, source_of
from airflow_streaming.checkpoints.read.formats import spark_at_least
from airflow_streaming.checkpoints.read.operators import parse_operator_metadata, with_schema_paths
from airflow_streaming.checkpoints.read.schemas import parse_state_schema
from airflow_streaming.model.spark.logs import parse_commit_log, parse_offset_log
from tests.golden import golden_files

STATE_VARIABLES = Path(__file__).parent / "state_variables"
"""Files that Spark 4.3.0 wrote for a transformWithStateInPandas; no golden query has one."""


def plan(data: bytes) -> Any:
    """Parse a plan and all that is told from it."""
    found = parse_offset_log(data)
    spark = spark_at_least(found.conf, offset_log=found.log_version)
    return found, spark, [source_of(offset) for _, offset in found.offsets]


def operator(data: bytes) -> Any:
    """Parse an operator's metadata and move it."""
    return parse_operator_metadata(data), with_schema_paths(data, lambda path: path + "/moved")


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "offset log": plan,
    "commit log": parse_commit_log,
    "source log": parse_source_log,
    "sink log": parse_sink_log,
    "operator": operator,
    "state schema": parse_state_schema,
}


@cache
def golden_of(sort: str) -> dict[str, bytes]:
    """Return the golden files that a parser is for, by path."""
    return {path: data for path, data in golden_files().items() if _sort_of(path) == sort}


def samples(sort: str) -> list[bytes]:
    """Return one golden file of each version and shape, and those that no golden query has."""
    of_query = {tuple(path.split("/")[:3]): data for path, data in golden_of(sort).items()}
    name = {"operator": "operator_metadata", "state schema": "state_schema"}.get(sort)
    more = [path.read_bytes() for path in STATE_VARIABLES.glob(f"{name}-*")]
    return sorted(set(of_query.values())) + more


def _sort_of(path: str) -> str | None:
    parts = path.split("/")
    if parts[0] != "generated":
        return None
    if parts[-2:] == ["_metadata", "metadata"]:
        return "operator"
    if parts[-2:] == ["_metadata", "schema"]:
        return "state schema"
    folders = {"offsets": "offset log", "commits": "commit log", "_spark_metadata": "sink log"}
    if parts[-3:-2] == ["sources"]:
        return "source log"
    return folders.get(parts[-2])
