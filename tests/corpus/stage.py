"""
Where a failure is provoked: one Spark session, small inputs, and checkpoints to be spoilt.

A base checkpoint is written once for each sort of query; a scenario takes a copy, spoils it, and
starts a query on it. The input holds two files while the bases are written and a third one after,
so that every restart has a batch to run.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.spark.failure_signs import FailureKind

ROCKS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG: Final = {
    **ROCKS,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
FORMAT_2: Final = {**CHANGELOG, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}

SCHEMA: Final = "k string, v long, t timestamp"

Play = Callable[["Stage"], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One way to fail.

    :param expected: What a person calls the failure.
    :param play: Makes it; returns the query that fails, or raises as a script would.
    :param conf: Settings of the session; a scenario with any gets a process of its own.
    :param alone: It needs a process of its own anyway, e.g. because it ends the JVM.
    :param reason: Why it is called so, where that is not plain.
    """

    name: str
    expected: FailureKind
    play: Play
    conf: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    reason: str = ""


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    expected: FailureKind,
    *,
    conf: Mapping[str, str] | None = None,
    alone: bool = False,
    reason: str = "",
) -> Callable[[Play], Play]:
    """Enter the decorated function, under its name, among the scenarios."""

    def enter(play: Play) -> Play:
        add(play.__name__, expected, play, conf=conf or {}, alone=alone, reason=reason)
        return play

    return enter


def add(
    name: str,
    expected: FailureKind,
    play: Play,
    *,
    conf: Mapping[str, str] | None = None,
    alone: bool = False,
    reason: str = "",
) -> None:
    """Enter one scenario."""
    assert name not in SCENARIOS, name
    SCENARIOS[name] = Scenario(
        name=name,
        expected=expected,
        play=play,
        conf=conf or {},
        alone=alone or bool(conf),
        reason=reason,
    )


class Stage:
    """One session and the folders that its scenarios use."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.input = root / "input"
        self._bases: dict[str, Path] = {}
        self._folders = 0
        self.input.mkdir(parents=True)
        for number in (0, 1):
            self.add_file(number)

    def add_file(self, number: int, folder: Path | None = None) -> Path:
        """Write one input file of four rows."""
        path = (folder or self.input) / f"{number:03}.json"
        rows = [
            {"k": key, "v": number, "t": f"2026-01-01T00:0{number}:00"}
            for key in ("a", "b", "c", "d")
        ]
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
        return path

    def folder(self, name: str = "folder") -> Path:
        """Return a path that nobody uses yet."""
        self._folders += 1
        return self.root / f"{name}-{self._folders}"

    def rows(self, folder: Path | None = None, **options: object) -> Any:
        """Return the input as a stream, one file a batch."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.json(str(folder or self.input))

    def start(
        self,
        frame: Any,
        checkpoint: Path | None = None,
        *,
        mode: str = "append",
        batch: Any = None,
        sink: str = "noop",
        **options: str,
    ) -> Any:
        """Start a query over all available input."""
        writer = frame.writeStream.queryName("q").outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(checkpoint or self.folder("checkpoint")))
        for name, value in options.items():
            writer = writer.option(name, value)
        if batch is not None:
            return writer.foreachBatch(batch).start()
        return writer.format(sink).start()

    def with_conf(self, conf: Mapping[str, str], act: Callable[[], Any]) -> Any:
        """Act under settings; a query keeps those it was started with."""
        before = {key: self.spark.conf.get(key, None) for key in conf}
        for key, value in conf.items():
            self.spark.conf.set(key, value)
        try:
            return act()
        finally:
            for key, value in before.items():
                if value is None:
                    self.spark.conf.unset(key)
                else:
                    self.spark.conf.set(key, value)

    def write_base(
        self, name: str, frame: Any, *, mode: str = "update", conf: Mapping[str, str] | None = None
    ) -> None:
        """Write a base checkpoint."""
        checkpoint = self.root / f"base-{name}"
        query = self.with_conf(conf or {}, lambda: self.start(frame, checkpoint, mode=mode))
        ended(query)
        error = query.exception()
        assert error is None, f"The base {name} failed: {error}"
        self._bases[name] = checkpoint

    def copy_of(self, base: str) -> Path:
        """Return a copy of a base checkpoint."""
        if base not in self._bases:
            raise NotHere(f"There is no base {base}.")
        target = self.folder("checkpoint")
        shutil.copytree(self._bases[base], target)
        return target


class NotHere(Exception):
    """The scenario does not exist with this release of Spark."""


def ended(query: Any, seconds: float = 60) -> None:
    """Wait until a query has ended, whether it failed or not."""
    deadline = time.monotonic() + seconds
    while query._jsq.isActive():
        if time.monotonic() > deadline:
            query.stop()
            raise NotHere("The query did not end by itself.")
        time.sleep(0.05)


def counts(rows: Any) -> Any:
    """Return the aggregation that the stateful bases keep."""
    from pyspark.sql import functions as f

    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def write_bases(stage: Stage) -> None:
    """Write all base checkpoints, then add the input for the restarts."""
    stage.write_base("plain", stage.rows(), mode="append")
    stage.write_base("hdfs", counts(stage.rows()))
    stage.write_base("rocks", counts(stage.rows()), conf=ROCKS)
    stage.write_base("changelog", counts(stage.rows()), conf=CHANGELOG)
    stage.write_base("dedup", stage.rows().dropDuplicates(["k"]), mode="append")
    stage.write_base("join", joined(stage, "k"), mode="append")
    if int(stage.spark.version.split(".")[0]) >= 4:
        stage.write_base("format2", counts(stage.rows()), conf=FORMAT_2)
    stage.add_file(2)


def joined(stage: Stage, key: str) -> Any:
    """Return a join of the input with itself."""
    left, right = stage.rows(), stage.rows()
    return left.join(right.withColumnRenamed("v", "w").drop("t"), key)
