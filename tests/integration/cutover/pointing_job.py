"""Moves a view and a table in one Spark while queries read them; writes what was seen as JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_streaming.driver.jobs.pointing import answer_to
from airflow_streaming.model.jobs.pointing import CatalogOrder, Entry, Mark
from tests.patience import PATIENCE

ROWS = 20
MOVES = 4

Say = Callable[[Entry, str, int], str]


def main(folder: Path) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        )
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    lanes = {}
    for lane in ("orders", "orders.green"):
        lanes[lane] = f"file://{folder}/{lane}"
        rows = session.range(ROWS).selectExpr("id", f"'{lane}' AS lane")
        rows.coalesce(1).write.parquet(lanes[lane])
    session.sql("CREATE VIEW strange AS SELECT 1 AS one")
    session.sql("CREATE VIEW adopted AS SELECT 1 AS one")
    session.sql("ALTER VIEW adopted SET TBLPROPERTIES ('airflow_streaming.stream' = 'orders')")
    for name, mark in (
        ("led", " TBLPROPERTIES ('airflow_streaming.stream'='orders')"),
        ("own", ""),
    ):
        session.sql(
            f"CREATE EXTERNAL TABLE {name} (id BIGINT, lane STRING) STORED AS PARQUET "
            f"LOCATION '{lanes['orders']}'{mark}"
        )
    session.sql(
        f"CREATE EXTERNAL TABLE parted (id BIGINT) PARTITIONED BY (lane STRING) STORED AS PARQUET "
        f"LOCATION '{folder}/parted' TBLPROPERTIES ('airflow_streaming.stream'='orders')"
    )

    def say(entry: Entry, name: str, number: int, *, undone: bool = False, **other: str) -> str:
        lane = "orders" if (number % 2 == 0) != undone else "orders.green"
        mark = Mark(
            stream=other.get("stream", "orders"),
            lane=lane,
            deployment=1,
            output=lanes[lane],
            number=number,
            undone=undone,
        )
        order = CatalogOrder(
            entry=entry,
            name=f"`{name}`",
            wanted=mark,
            bodies={
                at: at if entry is Entry.TABLE else f"SELECT * FROM parquet.`{at}`"  # noqa: S608 - ours
                for at in lanes.values()
            },
            answer="",
            seconds=PATIENCE,
        )
        answer = answer_to(order)
        return answer.refused or answer.failed

    def lane_of(name: str) -> list[str]:
        session.catalog.refreshTable(name)
        return sorted({row.lane for row in session.table(name).select("lane").collect()})

    told: dict[str, object] = {}
    view = Entry.VIEW
    told["view"] = [
        [say(view, "live", 1), *lane_of("live")],
        [say(view, "live", 1), *lane_of("live")],
        [say(view, "live", 1, undone=True), *lane_of("live")],
        [say(view, "live", 1), *lane_of("live")],
        [say(view, "live", 3), *lane_of("live")],
        [say(view, "live", 4, stream="payments"), *lane_of("live")],
    ]
    told["strange"] = say(view, "strange", 1)
    told["adopted"] = [say(view, "adopted", 1), *lane_of("adopted")]
    told["table"] = [
        [say(Entry.TABLE, "led", 1), *lane_of("led")],
        [say(Entry.TABLE, "led", 1, undone=True), *lane_of("led")],
        [say(Entry.TABLE, "led", 1), *lane_of("led")],
    ]
    told["own"] = [say(Entry.TABLE, "own", 1), *lane_of("own")]
    told["parted"] = say(Entry.TABLE, "parted", 1)
    told["none"] = say(Entry.TABLE, "nowhere", 1)
    born = created(session, "live")
    told["race"] = [race(session, say, view, "live"), race(session, say, Entry.TABLE, "led")]
    told["born"] = [born, created(session, "live")]
    (folder / "told.json").write_text(json.dumps(told))
    session.stop()


def created(session: SparkSession, name: str) -> str:
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return next(row.data_type for row in rows if row.col_name == "Created Time")


def moved(
    say: Say, entry: Entry, name: str, number: int, ended: Mapping[str, threading.Semaphore]
) -> str:
    """Move once; every so often wait for a reader, so that reads lie between moves however slow they are."""
    answer = say(entry, name, number)
    if number % (MOVES // 4) == 0:
        for one in ended.values():
            one.acquire()
    return answer


def race(session: SparkSession, say: Say, entry: Entry, name: str) -> dict[str, object]:
    """Move while one reader reads all rows, and another only looks the name up, as often as he can."""
    done = threading.Event()
    seen: set[str] = set()
    wrong: list[str] = []
    counts = {"reads": 0, "looks": 0}
    ended = {count: threading.Semaphore(0) for count in counts}

    def read() -> None:
        rows = session.table(name).groupBy("lane").count().collect()
        seen.update(row["lane"] for row in rows)
        if [row["count"] for row in rows] != [ROWS]:
            wrong.append(str(rows))

    def again(work: Callable[[], object], count: str) -> None:
        while not done.is_set():
            try:
                work()
            except Exception as err:  # noqa: BLE001 - whatever a consumer gets is told
                wrong.append(f"{err}"[:300])
            counts[count] += 1
            ended[count].release()

    works = ((read, "reads"), (lambda: session.table(name), "looks"))
    readers = [threading.Thread(target=again, args=work) for work in works]
    for reader in readers:
        reader.start()
    began = time.monotonic()
    answers = [moved(say, entry, name, number, ended) for number in range(10, 10 + MOVES)]
    seconds = time.monotonic() - began
    done.set()
    for reader in readers:
        reader.join()
    return {
        **counts,
        "seen": sorted(seen),
        "wrong": wrong,
        "failed": [answer for answer in answers if answer],
        "seconds_a_move": round(seconds / MOVES, 3),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
