"""Choices of a dag's author that backups, gates, upgrades and cutovers understand, too."""

from __future__ import annotations

from enum import StrEnum


class Origin(StrEnum):
    """Why a backup was taken; retention may keep each sort differently."""

    MANUAL = "manual"
    """By a command."""
    SCHEDULED = "scheduled"
    """By a task of a dag."""
    BEFORE_UPGRADE = "before_upgrade"
    """For an upgrade that may be taken back."""
    BEFORE_RESTORE = "before_restore"
    """Of the checkpoint that a restore replaces."""


class Level(StrEnum):
    """How far a backup was verified."""

    QUICK = "quick"
    """The manifest, and that everything it names is there in its size."""
    FULL = "full"
    """Every byte."""
    DRILL = "drill"
    """Every byte, and a real Spark opened the state and ran a batch in a scratch copy."""


class Answer(StrEnum):
    """The result of comparing both versions of a query."""

    SAME = "same"
    """Rows and state are the same as without the change."""
    NOT_REVISED = "not_revised"
    """New rows follow the new version; written rows stay as the old version wrote them."""
    SETTLES = "settles"
    """Rows right after the change mix both versions, later ones are the new version's."""
    WRONG_FOR_GOOD = "wrong_for_good"
    """State that never expires mixes both versions, and so does all output derived from it."""
    FAILS = "fails"
    """The new version, or Spark in its place, failed where the old one got through."""
    UNDECIDED = "undecided"


class SinkReplaySemantics(StrEnum):
    """The effect of a batch whose id the sink has seen before."""

    FILE_LOG = "file_log"
    """Passed over, because ``_spark_metadata`` has it. We can put that log back in step."""
    OVERWRITES = "overwrites"
    """Replaces the output of the same id."""
    REMEMBERS = "remembers"
    """Passed over, because the sink keeps ids of its own, e.g. in a table."""
    APPENDS = "appends"
    """Written once more."""
    NOTHING = "nothing"
    """It keeps nothing: a console, memory, or no sink at all."""
    UNKNOWN = "unknown"
    """Only its author can tell, and has not."""

    @property
    def executes_again(self) -> bool:
        """Tell whether Spark certainly executes such a batch, and so writes its state once more."""
        return self in (SinkReplaySemantics.APPENDS, SinkReplaySemantics.NOTHING)


class SwitchMethod(StrEnum):
    """How green becomes live."""

    PARALLEL = "parallel"
    """Green writes an output of its own, and consumers are led to it."""
    HANDOVER = "handover"
    """Green continues in blue's output, from the very batch at which blue was drained."""


class StartWay(StrEnum):
    """The origin of green's checkpoint."""

    FRESH = "fresh"
    """An empty checkpoint: the sources are read from where the script or ``replay_from`` says."""
    CLONED = "cloned"
    """A copy of blue's checkpoint at a committed batch."""
    MIGRATED = "migrated"
    """Such a copy, whose state is migrated where green cannot read it as it is."""
    CARRIED = "carried"
    """Blue's position in the sources, and no state."""

    @property
    def is_copy(self) -> bool:
        """Tell whether green continues with blue's state."""
        return self in (StartWay.CLONED, StartWay.MIGRATED)
