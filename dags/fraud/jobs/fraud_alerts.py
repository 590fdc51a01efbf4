"""
Fraud: the same card in two places too far apart to travel between in that time.

    spark-submit --py-files fraud_rule.py fraud_alerts.py --input /data/payments --database alerts.db
    spark-submit --py-files ... --input /data/payments --database postgresql://user@host/alerts

An alert is a pair of payments, so that it does not matter in which order they arrive. The rule is a
plain function in ``fraud_rule``; two state APIs of Spark carry its history: ``transformWithState`` (4.0 and newer, with
a list, a map with an expiry, a timer, and an initial state) and ``applyInPandasWithState`` (3.5).
Alerts are written together with the number of their batch in one transaction: a batch that Spark
runs a second time finds its number and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fraud_rule
import pandas as pd
from fraud_rule import Alert, Payment, judge
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

PAYMENT = "id string, card string, city string, lat double, lon double, cents long, ts timestamp"
ALERT = "card string, first string, second string, km long, minutes long"
# Python's applyInPandasWithState takes no arrays in its state (measured on 4.3.0): text it is.
HISTORY = "payments string"

LATENESS = "1 hour"
SILENT_SECONDS = 6 * 3600

# The process that runs a state function beside the driver knows nothing of --py-files.
cloudpickle.register_pickle_by_value(fraud_rule)


def payments_in(frame: pd.DataFrame) -> list[Payment]:
    """Return the rows of a frame as payments."""
    seconds = frame["ts"].astype("datetime64[s]").astype("int64")
    columns = (frame["id"], seconds, frame["lat"], frame["lon"])
    return [(str(i), int(t), float(a), float(o)) for i, t, a, o in zip(*columns, strict=True)]


def alerts_of(card: str, alerts: Iterable[Alert]) -> pd.DataFrame:
    """Return alerts as a frame of the shape ``ALERT``."""
    rows = [(card, *alert) for alert in alerts]
    return pd.DataFrame(rows, columns=["card", "first", "second", "km", "minutes"])


def new_processor() -> Any:
    """Return the state function for ``transformWithState``; Spark before 4.0 has no such class."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Cards(StatefulProcessor):
        """
        The payments of a card (a list), how often it was in which city (a map), and a timer.

        The timer is on the clock of the events. Variables with a time to live need the machine's
        clock, with which Spark makes one batch after the other even without data: ``availableNow``
        never ends then (measured on 4.3.0).
        """

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.payments = handle.getListState(
                "payments", "id string, at long, lat double, lon double"
            )
            self.cities = handle.getMapState("cities", "city string", "times long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            arrived: list[Payment] = []
            for frame in rows:
                arrived += payments_in(frame)
                for city, times in frame["city"].value_counts().items():
                    self._count(str(city), int(times))
            history = [(r[0], r[1], r[2], r[3]) for r in self.payments.get()]
            kept, alerts = judge(history, arrived)
            self.payments.put(kept)
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            self.handle.registerTimer((kept[-1][1] + SILENT_SECONDS) * 1000)
            yield alerts_of(key[0], alerts)

        def handleExpiredTimer(self, key: Any, timers: Any, expired: Any) -> Iterator[Any]:
            # The card was silent for so long that no payment to come can be a partner.
            self.payments.clear()
            self.cities.clear()
            yield alerts_of(key[0], ())

        def handleInitialState(self, key: Any, initial: Any, timers: Any) -> None:
            self.payments.put(judge((), payments_in(initial))[0])

        def close(self) -> None:
            return None

        def _count(self, city: str, times: int) -> None:
            if self.cities.containsKey((city,)):
                times += self.cities.getValue((city,))[0]
            self.cities.updateValue((city,), (times,))

    return Cards()


def with_pandas_state(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[Any]:
    """Do the same with ``applyInPandasWithState``."""
    if state.hasTimedOut:
        state.remove()
        return
    history = [(i, t, a, o) for i, t, a, o in json.loads(state.get[0])] if state.exists else []
    arrived = [payment for frame in frames for payment in payments_in(frame)]
    kept, alerts = judge(history, arrived)
    state.update((json.dumps(kept),))
    state.setTimeoutTimestamp((kept[-1][1] + SILENT_SECONDS) * 1000)
    yield alerts_of(key[0], alerts)


def alerts(payments: DataFrame, api: str, initial: DataFrame | None) -> DataFrame:
    """Return the alerts, by one of Spark's two state APIs."""
    cards = payments.groupBy("card")
    if api == "pandas":
        return cards.applyInPandasWithState(
            with_pandas_state, ALERT, HISTORY, "append", GroupStateTimeout.EventTimeTimeout
        )
    return cards.transformWithStateInPandas(
        statefulProcessor=new_processor(),
        outputStructType=ALERT,
        outputMode="append",
        timeMode="eventTime",
        initialState=initial.groupBy("card") if initial is not None else None,
    )


def connect(database: str) -> Any:
    """Open SQLite by its path, PostgreSQL by its URL."""
    if "://" not in database:
        Path(database).parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(database, timeout=60)
    import psycopg

    return psycopg.connect(database)


def into_table(database: str, query: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that writes a batch and its number in one transaction, or nothing."""
    mark = "%s" if "://" in database else "?"
    tables = (
        """CREATE TABLE IF NOT EXISTS alerts (card text, first text, second text, km bigint,
        minutes bigint)""",
        "CREATE TABLE IF NOT EXISTS batches (query text, batch bigint, PRIMARY KEY (query, batch))",
    )

    def write(batch: DataFrame, number: int) -> None:
        rows = [tuple(row) for row in batch.collect()]
        with closing(connect(database)) as connection, connection:
            cursor = connection.cursor()
            for table in tables:
                cursor.execute(table)
            cursor.execute(
                f"INSERT INTO batches VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING",  # noqa: S608
                (query, number),
            )
            if cursor.rowcount:
                row = ", ".join([mark] * 5)
                cursor.executemany(f"INSERT INTO alerts VALUES ({row})", rows)  # noqa: S608

    return write


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Alerts of cards in two places at once.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--initial", help="folder of payments from before, as JSON lines")
    parser.add_argument("--database", required=True, help="file of SQLite or URL of PostgreSQL")
    parser.add_argument("--state-api", choices=("transform", "pandas"), default="transform")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("fraud_alerts")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(arguments.input)
    payments = (
        lines.select(F.from_json("value", PAYMENT).alias("payment"))
        .where("payment.id is not null")
        .select("payment.*")
        .withWatermark("ts", LATENESS)
    )
    initial = None
    if arguments.initial:
        initial = spark.read.schema(PAYMENT).json(arguments.initial)
    query = (
        alerts(payments, arguments.state_api, initial)
        .writeStream.queryName("alerts")
        .outputMode("append")
        .foreachBatch(into_table(arguments.database, "alerts"))
        .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
