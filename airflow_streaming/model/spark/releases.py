"""
The table of Spark releases: one row for each, with everything that depends on the release.

To support another release, add its row, with the formats, settings and pins that are new in it.
Rows inherit: a format, a setting or a pin of an older row also holds for every newer one. Changes
of a release for running queries (migration steps, measured upgrades) belong to the rules of the
version gate.

Sources: the settings that the released jars of 3.5, 4.0, 4.1, 4.2 and 4.3 pin in the offset log,
``ConfigEntry.version`` for older ones, and Spark's own changes for formats. A setting that was
backported into a maintenance release counts from that minor release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_SQL: Final = "spark.sql."
_STREAMING: Final = "spark.sql.streaming."
Minor = tuple[int, int]
"""Major and minor number; patch releases of one minor read each other's checkpoints."""

EVENT_LOG_HOLE: Final = "CVE-2025-54920"
"""A history server runs code from a forged event log."""
CHECKPOINT_FORMAT: Final = _STREAMING + "stateStore.checkpointFormatVersion"
FILE_CHECKSUM: Final = _STREAMING + "checkpoint.fileChecksum.enabled"
DUPLICATE_ORDER: Final = _SQL + "dropDuplicates.deterministicKeyOrder.enabled"


class FormatKind(StrEnum):
    """A versioned file format of a checkpoint."""

    OFFSET_LOG = "offset log"
    COMMIT_LOG = "commit log"
    OPERATOR_METADATA = "operator metadata"
    STATE_SCHEMA = "state schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """
    A version of a file format.

    :param words: Name of the format in the message that an older Spark cannot read the checkpoint;
        empty where the file itself does not keep an older Spark from reading the checkpoint.
    """

    kind: FormatKind
    number: int
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """
    A setting that Spark writes into every plan (offset log) of every query.

    :param old_value: Spark's assumption for a plan without it; ``None`` if not known.
    :param throughout: The first release that pins it in all its patch releases, where it is not the
        row's: it was backported into a maintenance release.
    :param blocks_older: Words for a checkpoint that pins another value than ``old_value``, where a
        Spark that does not know the setting cannot read such state; empty where it can.
    """

    key: str
    old_value: str | None = None
    throughout: str = ""
    blocks_older: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRelease:
    """
    New features of a minor release of Spark.

    :param supported: This provider runs it; older ones are listed because their checkpoints are
        read.
    :param java: Feature versions of Java that it runs on.
    :param newer_java: It also runs on newer ones than these.
    :param scala: The Scala that the release on PyPI is built with.
    :param formats: File formats that it was first to write.
    :param pins: Settings that it was first to pin.
    :param recorded: Further settings that are recorded with the plan of a query, because they
        decide about its state.
    :param settings: Further settings that it was first to know.
    :param opt_in: Values of settings that give a checkpoint a format only it and newer ones read.
    :param fixes: Vulnerabilities, by the first patch release of this minor without them.
    """

    version: Minor
    supported: bool = True
    java: tuple[int, ...] = (17,)
    newer_java: bool = True
    scala: str = "2.13"
    formats: tuple[Format, ...] = ()
    pins: tuple[Pin, ...] = ()
    recorded: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    opt_in: Mapping[str, str] = field(default_factory=dict)
    fixes: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Major and minor number as text, e.g. ``4.1``."""
        return ".".join(map(str, self.version))

    def runs_on_java(self, feature: int) -> bool:
        return feature in self.java or (self.newer_java and feature > max(self.java))

    @property
    def java_text(self) -> str:
        """Name the Java that it needs, e.g. ``Java 8, 11 or 17``."""
        if self.newer_java:
            return f"Java {max(self.java)} or newer"
        *others, last = map(str, self.java)
        return f"Java {', '.join(others)} or {last}"


def _unsupported(version: Minor, *pins: Pin, formats: tuple[Format, ...] = ()) -> SparkRelease:
    return SparkRelease(
        version=version,
        supported=False,
        java=(8, 11, 17),
        newer_java=False,
        scala="2.12",
        formats=formats,
        pins=pins,
    )


RELEASES: Final[tuple[SparkRelease, ...]] = (
    # The first text logs come from 2.1.
    _unsupported(
        (2, 1),
        formats=(
            Format(kind=FormatKind.OFFSET_LOG, number=1),
            Format(kind=FormatKind.COMMIT_LOG, number=1),
        ),
    ),
    _unsupported((2, 3), Pin(key=_STREAMING + "stateStore.providerClass")),
    _unsupported(
        (2, 4),
        Pin(key=_STREAMING + "multipleWatermarkPolicy"),
        Pin(key=_STREAMING + "flatMapGroupsWithState.stateFormatVersion"),
        Pin(key=_STREAMING + "aggregation.stateFormatVersion"),
    ),
    _unsupported((3, 0), Pin(key=_STREAMING + "join.stateFormatVersion")),
    _unsupported(
        (3, 1),
        Pin(key=_STREAMING + "stateStore.compression.codec"),
        formats=(
            # SPARK-27237; SPARK-35602 made it version 2 in 3.2 and may have been backported.
            Format(kind=FormatKind.STATE_SCHEMA, number=1),
            Format(kind=FormatKind.STATE_SCHEMA, number=2),
        ),
    ),
    _unsupported(
        (3, 2),
        Pin(key=_STREAMING + "stateStore.rocksdb.formatVersion"),
        # SPARK-38204 came with 3.3 and was backported into 3.2.2.
        Pin(key=_STREAMING + "statefulOperator.useStrictDistribution", throughout="3.3"),
    ),
    SparkRelease(
        version=(3, 5),
        java=(8, 11, 17),
        newer_java=False,
        scala="2.12",
        pins=(
            # Its ConfigEntry names 4.0, and 3.5.9 pins it; SPARK-51172 gave it this name.
            Pin(key=_SQL + "optimizer.pruneFiltersCanPruneStreamingSubplan", throughout="4.0"),
        ),
        recorded=(
            "spark.sql.shuffle.partitions",
            "spark.sql.session.timeZone",
            "spark.sql.ansi.enabled",
            _STREAMING + "stateStore.stateSchemaCheck",
        ),
        fixes={EVENT_LOG_HOLE: 7},
    ),
    SparkRelease(
        version=(4, 0),
        formats=(
            Format(kind=FormatKind.COMMIT_LOG, number=2, words="state checkpoint format 2"),
            Format(kind=FormatKind.OPERATOR_METADATA, number=1),
            Format(kind=FormatKind.OPERATOR_METADATA, number=2),
            Format(
                kind=FormatKind.STATE_SCHEMA,
                number=3,
                words="an operator with state variables (transformWithState)",
            ),
        ),
        pins=(
            Pin(
                key=_STREAMING + "stateStore.encodingFormat",
                old_value="unsaferow",
                blocks_older="state that is not encoded as unsafe rows",
            ),
        ),
        recorded=(CHECKPOINT_FORMAT,),
        fixes={EVENT_LOG_HOLE: 1},
    ),
    SparkRelease(version=(4, 1), settings=(FILE_CHECKSUM,)),
    SparkRelease(
        version=(4, 2),
        formats=(
            Format(
                kind=FormatKind.OFFSET_LOG,
                number=2,
                words="an offset log of version 2, which names sources",
            ),
            # SPARK-56971, in 4.2 and 4.3.
            Format(kind=FormatKind.COMMIT_LOG, number=3, words="a commit log of version 3"),
        ),
        pins=(
            Pin(key=_STREAMING + "stateStore.rocksdb.mergeOperatorVersion", old_value="1"),
            # The ConfigEntry of both names 4.1, but 4.1.4 does not know them.
            Pin(
                key=_STREAMING + "stateStore.rowChecksum.enabled",
                old_value="false",
                blocks_older="state rows with checksums",
            ),
            Pin(key=_STREAMING + "queryEvolution.enableSourceEvolution", old_value="false"),
            Pin(key=_SQL + "function.protobufExtensions.enabled", old_value="false"),
        ),
        recorded=(_STREAMING + "offsetLog.formatVersion",),
        opt_in={
            _STREAMING + "offsetLog.formatVersion": "2",
            _STREAMING + "queryEvolution.enableSourceEvolution": "true",
        },
    ),
    SparkRelease(
        version=(4, 3),
        pins=(
            Pin(
                key=_STREAMING + "statefulOperator.alwaysNullableOutput.enabled", old_value="false"
            ),
            Pin(key=DUPLICATE_ORDER, old_value="false"),
        ),
    ),
)
"""All releases, the oldest first. Releases that were first to do nothing, like 3.3, have no row."""

SUPPORTED: Final = tuple(release for release in RELEASES if release.supported)
OLDEST: Final = SUPPORTED[0]
NEWEST: Final = SUPPORTED[-1]
PINS: Final[Mapping[str, tuple[Pin, SparkRelease]]] = {
    pin.key: (pin, release) for release in RELEASES for pin in release.pins
}
FORMATS: Final[Mapping[tuple[FormatKind, int], tuple[Format, SparkRelease]]] = {
    (one.kind, one.number): (one, release) for release in RELEASES for one in release.formats
}


def release_at(version: Minor) -> SparkRelease:
    """Return the row for a version: its own, or the newest earlier release's."""
    before = [release for release in RELEASES if release.version <= version]
    return before[-1] if before else RELEASES[0]


def first_with(key: str) -> SparkRelease:
    """
    Return the first release that knows a setting.

    :raises KeyError: no row names the setting.
    """
    for release in RELEASES:
        pinned = (pin.key for pin in release.pins)
        if key in (*pinned, *release.recorded, *release.settings):
            return release
    raise KeyError(key)


def recorded_settings(version: Minor) -> Iterator[str]:
    """Yield the settings that are recorded with the plan of a query on this version."""
    for release in RELEASES:
        if release.version <= version:
            yield from (pin.key for pin in release.pins)
            yield from release.recorded


def is_fixed(vulnerability: str, version: Minor, patch: int | None) -> bool:
    """
    Tell whether a release is free of a vulnerability that the table names.

    :param patch: ``None`` where it is not known; the newest patch release is assumed then.
    """
    fixed_in = {
        release.version: release.fixes[vulnerability]
        for release in RELEASES
        if vulnerability in release.fixes
    }
    if version in fixed_in:
        return patch is None or patch >= fixed_in[version]
    return version > max(fixed_in)
