"""Formats: which Spark can read what a checkpoint holds, and which cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint

_STATE_STORE: Final = "spark.sql.streaming.stateStore."


def too_new(report: Checkpoint, runtime: str | None) -> list[str]:
    """
    Return what a runtime cannot read, each with the first Spark that can; none when unknown.

    A checkpoint that a newer Spark wrote in formats that the older one knows is none of these:
    going back with it was measured to work.

    :param runtime: A Spark version, e.g. ``3.5.9``.
    """
    found = _formats(report)
    return [
        f"{what} (Spark {since} or newer)" for what, since in found if newer_than(since, runtime)
    ]


def newer_than(version: str | None, runtime: str | None) -> bool:
    """Tell whether a release is newer than a runtime; unknown ones are not."""
    if version is None or runtime is None:
        return False
    return _order(version) > _order(runtime)


def _formats(report: Checkpoint) -> Iterator[tuple[str, str]]:
    if (report.offset_log_version or 1) >= 2:
        yield "an offset log of version 2, which names sources", "4.2"
    if (report.commit_log_version or 1) >= 3:
        yield "a commit log of version 3", "4.2"
    elif (report.commit_log_version or 1) == 2 or report.state_format == 2:
        yield "state checkpoint format 2", "4.0"
    if any(operator.state or operator.schema_version == 3 for operator in report.operators):
        yield "an operator with state variables (transformWithState)", "4.0"
    if report.conf.get(_STATE_STORE + "encodingFormat", "unsaferow") != "unsaferow":
        yield "state that is not encoded as unsafe rows", "4.0"
    if report.conf.get(_STATE_STORE + "rowChecksum.enabled", "false").lower() == "true":
        yield "state rows with checksums", "4.2"


def _order(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
