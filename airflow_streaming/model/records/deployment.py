"""
The deployment: the immutable version of a stream that runs, and the decision on a proposed one.

It records a ``StreamSpec``: secrets are replaced by a mark, the script by its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

from airflow_streaming.model.arguments.placeholders import fill
from airflow_streaming.model.names import check_place
from airflow_streaming.model.uris import for_spark
from airflow_streaming.model.wire import Record

_NOT_COMPARED: Final = frozenset(
    {"number", "created_at", "created_by", "color", "replay_from", "overrides"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """
    A form's value that replaces the DAG's value.

    :param what: ``runtime``, ``application``, or ``conf.`` and a key.
    :param value: The form's; ``None`` where it removes the key.
    :param dag: The DAG's at that time; ``None`` where it has no such key.
    """

    what: str
    value: str | None
    dag: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(Record):
    """
    An immutable version of a stream.

    :param application: Where the script was read from; a copy is stored beside this record.
    :param application_sha256: Digest of the copy.
    :param conf: Configuration with secrets redacted; launches fill them in from the dag.
    :param env: Names of the dag's environment variables.
    :param checkpoint: URI under which every query has a folder.
    :param output: URI of ``{output}``.
    :param color: Of the lane that it belongs to.
    :param replay_from: Value of ``{replay_from}``: the time, in ISO 8601, from which a fresh
        checkpoint must read to have its state complete; empty for the beginning.
        ``{replay_from_ms}`` is the same in milliseconds since the Unix epoch, 0 for the beginning.
    :param py_files_sha256: Digest of each of ``py_files`` as it was proposed; an empty text for a
        file that the proposing host does not hold.
    :param overrides: Values of ``conf``, ``runtime`` and ``application`` that forms have set over
        the DAG's. They do not count as a difference of their own.
    """

    KIND: ClassVar[str] = "deployment"

    number: int
    stream: str
    application: str
    application_sha256: str
    application_args: tuple[str, ...]
    conf: Mapping[str, str]
    env: tuple[str, ...]
    py_files: tuple[str, ...]
    jars: tuple[str, ...]
    packages: tuple[str, ...]
    files: tuple[str, ...]
    runtime: str
    spark_version: str
    checkpoint: str
    output: str
    fair_pools: bool
    created_at: datetime
    created_by: str
    color: str = "blue"
    replay_from: str = ""
    py_files_sha256: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        for what in ("application", "checkpoint", "output"):
            check_place(what, getattr(self, what))

    @property
    def fingerprint(self) -> str:
        """Return a digest of what makes two deployments different to Spark."""
        values = {f.name: self._told(f.name) for f in fields(self) if f.name not in _NOT_COMPARED}
        values["conf"] = dict(self.conf)
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def _told(self, name: str) -> Any:
        if name == "py_files_sha256" and not any(self.py_files_sha256):
            return ()
        return getattr(self, name)

    def differences(self, other: Deployment) -> list[str]:
        """Return the names of the fields in which a proposed deployment differs."""
        return [
            f.name
            for f in fields(self)
            if f.name not in _NOT_COMPARED and self._told(f.name) != other._told(f.name)
        ]

    def has_py_files_of(self, other: Deployment) -> bool:
        """
        Tell whether the Python files are the same, by content.

        A file whose content one of the two does not know is compared by its path.
        """
        digests = zip(self.py_files_sha256, other.py_files_sha256, strict=False)
        return self.py_files == other.py_files and all(
            mine == theirs for mine, theirs in digests if mine and theirs
        )

    def arguments(self, home: str) -> list[str]:
        """Return the script's arguments with the placeholders replaced; places as Spark opens them."""
        return [self.filled(argument, home) for argument in self.application_args]

    def filled(self, text: str, home: str) -> str:
        """Return a text with the placeholders of arguments replaced."""
        known = {
            "stream": self.stream,
            "output": for_spark(self.output),
            "checkpoint": for_spark(self.checkpoint),
            "home": for_spark(home),
            "deployment": str(self.number),
            "replay_from": self.replay_from,
            "replay_from_ms": str(_milliseconds(self.replay_from)),
        }
        return fill(text, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation(Record):
    """
    The difference between the deployment that a DAG names and the live one; the newest number counts.

    The task that keeps the stream records it, so that the command line and the page show it too.

    :param deployment: Number of the live deployment.
    :param values: The values that differ, ``value`` the live one; empty where the DAG names the live
        deployment.
    """

    KIND: ClassVar[str] = "deviation"

    number: int
    deployment: int
    values: tuple[Override, ...]
    by: str
    at: datetime


def difference_to_dag(live: Deployment, deviation: Deviation | None) -> str:
    """
    Return how the DAG differs from a live deployment, as a sentence; empty where it does not.

    :param deviation: The newest record. Until one of this deployment is made, the values count that
        forms have set.
    """
    is_current = deviation is not None and deviation.deployment == live.number
    values = deviation.values if deviation is not None and is_current else live.overrides
    text = "; ".join(
        f"{one.what.removeprefix('conf.')}: live {one.value or 'not set'}, DAG {one.dag or 'not set'}"
        for one in values
    )
    return (
        f"The DAG names another deployment than the live one ({live.number}): {text}."
        if text
        else ""
    )


def outlives_request(current: Deployment | None, run_started_at: datetime | None) -> bool:
    """
    Tell whether a live deployment is newer than a run, so that the run cannot have asked to replace it.

    A later try of the run would otherwise undo an upgrade that was made after the first try.

    :param run_started_at: By the clock of Airflow's scheduler; ``None`` where it is not known.
    """
    return (
        current is not None and run_started_at is not None and current.created_at >= run_started_at
    )


class ProposalAction(StrEnum):
    """The decision on a deployment that the dag proposes."""

    KEEP = "keep"
    """It runs already."""
    APPLY = "apply"
    TELL = "tell"
    """The running one stays, and the difference is reported."""


def decide_proposal(
    current: Deployment | None, proposed: Deployment, *, restart_asked: bool
) -> ProposalAction:
    """Decide about a proposed deployment; a running one is replaced only with a user's approval."""
    if current is None:
        return ProposalAction.APPLY
    if proposed.fingerprint == current.fingerprint:
        return ProposalAction.KEEP
    return ProposalAction.APPLY if restart_asked else ProposalAction.TELL


def _milliseconds(iso: str) -> int:
    # The beginning is 0, which every source that takes a time understands as such.
    return int(datetime.fromisoformat(iso).timestamp() * 1000) if iso else 0
