"""
The Spark configuration that a profile gives one Spark version.

Some settings are *pinned*: Spark writes them into the checkpoint with the first batch and from then
on takes them from there, silently, or refuses to start when they differ. Spark 4.1 refuses to read
the commits of a checkpoint of another format. So a profile never changes a pinned setting under an
existing checkpoint; to change it, write it into the stream's own conf.

The stream's own conf wins, key by key, and the replaced value stays visible. A setting that this
Spark or this state store does not have is left out with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.advice.profile import Profile, StateStore
from airflow_streaming.model.spark.conf import SparkVersion, conf_text, parse_spark_version
from airflow_streaming.model.spark.releases import CHECKPOINT_FORMAT, FILE_CHECKSUM, first_with
from airflow_streaming.model.spark.secret_conf import redact

if TYPE_CHECKING:
    from airflow_streaming.model.records.upgrade import SinkFacts

STATE_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
DYNAMIC_ALLOCATION: Final = "spark.dynamicAllocation.enabled"
SCHEDULER_MODE: Final = "spark.scheduler.mode"
METRICS: Final = "spark.sql.streaming.metricsEnabled"
RETAINED_BATCHES: Final = "spark.sql.streaming.minBatchesToRetain"
WATERMARK_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
ADAPTIVE: Final = "spark.sql.adaptive.enabled"
COALESCE: Final = "spark.sql.adaptive.coalescePartitions.enabled"
SERIALIZER: Final = "spark.serializer"
ADAPTIVE_STATELESS: Final = (4, 1, 0)
"""Spark that plans stateless streaming queries adaptively by default (its migration guide, 4.0 to 4.1)."""
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

_FORMAT_1: Final = (
    "With format 2 a driver that dies between the sink's write and the commit leaves a checkpoint that "
    "fails at every start, if the sink skips the batch that it has: Spark then gets no state ids "
    "('CheckpointInfo length: 0', measured on 4.0 to 4.3). File sinks, Delta tables and functions that "
    "skip known batches do."
)
_FORMAT_2: Final = (
    "Every state file has an id that the commit names, so that a file left over from an abandoned "
    "timeline is never loaded; with version 1 a rewound checkpoint gave wrong totals without an error. "
    "A way back to 3.5 does not exist, because it cannot read the format, and Spark 4.1 does not start "
    "on a checkpoint of the other version."
)
_WHY_STORE: Final = {
    StateStore.ROCKSDB: "State on local disk instead of in the heap: it may outgrow the memory and "
    "causes no garbage collection. It is not the faster one while the state fits the heap: at one "
    "million keys a batch took 4.1 s against 2.1 s with the HDFS-backed store.",
    StateStore.HDFS: "State in the heap, the faster one while it fits: at one million keys a batch "
    "took 2.1 s against 4.1 s with RocksDB and changelogs, and 202 MB of heap against 32 MB "
    "outside it.",
}


def is_rocksdb(provider: str) -> bool:
    """Tell whether a provider class keeps its state in RocksDB."""
    return provider.rpartition(".")[2] == "RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    A setting of a profile.

    :param value: As Spark reads it; ``None`` when it is left out.
    :param why: Its purpose, with the document or measurement behind it; or the reason to leave it
        out.
    :param pinned: An existing checkpoint keeps the value from its first batch.
    """

    key: str
    value: str | None
    why: str
    pinned: bool = False


def settings(
    profile: Profile,
    spark: SparkVersion,
    provider: str,
    sinks: Sequence[SinkFacts] = (),
    *,
    held_format: str | None = None,
) -> Iterator[Setting]:
    """
    Return the settings of a profile.

    :param provider: Class of the state store that will be used; the stream may override it.
    :param sinks: The recorded sinks of the stream's queries; empty if not known.
    :param held_format: A fixed state checkpoint format: the continued checkpoint's, or the stream's
        own; ``None`` for the profile's choice.
    """
    yield from _seen(profile)
    yield from _shared(profile)
    yield from _kept(profile)
    yield from _state(profile, spark, provider, sinks, held_format)
    yield from _left_to_spark(spark)


def _seen(profile: Profile) -> Iterator[Setting]:
    yield Setting(
        key=METRICS,
        value="true",
        why="Off by default. With it Spark's metrics system has the rates, latency, watermark and "
        "state size of every query (Spark's streaming guide, Monitoring); a query's gauges vanish "
        "when it ends.",
    )
    yield Setting(
        key="spark.sql.streaming.numRecentProgressUpdates",
        value=str(profile.progress_updates),
        why="The driver's heartbeat takes the figures of each batch from this list. With Spark's "
        "100, a stream of many batches a second loses some when a beat is late; one report of a "
        "stateful query was measured at 1 to 3 kB of JSON.",
    )


def _shared(profile: Profile) -> Iterator[Setting]:
    yield Setting(
        key=SHUFFLE_PARTITIONS,
        value=str(profile.shuffle_partitions),
        pinned=True,
        why=f"{profile.partitions_per_core} per core for {profile.cores} cores. Spark's 200 means "
        "200 state stores per stateful operator: 200 small commits a batch, and with 100 batches "
        "kept tens of thousands of files.",
    )
    yield Setting(
        key=DYNAMIC_ALLOCATION,
        value="false",
        why="Spark's dynamic allocation is made for batch jobs: an executor that is idle between two "
        "batches goes after 60 s, its state stores are loaded again elsewhere, and the next batch "
        "waits for the cluster. Many clusters switch it on for all applications. A stream has the "
        "cores of its profile; another size is a rescale.",
    )
    if profile.fair_scheduling:
        yield Setting(
            key=SCHEDULER_MODE,
            value="FAIR",
            why="Otherwise a long batch of one query makes every other query of the application "
            "wait. It needs a pool for each query, which the profile asks for too (fair_pools); "
            "measured: every stage ran in the pool its query was started in.",
        )
    yield Setting(
        key=WATERMARK_POLICY,
        value="min",
        pinned=True,
        why="Spark's default, set explicitly: with several watermarks the slowest counts, so that no "
        "row of a late input is dropped. 'max' moved the watermark 65 s further on the same "
        "data.",
    )


def _kept(profile: Profile) -> Iterator[Setting]:
    yield Setting(
        key=RETAINED_BATCHES,
        value=str(profile.batches_to_retain),
        why="How far back the checkpoint's files reach, in batches. A copy of a live checkpoint has "
        "about this many batch times before the files it needs are purged.",
    )
    yield Setting(
        key="spark.sql.streaming.stopTimeout",
        value=_seconds(profile.stop_timeout),
        why="By default Spark waits for ever, and silently, for a query to stop. After this "
        "time it logs a warning; stop_grace bounds the driver's own end.",
    )


def _state(
    profile: Profile,
    spark: SparkVersion,
    provider: str,
    sinks: Sequence[SinkFacts],
    held_format: str | None,
) -> Iterator[Setting]:
    yield Setting(
        key=STATE_PROVIDER,
        value=profile.state_store.provider,
        pinned=True,
        why=_WHY_STORE[profile.state_store],
    )
    yield Setting(
        key="spark.sql.streaming.stateStore.maintenanceInterval",
        value=_seconds(profile.maintenance_interval),
        why="How often snapshots are uploaded and old files deleted. Between two snapshots the "
        "changes pile up that a restart must read again; more often means more commits that "
        "share the disk with an upload.",
    )
    yield from _rocksdb(profile, spark, provider, sinks, held_format)


def _rocksdb(
    profile: Profile,
    spark: SparkVersion,
    provider: str,
    sinks: Sequence[SinkFacts],
    held_format: str | None,
) -> Iterator[Setting]:
    if not is_rocksdb(provider):
        for key in (CHANGELOG, CHECKPOINT_FORMAT):
            yield _left_out(
                key, "As far as the configuration says, the state store is not RocksDB."
            )
        return
    yield Setting(
        key=CHANGELOG,
        value="true",
        why="A commit writes the changes instead of a whole snapshot: median 165 ms against 547 ms "
        "at one million keys. Snapshots move to the maintenance thread, and the slowest commits "
        "with them (2.4 s). It may be switched on and off on an existing checkpoint.",
    )
    first = first_with(CHECKPOINT_FORMAT)
    if spark < first.version:
        yield _left_out(CHECKPOINT_FORMAT, f"Spark has version 2 from {first.name} on.")
        return
    chosen = checkpoint_format(profile.checkpoint_format, sinks)
    yield chosen
    if (held_format or chosen.value) == "1":
        why = "Spark writes checksums beside state files of format 2 only (measured on 4.3)."
        yield _left_out(FILE_CHECKSUM, why)
        return
    first = first_with(FILE_CHECKSUM)
    if spark < first.version:
        why = f"Spark has checksums of checkpoint files from {first.name} on."
        yield _left_out(FILE_CHECKSUM, why)
        return
    yield Setting(
        key=FILE_CHECKSUM,
        value="true",
        why="Spark's default, set explicitly: a checksum beside every state file, by which a backup "
        "can be verified without Spark. It doubles the number of state files.",
    )


def checkpoint_format(chosen: int | None, sinks: Sequence[SinkFacts]) -> Setting:
    """
    Return the state checkpoint format of a new checkpoint, with the reason.

    :param chosen: The author's choice; ``None`` to decide by the sinks.
    :param sinks: The recorded sinks of the stream's queries; empty if not known.
    """
    stateful = [facts for facts in sinks if facts.is_stateful]
    skipping = [facts for facts in stateful if not facts.habit.executes_again]
    if chosen is not None:
        value, why = chosen, "The author of the stream chose it (checkpoint_format)."
    elif skipping:
        named = ", ".join(f"{facts.query} ({facts.sink})" for facts in skipping)
        value, why = 1, f"A sink skips a batch that it has, or may do so: {named}."
    elif not stateful:
        value, why = 1, "No driver has recorded the sink of a stateful query yet."
    else:
        value, why = 2, "Every stateful query writes to a sink that takes a batch again."
    risk = _FORMAT_1 if value == 1 or skipping or not stateful else ""
    reasons = (why, _FORMAT_2 if value == 2 else "", risk)
    return Setting(
        key=CHECKPOINT_FORMAT, value=str(value), pinned=True, why=" ".join(filter(None, reasons))
    )


def _left_to_spark(spark: SparkVersion) -> Iterator[Setting]:
    """Yield settings that batch jobs are tuned by and that a stream needs no value of."""
    is_adaptive = spark >= ADAPTIVE_STATELESS
    yield _left_out(
        ADAPTIVE,
        "Spark plans no stateful query adaptively, because its state fixes the number of "
        "shuffle partitions. A stateless query has it by default "
        "(spark.sql.adaptive.streaming.stateless.enabled); it splits skewed partitions and "
        "merges small ones."
        if is_adaptive
        else "Spark switches adaptive execution off in the session of every streaming query "
        "and of its foreachBatch, even if it is set here, because the state fixes the "
        "number of shuffle partitions.",
    )
    yield _left_out(
        COALESCE,
        "A part of adaptive execution. It never merges the partitions of state"
        + (", and Spark's default (true) suits a stateless query." if is_adaptive else "."),
    )
    yield _left_out(
        SERIALIZER,
        "Spark writes the rows of a query, of its shuffles and of its state in a binary format of its own "
        "(UnsafeRow), and exchanges rows with Python by Arrow or pickle. KryoSerializer changes broadcasts and "
        "RDDs of JVM objects alone, which a query of DataFrames seldom has.",
    )


def _left_out(key: str, why: str) -> Setting:
    return Setting(key=key, value=None, why=why)


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f}s"


class ConfSource(StrEnum):
    """Where a value of the configuration came from."""

    PROFILE = "profile"
    STREAM = "stream"
    """The stream's own conf, and the profile has nothing on it."""
    OVERRIDE = "stream over profile"
    """The stream's own conf, instead of the profile's value."""
    KEPT = "kept with the checkpoint"
    """Pinned, so as the deployment had it that began or carried on the checkpoint."""
    LEFT_OUT = "left out"
    """The profile sets it for another Spark version or state store, or for none; Spark gets nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfValue:
    """
    A value of the configuration.

    :param value: As Spark reads it, possibly a secret; ``None`` when it is left out.
    :param why: The profile's reason for its value, or for leaving it out.
    :param pinned: An existing checkpoint keeps the value from its first batch.
    :param replaces: The profile's replaced value.
    """

    key: str
    value: str | None = field(repr=False)
    source: ConfSource
    why: str = ""
    pinned: bool = False
    replaces: str | None = None

    @property
    def shown(self) -> str | None:
        """Return the value with a secret as a mark."""
        return None if self.value is None else redact({self.key: self.value})[self.key]


def resolve(
    profile: Profile | None,
    spark_version: str,
    user_conf: Mapping[str, Any],
    *,
    carried_on: Mapping[str, str] | None = None,
    sinks: Sequence[SinkFacts] = (),
) -> tuple[ConfValue, ...]:
    """
    Return every value of the configuration: the profile's in its own order, then the stream's.

    :param spark_version: Of the runtime, e.g. ``4.3.0``; ignored without a profile.
    :param user_conf: The stream's own ``conf``.
    :param carried_on: Conf of the deployment whose checkpoint continues; ``None`` for a new one.
    :param sinks: The recorded sinks of the stream's queries; empty if not known.
    :raises SpecError: an invalid Spark version.
    """
    own = {key: conf_text(value) for key, value in user_conf.items()}
    taken = () if profile is None else tuple(_taken(profile, spark_version, own, carried_on, sinks))
    known = {value.key for value in taken}
    rest = sorted(key for key in own if key not in known)
    return (
        *taken,
        *(ConfValue(key=key, value=own[key], source=ConfSource.STREAM) for key in rest),
    )


def _taken(
    profile: Profile,
    spark_version: str,
    own: Mapping[str, str],
    carried_on: Mapping[str, str] | None,
    sinks: Sequence[SinkFacts],
) -> Iterable[ConfValue]:
    kept = {} if carried_on is None else carried_on
    default = StateStore.HDFS if carried_on is not None else profile.state_store
    provider = own.get(STATE_PROVIDER) or kept.get(STATE_PROVIDER) or default.provider
    # An existing checkpoint keeps its format, even against the stream's own conf.
    held = own.get(CHECKPOINT_FORMAT) if carried_on is None else kept.get(CHECKPOINT_FORMAT, "1")
    version = parse_spark_version(spark_version)
    for setting in settings(profile, version, provider, sinks, held_format=held):
        if setting.key in own:
            yield _value(setting, ConfSource.OVERRIDE, own[setting.key])
        elif setting.pinned and carried_on is not None:
            yield _value(setting, ConfSource.KEPT, carried_on.get(setting.key))
        elif setting.value is None:
            yield _value(setting, ConfSource.LEFT_OUT, None)
        else:
            yield _value(setting, ConfSource.PROFILE, setting.value)


def _value(setting: Setting, source: ConfSource, value: str | None) -> ConfValue:
    return ConfValue(
        key=setting.key,
        value=value,
        source=source,
        why=setting.why,
        pinned=setting.pinned,
        replaces=setting.value if setting.value != value else None,
    )


def effective(values: Iterable[ConfValue]) -> dict[str, str]:
    """Return what Spark gets; secrets are in it."""
    return {value.key: value.value for value in values if value.value is not None}


def summary(profile: Profile, values: Sequence[ConfValue]) -> str:
    """Return one line for a log: the number of values by origin, and the rejected values."""
    counted = Counter(value.source for value in values if value.value is not None)
    text = ", ".join(f"{counted[source]} {words}" for source, words in _IN_WORDS if counted[source])
    passed = [
        f"{value.key}={value.replaces}"
        for value in values
        if value.source is ConfSource.KEPT and value.replaces is not None
    ]
    not_taken = f" Not taken, as the checkpoint continues: {', '.join(passed)}." if passed else ""
    return (
        f"Profile {profile.name!r} for {profile.cores} cores: {text or 'no value'}.{not_taken} "
        "'airflow-streaming conf' explains each value."
    )


_IN_WORDS: Final = (
    (ConfSource.PROFILE, "values from the profile"),
    (ConfSource.KEPT, "kept with the checkpoint"),
    (ConfSource.OVERRIDE, "overridden by the stream"),
    (ConfSource.STREAM, "of the stream alone"),
)
