"""
What sort of failure ended a driver, cut by what has to happen next.

A kind is not a cause. It is the coarsest answer that still tells a restart that can help from one
that cannot, and a person on call what to look at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FailureKind(StrEnum):
    """What sort of failure ended a driver."""

    TRANSIENT = "transient"
    """Something beside the query was away: storage, a broker, a database, an executor."""
    USER_CODE = "user_code"
    """The script's own code raised, or an expression of it did on a row."""
    POISON_BATCH = "poison_batch"
    """
    The same batch failed the same way again and again, so that it cannot pass as it is.

    No single message says so: ``diagnose`` never answers it. The restart policy does, when so many
    failures in a row have the same signature and batch.
    """
    CHECKPOINT_DAMAGED = "checkpoint_damaged"
    """A file of the checkpoint is missing, torn or not what Spark wrote."""
    INCOMPATIBLE = "incompatible"
    """The checkpoint is whole, but does not fit the query, the Spark version or the source."""
    SECOND_WRITER = "second_writer"
    """Another query writes the same checkpoint."""
    CONFIGURATION = "configuration"
    """The stream cannot run as it is set up: an option, a jar, an address, a right, the plan."""
    OUT_OF_MEMORY = "out_of_memory"
    """A heap, a container's limit or the host ran out of memory."""
    KILLED = "killed"
    """The driver, its JVM or a Python worker was ended from outside or crashed without a word."""
    UNHEALTHY = "unhealthy"
    """The driver lived, and was stopped because of a health verdict."""
    UNKNOWN = "unknown"
    """Nothing in the message is known."""

    @property
    def needs_a_person(self) -> bool:
        """Tell whether the same start can only fail the same way, or do more harm."""
        return CLASS_OF_KIND[self] is FailureClass.FINAL


class FailureClass(StrEnum):
    """Which restart budget a failure is charged to."""

    INFRASTRUCTURE = "infrastructure"
    """Machines, networks and memory: a restart usually helps."""
    APPLICATION = "application"
    """The user's code and data: a restart may help."""
    FINAL = "final"
    """A restart can only fail the same way, or do harm."""


CLASS_OF_KIND: Final = {
    FailureKind.TRANSIENT: FailureClass.INFRASTRUCTURE,
    FailureKind.KILLED: FailureClass.INFRASTRUCTURE,
    FailureKind.OUT_OF_MEMORY: FailureClass.INFRASTRUCTURE,
    FailureKind.UNHEALTHY: FailureClass.INFRASTRUCTURE,
    FailureKind.USER_CODE: FailureClass.APPLICATION,
    FailureKind.UNKNOWN: FailureClass.APPLICATION,
    FailureKind.POISON_BATCH: FailureClass.FINAL,
    FailureKind.CHECKPOINT_DAMAGED: FailureClass.FINAL,
    FailureKind.INCOMPATIBLE: FailureClass.FINAL,
    FailureKind.SECOND_WRITER: FailureClass.FINAL,
    FailureKind.CONFIGURATION: FailureClass.FINAL,
}

_REMEDIES: Final = {
    FailureKind.TRANSIENT: (
        "Check that the storage, broker or service which the message names can be reached from "
        "the driver and its executors."
    ),
    FailureKind.USER_CODE: (
        "Read the error in the driver's log, correct the script or the row it stumbles over, and "
        "deploy the stream again."
    ),
    FailureKind.POISON_BATCH: (
        "Correct the script so that it passes the batch, or set the offending rows aside at the "
        "source; then start the stream again. It goes on with the same batch."
    ),
    FailureKind.CHECKPOINT_DAMAGED: (
        "Do not start the stream again as it is. Restore the checkpoint from a backup, or start "
        "with a new checkpoint and decide from where to read."
    ),
    FailureKind.INCOMPATIBLE: (
        "Deploy the earlier script, settings or Spark version, with which the checkpoint was "
        "written; or give the changed query a new checkpoint."
    ),
    FailureKind.SECOND_WRITER: (
        "Find and stop the other query on this checkpoint, and give every query a checkpoint of "
        "its own. If there is none, the checkpoint's logs disagree: restore it from a backup."
    ),
    FailureKind.CONFIGURATION: (
        "Correct the option, package, address, right or query that the message names, and deploy "
        "the stream again."
    ),
    FailureKind.OUT_OF_MEMORY: (
        "Give the driver or its executors more memory, or bound each batch with a rate limit and "
        "the state with a watermark."
    ),
    FailureKind.KILLED: (
        "Look in the log of the host or the cluster for what ended the process; the most frequent "
        "reason is its memory limit."
    ),
    FailureKind.UNHEALTHY: (
        "Look at the verdict that stopped the driver; its rule and figures are in the reason."
    ),
    FailureKind.UNKNOWN: "Read the driver's log; this failure is not one the provider knows.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """
    What a failure's message says.

    :param evidence: The condition, class or phrase that told; empty when nothing did.
    :param remedy: One or two sentences: what to do.
    """

    kind: FailureKind
    evidence: str
    remedy: str


def remedy_for(kind: FailureKind) -> str:
    """Return what to do about a kind of failure, in one or two sentences."""
    return _REMEDIES[kind]
