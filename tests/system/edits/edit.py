"""
Edit: one change that somebody makes to the code of a running stream.

A base is a script with a checkpoint of its own; an edit replaces pieces of that script. ``says`` is
what a careful colleague would answer before it is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from airflow_streaming.gates.findings import GateDecision

JOBS: Final = Path(__file__).with_name("jobs")
CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus" / "edits"
DAG_JOBS: Final = Path(__file__).resolve().parents[3] / "dags" / "jobs"

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

ARGUMENTS: Final = (
    *("--input", "{run}/input"),
    *("--output", "{run}/output/main"),
    *("--checkpoint", "{run}/checkpoint"),
)
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointLocation": "{run}/checkpoint",
}
"""What every run has, unless its base or its script says otherwise."""

Changes: TypeAlias = tuple[tuple[str, str], ...]


class Truth(StrEnum):
    """What Spark made of an edit, beside the new code run from the first batch on."""

    SAME = "same"
    """All rows are those of the new code."""
    NOT_REVISED = "not_revised"
    """All rows after the change are; those written before it are the old code's."""
    SETTLES = "settles"
    """Rows right after the change mix both codes; once the open state is closed, they are right."""
    OTHER = "other"
    """Spark went on, and its rows are not those of the new code: wrong without a word."""
    FAILED = "failed"
    BROKEN = "broken"
    """The new code does not run from the first batch on either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """
    A script, and the checkpoint that it left.

    :param script: The file.
    :param changes: Replaced in the script before it first ran.
    :param conf: Spark configuration of old and new alike.
    :param arguments: Of the script; ``{run}`` is the folder of a run.
    :param oldest: The oldest Spark that can run it.
    """

    name: str
    script: Path
    changes: Changes = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ARGUMENTS
    oldest: str = "3.5"

    @property
    def source(self) -> str:
        """Return the script as it first ran."""
        return replaced(self.script.read_text(), self.changes, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """
    One change.

    :param theme: What of the recovery semantics it is about.
    :param changes: Pieces of the base's script and what becomes of them.
    :param why: The reason for ``says``.
    """

    name: str
    base: Base
    theme: str
    changes: Changes
    says: GateDecision
    why: str

    @property
    def source(self) -> str:
        """Return the edited script."""
        return replaced(self.base.source, self.changes, self.name)


def replaced(text: str, changes: Changes, name: str) -> str:
    """
    Return a text with its pieces replaced.

    :raises ValueError: a piece is not there exactly once, or nothing changes.
    """
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{name}: {old!r} is {text.count(old)} times in the script, not once.")
        text = text.replace(old, new)
    return text


def job(name: str) -> Path:
    """Return one of the scripts beside this module."""
    return JOBS / f"{name}.py"
