"""
Which Spark can have written a checkpoint, and which can read it.

This is a lower bound and never a guess: a newer Spark writes the older forms as well. The facts are
in the table of releases, ``model.spark.releases``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.model.spark.releases import FORMATS, PINS, FormatKind

PINNED_SINCE: Final[Mapping[str, str]] = {key: release.name for key, (_, release) in PINS.items()}
"""Settings that Spark pins in the offset log, and the first release that does; in their order."""


def too_new(report: Checkpoint, runtime: str | None) -> list[str]:
    """
    Return the formats a runtime cannot read, each with the first Spark that can.

    Empty if unknown. A newer Spark's checkpoint in formats that the older one knows passes: going
    back with it was measured to work.

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
    schemas = [3 if one.state else one.schema_version or 1 for one in report.operators]
    written = (
        (FormatKind.OFFSET_LOG, report.offset_log_version or 1),
        (FormatKind.COMMIT_LOG, max(report.commit_log_version or 1, report.state_format or 1)),
        (FormatKind.STATE_SCHEMA, max(schemas, default=1)),
    )
    for key in written:
        if key in FORMATS and (words := FORMATS[key][0].words):
            yield words, FORMATS[key][1].name
    for pin, release in PINS.values():
        value = report.conf.get(pin.key, pin.old_value)
        if pin.blocks_older and value is not None and value.lower() != pin.old_value:
            yield pin.blocks_older, release.name


def _order(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def spark_at_least(
    conf: Mapping[str, str] | None,
    *,
    offset_log: int | None = None,
    commit_log: int | None = None,
    operator_metadata: int | None = None,
    state_schema: int | None = None,
) -> str | None:
    """
    Return the oldest Spark that can have written a checkpoint, e.g. ``4.0``.

    :param conf: Configuration pinned in the newest plan; ``None`` without a plan.
    :param offset_log: Version of the newest offset log; ``commit_log`` of the newest commit log.
    :param operator_metadata: The highest version of an operator's metadata.
    :param state_schema: The highest version of a state schema. :return: ``None`` if unknown.
    """
    versions = (
        (FormatKind.OFFSET_LOG, offset_log),
        (FormatKind.COMMIT_LOG, commit_log),
        (FormatKind.OPERATOR_METADATA, operator_metadata),
        (FormatKind.STATE_SCHEMA, state_schema),
    )
    written = [(kind, number) for kind, number in versions if number is not None]
    bounds = [FORMATS[key][1].name for key in written if key in FORMATS]
    bounds += _of_settings(conf or {})
    return max(bounds, key=_release_order, default=None)


def _of_settings(conf: Mapping[str, str]) -> Iterator[str]:
    return (PINNED_SINCE[key] for key in conf if key in PINNED_SINCE)


def _release_order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
