"""
The shapes of queries that are tried, as a user would write them.

Run by the Python of a Spark runtime, where nothing but Spark is installed beside this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "k string, id bigint, v double, n int, s string, ts timestamp"


@dataclass(frozen=True)
class Shape:
    """One shape: how its rows are made, and how they leave."""

    rows: Callable[[SparkSession, Path], DataFrame]
    mode: str = "append"
    to_files: bool = False


def read(spark: SparkSession, folder: Path, side: str = "left") -> DataFrame:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    return files.json((folder / side).as_uri())


def marked(spark: SparkSession, folder: Path, side: str = "left") -> DataFrame:
    return read(spark, folder, side).withWatermark("ts", "5 seconds")


def stateless(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder).where("n < 9").select("k", "id", (F.col("v") * 2).alias("w"), "ts")


def window_aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    grouped = marked(spark, folder).groupBy(F.window("ts", "10 seconds"), "k")
    return grouped.agg(F.count("*").alias("c"), F.sum("v").alias("v"), F.max("s").alias("s"))


def aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    return (
        read(spark, folder)
        .groupBy("k")
        .agg(
            F.count("*").alias("c"),
            F.sum("v").alias("v"),
            F.avg("n").alias("a"),
            F.min("s").alias("s"),
            F.max("ts").alias("ts"),
        )
    )


def aggregate_distinct(spark: SparkSession, folder: Path) -> DataFrame:
    """Aggregates whose buffers are encoded by Spark's own serializers."""
    return (
        read(spark, folder)
        .groupBy("n")
        .agg(
            F.collect_set("s").alias("set"),
            F.approx_count_distinct("id").alias("ids"),
            F.stddev("v").alias("deviation"),
        )
        .withColumn("set", F.sort_array("set"))
    )


def deduplicate(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder).dropDuplicates(["id"])


def deduplicate_wide(spark: SparkSession, folder: Path) -> DataFrame:
    """More than four columns: from there on Scala orders a set by hashes."""
    made = read(spark, folder).selectExpr(
        "concat('k', id % 5) AS k", "id", "id / 4 AS v", "int(id % 3) AS n", "id % 2 = 0 AS s"
    )
    return made.dropDuplicates(["k", "id", "v", "n", "s"])


def deduplicate_alike(spark: SparkSession, folder: Path) -> DataFrame:
    """The same with columns of one type, which Spark's check of the schema cannot tell apart."""
    names = ["apple", "berry", "cherry", "date", "elder"]
    made = [f"string(id % {n + 3} + {n}00) AS {name}" for n, name in enumerate(names)]
    return read(spark, folder).selectExpr(*made).dropDuplicates(names)


def deduplicate_watermark(spark: SparkSession, folder: Path) -> DataFrame:
    return marked(spark, folder).dropDuplicates(["id", "ts"])


def deduplicate_within_watermark(spark: SparkSession, folder: Path) -> DataFrame:
    return marked(spark, folder).dropDuplicatesWithinWatermark(["id"])


def join_of(how: str) -> Callable[[SparkSession, Path], DataFrame]:
    def rows(spark: SparkSession, folder: Path) -> DataFrame:
        left = marked(spark, folder).select("id", "k", "v", "ts").alias("l")
        right = marked(spark, folder, "right").select("id", "s", "ts").alias("r")
        near = "l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 15 SECONDS"
        joined = left.join(right, F.expr(near), how)
        if how == "left_semi":
            return joined.select("l.id", "l.k", "l.v", "l.ts")
        return joined.select(
            F.col("l.id").alias("id"), "l.k", "l.v", F.col("r.s").alias("s"), "r.ts"
        )

    return rows


def deduplicate_aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    distinct = marked(spark, folder).dropDuplicates(["id", "ts"])
    return distinct.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("v"))


def join_aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    left = marked(spark, folder).select("id", "v", "ts").alias("l")
    right = marked(spark, folder, "right").select("id", "s", "ts").alias("r")
    near = "l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 15 SECONDS"
    joined = left.join(right, F.expr(near)).select(F.col("l.ts").alias("ts"), "l.v")
    return joined.groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("v"))


def union_aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    """Two streams in one, each with a watermark of its own: the slower one counts."""
    left = marked(spark, folder).select("k", "v", "ts")
    right = read(spark, folder, "right").withWatermark("ts", "12 seconds").select("k", "v", "ts")
    grouped = left.unionByName(right).groupBy(F.window("ts", "10 seconds"), "k")
    return grouped.agg(F.count("*").alias("c"), F.sum("v").alias("v"))


def aggregate_aggregate(spark: SparkSession, folder: Path) -> DataFrame:
    """Windows of windows."""
    small = marked(spark, folder).groupBy(F.window("ts", "5 seconds"), "k")
    sums = small.agg(F.sum("v").alias("v"))
    return sums.groupBy(F.window("window", "10 seconds")).agg(F.max("v").alias("v"))


def python_source(spark: SparkSession, folder: Path) -> DataFrame:
    """Read from a data source that is written in Python."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Lines(SimpleDataSourceStreamReader):
        def __init__(self, place: str) -> None:
            self.place = place

        def initialOffset(self) -> dict[str, int]:
            return {"file": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
            from pathlib import Path

            files = sorted(Path(self.place).glob("*.json"))
            return self.rows(files[start["file"] :]), {"file": len(files)}

        def readBetweenOffsets(
            self, start: dict[str, int], end: dict[str, int]
        ) -> Iterator[tuple[str, int]]:
            from pathlib import Path

            return self.rows(sorted(Path(self.place).glob("*.json"))[start["file"] : end["file"]])

        def rows(self, files: list[Path]) -> Iterator[tuple[str, int]]:
            import json

            lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
            return iter([(line["k"], line["id"]) for line in lines])

        def commit(self, end: dict[str, int]) -> None:
            pass

    class Own(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lines"

        def schema(self) -> str:
            return "k string, id bigint"

        def simpleStreamReader(self, schema: Any) -> Lines:
            return Lines(self.options["place"])

    spark.dataSource.register(Own)
    return spark.readStream.format("lines").option("place", str(folder / "left")).load()


def session_window(spark: SparkSession, folder: Path) -> DataFrame:
    grouped = marked(spark, folder).groupBy(F.session_window("ts", "4 seconds"), "k")
    return grouped.agg(F.count("*").alias("c"), F.sum("v").alias("v"))


def limit(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder).select("id", "k", "v").limit(40)


def groups_with_state(spark: SparkSession, folder: Path) -> DataFrame:
    import pandas as pd

    def counted(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        count, total = state.get if state.exists else (0, 0.0)
        for frame in frames:
            count, total = count + len(frame), total + float(frame["v"].sum())
        state.update((count, total))
        yield pd.DataFrame({"k": [key[0]], "c": [count], "v": [total]})

    grouped = read(spark, folder).where("k IS NOT NULL").groupBy("k")
    return grouped.applyInPandasWithState(
        counted, "k string, c bigint, v double", "c bigint, v double", "update", "NoTimeout"
    )


def variables(spark: SparkSession, folder: Path, *, with_list: bool) -> DataFrame:
    """
    Keep state variables.

    A list is apart: RocksDB merges what is appended, and Spark 4.2 changed how.
    """
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Counted(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "c bigint")
            self.seen = handle.getMapState("seen", "n int", "times bigint")
            if with_list:
                self.ids = handle.getListState("ids", "id bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            count = self.count.get()[0] if self.count.exists() else 0
            for frame in rows:
                count += len(frame)
                if with_list:
                    self.ids.appendList([(int(id),) for id in frame["id"]])
                for n in frame["n"].tolist():
                    times = self.seen.getValue((n,))[0] if self.seen.containsKey((n,)) else 0
                    self.seen.updateValue((n,), (times + 1,))
            self.count.update((count,))
            different = len(list(self.seen.keys()))
            total = sum(row[0] for row in self.ids.get()) if with_list else 0
            yield pd.DataFrame({"k": [key[0]], "c": [count], "d": [different], "i": [total]})

        def close(self) -> None:
            pass

    grouped = read(spark, folder).where("k IS NOT NULL").groupBy("k")
    return grouped.transformWithStateInPandas(
        Counted(), "k string, c bigint, d bigint, i bigint", "Update", "None"
    )


def timers(spark: SparkSession, folder: Path) -> DataFrame:
    """Timers of event time, which are state of their own."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Reminded(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", "c bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            count = self.count.get()[0] if self.count.exists() else 0
            newest = 0
            for frame in rows:
                count += len(frame)
                newest = max(newest, int(frame["ts"].max().timestamp() * 1000))
            self.count.update((count,))
            self.handle.registerTimer(newest + 3_000)
            yield pd.DataFrame({"k": [key[0]], "c": [count], "what": ["rows"]})

        def handleExpiredTimer(self, key: Any, timers: Any, expired: Any) -> Iterator[Any]:
            count = self.count.get()[0] if self.count.exists() else 0
            at = str(expired.getExpiryTimeInMs())
            yield pd.DataFrame({"k": [key[0]], "c": [count], "what": [at]})

        def close(self) -> None:
            pass

    grouped = marked(spark, folder).where("k IS NOT NULL").groupBy("k")
    return grouped.transformWithStateInPandas(
        Reminded(), "k string, c bigint, what string", "Update", "EventTime"
    )


def expiring(spark: SparkSession, folder: Path) -> DataFrame:
    """Variables with a time to live, which is longer than a measurement."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Forgetting(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            day = 86_400_000
            self.count = handle.getValueState("count", "c bigint", day)
            self.seen = handle.getMapState("seen", "n int", "times bigint", day)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            count = self.count.get()[0] if self.count.exists() else 0
            for frame in rows:
                count += len(frame)
                for n in frame["n"].tolist():
                    times = self.seen.getValue((n,))[0] if self.seen.containsKey((n,)) else 0
                    self.seen.updateValue((n,), (times + 1,))
            self.count.update((count,))
            yield pd.DataFrame({"k": [key[0]], "c": [count], "d": [len(list(self.seen.keys()))]})

        def close(self) -> None:
            pass

    grouped = read(spark, folder).where("k IS NOT NULL").groupBy("k")
    return grouped.transformWithStateInPandas(
        Forgetting(), "k string, c bigint, d bigint", "Update", "ProcessingTime"
    )


def transform_with_state(spark: SparkSession, folder: Path) -> DataFrame:
    return variables(spark, folder, with_list=False)


def transform_with_state_list(spark: SparkSession, folder: Path) -> DataFrame:
    return variables(spark, folder, with_list=True)


SHAPES = {
    "stateless": Shape(stateless),
    "stateless_file_sink": Shape(stateless, to_files=True),
    "window_aggregate": Shape(window_aggregate),
    "window_aggregate_file_sink": Shape(window_aggregate, to_files=True),
    "aggregate_update": Shape(aggregate, "update"),
    "aggregate_complete": Shape(aggregate, "complete"),
    "aggregate_objects": Shape(aggregate_distinct, "update"),
    "deduplicate": Shape(deduplicate),
    "deduplicate_wide": Shape(deduplicate_wide),
    "deduplicate_alike": Shape(deduplicate_alike),
    "deduplicate_watermark": Shape(deduplicate_watermark),
    "deduplicate_within_watermark": Shape(deduplicate_within_watermark),
    "inner_join": Shape(join_of("inner")),
    "left_outer_join": Shape(join_of("left_outer")),
    "right_outer_join": Shape(join_of("right_outer")),
    "full_outer_join": Shape(join_of("full_outer")),
    "left_semi_join": Shape(join_of("left_semi")),
    "deduplicate_aggregate": Shape(deduplicate_aggregate),
    "join_aggregate": Shape(join_aggregate),
    "session_window": Shape(session_window),
    "limit": Shape(limit),
    "groups_with_state": Shape(groups_with_state, "update"),
    "transform_with_state": Shape(transform_with_state, "update"),
    "transform_with_state_list": Shape(transform_with_state_list, "update"),
    "transform_with_state_timers": Shape(timers, "update"),
    "transform_with_state_ttl": Shape(expiring, "update"),
    "union_aggregate": Shape(union_aggregate),
    "aggregate_aggregate": Shape(aggregate_aggregate),
    "python_source": Shape(python_source),
}
