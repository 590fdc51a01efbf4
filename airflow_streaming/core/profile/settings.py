"""
Profile → settings: the Spark configuration it stands for, each value with the reason it is there.

A setting that this Spark or this state store does not have is left out, and says so.

Some settings are *pinned*: Spark writes them into the checkpoint with the first batch and from then
on takes them from there, without a word, or refuses to start when they differ. For these a profile
counts on a new checkpoint only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from airflow_streaming.core.conf import SparkVersion
from airflow_streaming.core.profile.profile import Profile, StateStore, is_rocksdb

STATE_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
SCHEDULER_MODE: Final = "spark.scheduler.mode"
METRICS: Final = "spark.sql.streaming.metricsEnabled"
RETAINED_BATCHES: Final = "spark.sql.streaming.minBatchesToRetain"
WATERMARK_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
CHECKPOINT_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
FILE_CHECKSUM: Final = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    One setting of a profile.

    :param value: As Spark reads it; ``None`` when it is left out.
    :param why: What it is for, and on what document or measurement that rests; when it is left
        out, why.
    :param pinned: An existing checkpoint keeps the value it was begun with.
    """

    key: str
    value: str | None
    why: str
    pinned: bool = False


def settings(profile: Profile, spark: SparkVersion, provider: str) -> Iterator[Setting]:
    """
    Return the settings of a profile.

    :param provider: Class of the state store that will be used; the stream may override it.
    """
    yield from _seen(profile)
    yield from _shared(profile)
    yield from _kept(profile)
    yield from _state(profile, spark, provider)


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
        why="Spark's default, said aloud: with several watermarks the slowest counts, so that no "
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
        why="By default Spark waits for ever, and silently, for a query that was asked to stop. "
        "Past this time it tells the log; the driver's own end is bounded by stop_grace.",
    )


def _state(profile: Profile, spark: SparkVersion, provider: str) -> Iterator[Setting]:
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
        "changes pile up that a restart has to read again; more often means more commits that "
        "share the disk with an upload.",
    )
    yield from _rocksdb(spark, provider)


_WHY_STORE: Final = {
    StateStore.ROCKSDB: "State on local disk instead of in the heap: it may outgrow the memory and "
    "causes no garbage collection. It is not the faster one while the state fits the heap: at one "
    "million keys a batch took 4.1 s against 2.1 s with the HDFS-backed store.",
    StateStore.HDFS: "State in the heap, the faster one while it fits: at one million keys a batch "
    "took 2.1 s against 4.1 s with RocksDB and changelogs, and 202 MB of heap against 32 MB "
    "outside it.",
}


def _rocksdb(spark: SparkVersion, provider: str) -> Iterator[Setting]:
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
    if spark < (4, 0, 0):
        yield _left_out(CHECKPOINT_FORMAT, "Spark has version 2 from 4.0 on.")
        return
    yield Setting(
        key=CHECKPOINT_FORMAT,
        value="2",
        pinned=True,
        why="Every state file has an id that the commit names, so that a file left over from an "
        "abandoned timeline is never loaded; with version 1 a rewound checkpoint gave wrong "
        "totals without an error. There is no way back to 3.5, which cannot read it, and Spark "
        "4.1 does not start on a checkpoint of the other version.",
    )
    if spark < (4, 1, 0):
        yield _left_out(FILE_CHECKSUM, "Spark has checksums of checkpoint files from 4.1 on.")
        return
    yield Setting(
        key=FILE_CHECKSUM,
        value="true",
        why="Spark's default, said aloud: a checksum beside every state file, by which a backup "
        "can be verified without Spark. It doubles the number of state files.",
    )


def _left_out(key: str, why: str) -> Setting:
    return Setting(key=key, value=None, why=why)


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f}s"
