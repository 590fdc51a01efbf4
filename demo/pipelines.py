"""The example pipelines that ``make demo PIPELINE=...`` starts: which dag, which events, where to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from demo.events import Shop, drop, synthetic_files
from demo.feeds.__main__ import paced, to_socket, to_topic
from demo.feeds.shapes import FEEDS
from demo.figures import iceberg_rows, parquet_rows, table_rows, topic_rows
from demo.stage import MARK, REPOSITORY, Stage

FILES: Final = 3650
SOCKET_PORT: Final = 9999
KAFKA_PORT: Final = 19192
ICEBERG_JAR: Final = REPOSITORY / ".runtimes" / "iceberg" / "iceberg-spark-runtime.jar"
JOBS: Final = REPOSITORY / "dags"
ORDERS: Final = "order_lines"
"""The feed of the main job."""


def variables(folder: Path, runtime: Path) -> dict[str, str]:
    """Return the Airflow variables of the examples, as environment variables."""
    given = {
        "UPSERT_DATABASE": folder / "upsert.db",
        "MODELS": folder / "models",
        "SPARK_PYTHON": runtime.absolute() / "bin" / "python",
        "KAFKA_SERVERS": f"127.0.0.1:{KAFKA_PORT}",
        "ICEBERG_JAR": ICEBERG_JAR,
    }
    return {f"AIRFLOW_VAR_{name}": str(value) for name, value in given.items()}


def _nothing(stage: Stage) -> None:
    """Prepare nothing."""


def _products(stage: Stage) -> None:
    folder = stage.folder / "input" / "products"
    folder.mkdir(parents=True)
    names = ("teapot", "lantern", "ruler", "parcel")
    rows = (f"p{number},{name}\n" for number, name in enumerate(names, 1))
    (folder / "names.csv").write_text("".join(rows))


def _socket(stage: Stage) -> None:
    def serve() -> None:
        while True:
            # A reader that was killed breaks the connection; the next one connects anew.
            with contextlib.suppress(OSError):
                to_socket(paced(FEEDS["mentions"].files(FILES), 2.0), SOCKET_PORT)

    threading.Thread(target=serve, name="socket-feed", daemon=True).start()


def _model(stage: Stage) -> None:
    """Train the first model on readings that are not those of the stream."""
    past = stage.folder / "past"
    for name, content in FEEDS["sensors"].files(4, seed=1):
        drop(past, name, content)
    program = [stage.runtime / "bin" / "python", JOBS / "scoring" / "jobs" / "train_model.py"]
    options = ["--input", past, "--model", stage.folder / "models" / "first"]
    environment = {**os.environ, MARK: str(stage.folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*program, *options], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"The model cannot be trained: {done.stderr[-2000:]}")


def _broker(stage: Stage) -> None:
    """Start a Kafka-protocol broker, and send to two topics."""
    command = [Path(sys.executable).parent / "noida-db", "start", "--only", "kafka"]
    options = ["--data-dir", stage.folder / "kafka", "--kafka-port", str(KAFKA_PORT)]
    stage.start_helper([*command, *options])
    for feed in ("clicks", "payments"):
        files = paced(FEEDS[feed].files(FILES), 3.0)
        target = (files, f"127.0.0.1:{KAFKA_PORT}", feed)
        threading.Thread(target=to_topic, args=target, name=feed, daemon=True).start()


def _in_folders(stage: Stage) -> Mapping[str, int]:
    return parquet_rows(Path(stage.stream.output))


def _on_console(stage: Stage) -> Mapping[str, int]:
    return {}


def _alerts(stage: Stage) -> Mapping[str, int]:
    return table_rows(Path(stage.stream.output) / "alerts.db")


def _accounts(stage: Stage) -> Mapping[str, int]:
    return table_rows(stage.folder / "upsert.db")


def _tables(stage: Stage) -> Mapping[str, int]:
    return iceberg_rows(Path(stage.stream.output) / "bank")


def _messages(stage: Stage) -> Mapping[str, int]:
    return topic_rows(f"127.0.0.1:{KAFKA_PORT}", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """
    One example.

    :param name: Name of its dag, its stream and its folder under ``dags``.
    :param shows: What it shows, for the list.
    :param feed: Name of its feed; ``None`` when ``prepare`` sends the events.
    :param every: Seconds between two files.
    :param prepare: Puts what it needs beside the events into the folder of all inputs.
    :param written: Counts the rows of its output, by the name of each part.
    :param parts: Names of the parts that have rows after a while; none where nothing can be counted.
    :param ahead: Files that are there before it is started.
    :param ends: It reads what is there and ends, on a schedule.
    :param gives_up: Kind of the failure with which it gives up after a kill; empty where it continues.
    :param runtime: Folder in ``.runtimes`` of the Spark that it runs on; empty for that of the demo.
    :param needs: Folders in ``.runtimes`` that it needs beside.
    """

    name: str
    shows: str
    feed: str | None
    every: float = 3.0
    prepare: Callable[[Stage], None] = _nothing
    written: Callable[[Stage], Mapping[str, int]] = _in_folders
    parts: tuple[str, ...] = ("rows",)
    ahead: int = 0
    ends: bool = False
    gives_up: str = ""
    runtime: str = ""
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder of its events, below that of all inputs."""
        return self.feed or "nothing"

    def has_written(self, stage: Stage) -> bool:
        """Tell whether every part of its output has rows."""
        counted = self.written(stage)
        return all(counted.get(part) for part in self.parts)

    def runtimes(self) -> dict[str, Path]:
        """
        Return the Spark that it needs beside the one that every demo has.

        :raises RuntimeError: something that it needs is not there.
        """
        wanted = filter(None, (self.runtime, *self.needs))
        folders = {name: REPOSITORY / ".runtimes" / name for name in wanted}
        missing = [str(path) for path in folders.values() if not path.is_dir()]
        if missing:
            raise RuntimeError(
                f"Example {self.name!r} needs {' and '.join(missing)}, which is not there. "
                f"'make demo PIPELINE={self.name}' fetches it where it can be had."
            )
        return {name: folder for name, folder in folders.items() if name == self.runtime}

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield names and contents of the files that arrive."""
        if self.feed == ORDERS:
            return synthetic_files(FILES, Shop())
        return FEEDS[self.feed].files(FILES) if self.feed else iter(())

    def make_ready(self, stage: Stage, files: Iterator[tuple[str, str]]) -> None:
        """Prepare it, and let the first of its files arrive."""
        self.prepare(stage)
        for name, content in islice(files, self.ahead):
            drop(stage.orders, name, content)


SENSORS: Final = ("counts", "alerts", "broken")
PIPELINES: Final = {
    one.name: one
    for one in (
        Pipeline(
            name="first_stream",
            shows="word count over files, the first stream",
            feed="mentions",
            written=_on_console,
            parts=(),
        ),
        Pipeline(
            name="socket_words",
            shows="a source that cannot be replayed: a kill ends the stream",
            feed=None,
            prepare=_socket,
            written=_on_console,
            parts=(),
            gives_up="source_not_replayable",
        ),
        Pipeline(
            name="iot",
            shows="windows and rules of sensors, three queries",
            feed="sensors",
            parts=SENSORS,
        ),
        Pipeline(
            name="clickstream",
            shows="sessions, stream-stream and stream-static joins",
            feed="clicks",
            prepare=_products,
            parts=("sessions", "attributed"),
        ),
        Pipeline(
            name="fraud",
            shows="state of your own, exactly-once alerts",
            feed="payments",
            written=_alerts,
            parts=("alerts",),
        ),
        Pipeline(name="social", shows="trending topics and their mood", feed="mentions"),
        Pipeline(
            name="upsert",
            shows="merge into a table, exactly once",
            feed="accounts",
            written=_accounts,
            parts=("accounts",),
        ),
        Pipeline(
            name="lake",
            shows="append, merge and read Iceberg tables, on Spark 3.5",
            feed="accounts",
            written=_tables,
            parts=("changes", "accounts", "closures"),
            runtime="spark-3.5",
            needs=("iceberg",),
        ),
        Pipeline(
            name="schema_evolution",
            shows="bad records, changing shapes",
            feed="orders",
            parts=("orders", "bad_records", "totals"),
        ),
        Pipeline(
            name="kafka_to_kafka",
            shows="several topics into one, with headers",
            feed=None,
            prepare=_broker,
            written=_messages,
            parts=("events",),
        ),
        Pipeline(
            name="scoring",
            shows="a model in a stream, another one by blue-green",
            feed="sensors",
            prepare=_model,
        ),
        Pipeline(
            name="triggers",
            shows="a stream that ends, on a schedule",
            feed="clicks",
            # Many batches, so that there is a driver to be killed.
            ahead=60,
            ends=True,
        ),
        Pipeline(
            name="efficiency",
            shows="fair pools and the production profile",
            feed="sensors",
            parts=SENSORS,
        ),
        Pipeline(
            name="load_and_chaos",
            shows="ten times the load, and drivers killed at random, by a dag each",
            feed=ORDERS,
        ),
    )
}
"""The examples by name, in the order in which a newcomer may want them."""


def listing() -> str:
    """Return the list of the examples as lines."""
    width = max(map(len, PIPELINES)) + 2
    lines = [f"  {one.name:<{width}}{one.shows}" for one in PIPELINES.values()]
    return "\n".join(["Other examples, each by make demo PIPELINE=<name>:", *lines])
