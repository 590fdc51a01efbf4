"""
What a stream has read and written, counted from what lies there and not from what it says.

Rows read are those of the files, or the offsets, up to the newest committed batch of the checkpoint;
rows written are those in the output. Only rows that came too late, and those read from a source whose
offsets count no rows, have no trace but the progress reports, of which a driver that is killed may keep
the last ten seconds to itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from airflow_streaming.checkpoints.read.file_logs import parse_sink_log, parse_source_log
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import positions

_SINK_LOG: Final = "_spark_metadata"
_NOT_ROWS: Final = frozenset({"batches"})
"""Tables of the examples that hold numbers of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """
    The figures of a stream's newest deployment.

    :param read: Rows that each query has read, by its name; none of a query without a checkpoint.
    :param late: Rows that each query dropped because they came behind the watermark.
    :param written: Rows of each part of the output, by its name.
    :param restarts: Drivers launched after a failure.
    """

    read: Mapping[str, int]
    late: Mapping[str, int]
    written: Mapping[str, int]
    restarts: int

    def __str__(self) -> str:
        parts = (("in", self.read), ("late", self.late), ("out", self.written))
        shown = [f"{name} {_listed(rows)}" for name, rows in parts]
        return f"{'; '.join(shown)}; restarts {self.restarts}"


def figures(home: StreamHome, written: Mapping[str, int]) -> Figures:
    """
    Count.

    :param home: The stream's records, on this host's disk.
    :param written: What the output was found to hold.
    """
    epochs = home.epoch_numbers()
    restarts = sum(home.epoch(number).cause == "restart" for number in epochs)
    return Figures(
        read=_read(home), late=_reported(home, "dropped_rows"), written=written, restarts=restarts
    )


def _read(home: StreamHome) -> dict[str, int]:
    deployment = home.newest_deployment()
    root = Path(deployment.checkpoint) if deployment is not None else None
    if root is None or not root.is_dir():
        return {}
    reported = _reported(home, "input_rows")
    counted = {one.name: rows_read(one) for one in sorted(root.iterdir()) if one.is_dir()}
    return {
        query: reported.get(query, 0) if rows is None else rows for query, rows in counted.items()
    }


def rows_read(checkpoint: Path) -> int | None:
    """
    Return the rows that the first source of a query gave to its committed batches.

    :return: ``None`` when its offsets, as those of an Iceberg table, count something else.
    """
    try:
        sources = inspect(str(checkpoint)).sources
    except CheckpointError:
        return 0
    if not sources or sources[0].committed is None:
        return 0
    offset = sources[0].committed
    if isinstance(offset, int):
        # A socket numbers the lines of its connection from 0.
        return offset + 1
    partitions = positions(offset)
    if partitions is not None:
        return int(sum(partitions.values()))
    if not isinstance(offset, Mapping) or "logOffset" not in offset:
        return None
    taken = files_taken(checkpoint, sources[0].name, int(offset["logOffset"]))
    return sum(map(_lines, taken))


def _lines(file: Path) -> int:
    lines = len(file.read_text().splitlines())
    # The first line of a CSV file names its columns.
    return max(0, lines - 1) if file.suffix == ".csv" else lines


def files_taken(checkpoint: Path, source: str, last: int) -> set[Path]:
    """Return the files that a source has taken, up to a number of its own log."""
    return {
        _local(entry.path)
        for log in (checkpoint / "sources" / source).iterdir()
        if not log.name.startswith(".")
        for entry in parse_source_log(log.read_bytes())
        if entry.batch <= last
    }


def _reported(home: StreamHome, figure: str) -> dict[str, int]:
    """Return the sum of a figure of each query's batches; a batch that ran twice counts once."""
    counted: dict[tuple[str, int], int] = {}
    for row in _progress(home):
        counted[row["query"], row["batch_id"]] = row.get(figure) or 0
    found: dict[str, int] = {}
    for (query, _), rows in counted.items():
        found[query] = found.get(query, 0) + rows
    return found


def _progress(home: StreamHome) -> Iterator[dict[str, Any]]:
    for epoch in home.epoch_numbers():
        folder = Path(home.store.uri, Layout(home.name).progress(epoch))
        for chunk in sorted(folder.glob("*.jsonl")):
            yield from map(json.loads, chunk.read_text().splitlines())


def parquet_rows(output: Path) -> dict[str, int]:
    """Return the rows of every output that a stream has written below a folder, by its name."""
    logs = [log.parent for log in output.rglob(_SINK_LOG)]
    found = {_name(folder, output): sum(map(_rows, _vouched(folder))) for folder in logs}
    for folder in sorted({file.parent for file in output.rglob("batch=*/*.parquet")}):
        # Of a function that writes each batch into a folder of its own.
        name = _name(folder.parent, output)
        found[name] = found.get(name, 0) + sum(map(_rows, folder.glob("*.parquet")))
    return dict(sorted(found.items()))


def _vouched(output: Path) -> set[Path]:
    """Return the files that the log of a file sink names."""
    log = output / _SINK_LOG
    entries = [
        entry
        for file in log.iterdir()
        if not file.name.startswith(".")
        for entry in parse_sink_log(file.read_bytes()).entries
    ]
    return {_local(entry.path) for entry in entries if entry.action == "add"}


def table_rows(database: Path) -> dict[str, int]:
    """Return the rows of every table of an SQLite database; none while it is not there."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        master = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = sorted(name for (name,) in master if name not in _NOT_ROWS)
        counts = (
            connection.execute(f'SELECT count(*) FROM "{name}"')  # noqa: S608
            for name in names
        )
        return {name: int(count.fetchone()[0]) for name, count in zip(names, counts, strict=True)}


def iceberg_rows(namespace: Path) -> dict[str, int]:
    """Return the rows of every table in a folder of a Hadoop catalog, by its newest snapshot."""
    found = {}
    for hint in sorted(namespace.glob("*/metadata/version-hint.text")):
        about = json.loads((hint.parent / f"v{hint.read_text().strip()}.metadata.json").read_text())
        current = about.get("current-snapshot-id")
        totals = [
            int(snapshot["summary"]["total-records"])
            for snapshot in about.get("snapshots", ())
            if snapshot["snapshot-id"] == current
        ]
        found[hint.parent.parent.name] = sum(totals)
    return found


def topic_rows(servers: str, topic: str) -> dict[str, int]:
    """Return the messages of a Kafka topic; none while there is no such topic."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "figures"})
    with closing(consumer), suppress(KafkaException):
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        marks = (consumer.get_watermark_offsets(TopicPartition(topic, one)) for one in partitions)
        return {topic: sum(high - low for low, high in marks)}
    return {}


def _rows(file: Path) -> int:
    import pyarrow.parquet  # loads numpy

    return int(pyarrow.parquet.read_metadata(file).num_rows)


def _local(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _name(folder: Path, output: Path) -> str:
    return "rows" if folder == output else folder.name


def _listed(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in rows.items()) or "-"
