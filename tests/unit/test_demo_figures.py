"""What the demo counts lies on the disk: logs of files, offsets, tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.figures import Figures, figures, iceberg_rows, parquet_rows, rows_read, table_rows
from demo.pipelines import PIPELINES
from tests.unit.world import World

QUERY = "counts"


def log(folder: Path, name: str, *lines: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / name).write_text("\n".join(("v1", *shown)))


def checkpoint(folder: Path, offsets: Sequence[Any], committed: int) -> Path:
    """Write a checkpoint with one source, of which some batches are committed."""
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "2d1c2a3e-0000-4000-8000-000000000001"}))
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    for batch, offset in enumerate(offsets):
        log(folder / "offsets", str(batch), about, offset)
    for batch in range(committed):
        log(folder / "commits", str(batch), {"nextBatchWatermarkMs": 0})
    return folder


def taken(folder: Path, *names: str, compacted: int = 0) -> None:
    """Write the log of a file source; the first batches into one file."""
    entries = [
        {"path": (folder.parent / name).as_uri(), "timestamp": 1, "batchId": batch}
        for batch, name in enumerate(names)
    ]
    sources = folder / "sources" / "0"
    if compacted:
        log(sources, f"{compacted - 1}.compact", *entries[:compacted])
    for batch, entry in enumerate(entries[compacted:], compacted):
        log(sources, str(batch), entry)


@pytest.mark.parametrize("compacted", [0, 2])
def test_rows_of_files_count_up_to_the_newest_commit(tmp_path: Path, compacted: int) -> None:
    for number, name in enumerate(("a b.json", "b.json", "c.json"), 1):
        (tmp_path / name).write_text("{}\n" * number)
    made = checkpoint(tmp_path / QUERY, [{"logOffset": batch} for batch in range(3)], committed=2)
    taken(made, "a b.json", "b.json", "c.json", compacted=compacted)

    assert rows_read(made) == 1 + 2


def test_rows_of_partitions_are_their_offsets(tmp_path: Path) -> None:
    offsets = [{"clicks": {"0": 5, "1": 2}}, {"clicks": {"0": 9, "1": 4}, "payments": {"0": 1}}]

    assert rows_read(checkpoint(tmp_path / "a", offsets, committed=1)) == 7
    assert rows_read(checkpoint(tmp_path / "b", offsets, committed=2)) == 14


def test_rows_of_a_socket_are_those_of_its_newest_connection(tmp_path: Path) -> None:
    assert rows_read(checkpoint(tmp_path / "a", ["-1", "530", "19"], committed=3)) == 20
    assert rows_read(checkpoint(tmp_path / "b", ["-1"], committed=1)) == 0


def test_the_first_line_of_a_csv_file_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,price\nteapot,3\nruler,1\n")
    made = checkpoint(tmp_path / QUERY, [{"logOffset": 0}], committed=1)
    taken(made, "a.csv")

    assert rows_read(made) == 2


ICEBERG = {"version": 1, "snapshot_id": 9, "position": 3, "scan_all_files": False}


def test_offsets_of_a_table_count_no_rows(tmp_path: Path) -> None:
    assert rows_read(checkpoint(tmp_path / QUERY, [ICEBERG], committed=1)) is None


@pytest.mark.parametrize("committed", [0, None], ids=["no commit", "no checkpoint"])
def test_a_query_that_has_committed_nothing_has_read_nothing(
    tmp_path: Path, committed: int | None
) -> None:
    made = tmp_path / QUERY
    if committed is None:
        made.mkdir()
    else:
        checkpoint(made, [{"logOffset": 0}], committed)

    assert rows_read(made) == 0


def parquet(file: Path, rows: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    import pyarrow.parquet  # loads numpy

    pyarrow.parquet.write_table(pyarrow.table({"n": range(rows)}), file)
    return file


def test_of_a_file_sink_only_the_files_count_that_its_log_names(tmp_path: Path) -> None:
    for name, rows in (("counts", 3), ("alerts", 1)):
        file = parquet(tmp_path / name / "part-1.parquet", rows)
        parquet(tmp_path / name / "part-2.parquet", 100)
        entry = {"path": file.as_uri(), "size": 1, "isDir": False, "modificationTime": 1}
        more = {"blockReplication": 1, "blockSize": 1, "action": "add"}
        log(tmp_path / name / "_spark_metadata", "0", entry | more)

    assert parquet_rows(tmp_path) == {"alerts": 1, "counts": 3}


def test_of_a_function_every_batch_counts_once(tmp_path: Path) -> None:
    for batch, rows in enumerate((2, 5)):
        parquet(tmp_path / "trends" / f"batch={batch:06}" / "part.parquet", rows)

    assert parquet_rows(tmp_path) == {"trends": 7}
    assert parquet_rows(tmp_path / "trends") == {"rows": 7}
    assert parquet_rows(tmp_path / "nothing") == {}


def test_tables_count_but_not_those_of_batch_numbers(tmp_path: Path) -> None:
    database = tmp_path / "alerts.db"
    assert table_rows(database) == {}
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE alerts (n bigint)")
        connection.execute("CREATE TABLE batches (n bigint)")
        connection.execute("INSERT INTO alerts VALUES (1), (2)")

    assert table_rows(database) == {"alerts": 2}


def test_rows_of_an_iceberg_table_are_those_of_its_newest_snapshot(tmp_path: Path) -> None:
    for name, version, current in (("changes", 3, 12), ("empty", 1, None)):
        metadata = tmp_path / name / "metadata"
        metadata.mkdir(parents=True)
        (metadata / "version-hint.text").write_text(str(version))
        snapshots = [
            {"snapshot-id": number, "summary": {"total-records": str(rows)}}
            for number, rows in ((11, 40), (12, 80))
            if current
        ]
        about = {"current-snapshot-id": current, "snapshots": snapshots}
        (metadata / f"v{version}.metadata.json").write_text(json.dumps(about))

    assert iceberg_rows(tmp_path) == {"changes": 80, "empty": 0}


def progress(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "000001.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")


def test_late_rows_of_a_batch_that_ran_in_two_epochs_count_once(world: World) -> None:
    world.run()
    first = world.epoch()
    world.home.create_epoch(replace(first, number=2, cause=type(first.cause).RESTART))
    for epoch, batches in ((1, (0, 1)), (2, (1, 2))):
        rows = [{"query": QUERY, "batch_id": batch, "dropped_rows": 2} for batch in batches]
        progress(Path(world.uri, f"orders/epochs/{epoch:06}/progress"), rows)

    found = figures(world.home, {"rows": 9})
    assert found.late == {QUERY: 6}
    assert found.written == {"rows": 9}
    assert found.restarts == 1


def test_where_offsets_count_no_rows_the_reports_do(world: World) -> None:
    world.run()
    root = Path(world.home.newest_deployment().checkpoint)
    checkpoint(root / QUERY, [ICEBERG], committed=1)
    rows = [{"query": QUERY, "batch_id": batch, "input_rows": 4} for batch in (0, 1, 1)]
    progress(Path(world.uri, "orders/epochs/000001/progress"), rows)

    assert figures(world.home, {}).read == {QUERY: 8}


def test_figures_are_one_line() -> None:
    found = Figures(read={"a": 3}, late={}, written={"x": 1, "y": 2}, restarts=1)

    assert str(found) == "in 3 a; late -; out 1 x, 2 y; restarts 1"


def test_the_scheduled_example_ends_and_has_its_files_before_it_starts() -> None:
    assert [one.name for one in PIPELINES.values() if one.ends] == ["triggers"]
    assert [one.name for one in PIPELINES.values() if one.ahead] == ["triggers"]


@pytest.mark.parametrize(
    ("counted", "has_written"),
    [
        ({}, False),
        ({"counts": 3}, False),
        ({"counts": 3, "alerts": 0, "broken": 1}, False),
        ({"counts": 3, "alerts": 2, "broken": 1}, True),
    ],
)
def test_an_example_has_written_when_every_part_has_rows(
    counted: dict[str, int], has_written: bool
) -> None:
    example = replace(PIPELINES["iot"], written=lambda _: counted)

    assert example.has_written(SimpleNamespace()) is has_written


def test_files_that_are_there_before_do_not_arrive_again(tmp_path: Path) -> None:
    example, stage = replace(PIPELINES["triggers"], ahead=3), SimpleNamespace(orders=tmp_path)
    files = example.files()
    example.make_ready(stage, files)

    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{n:06}.json" for n in range(3)]
    assert next(files)[0] == "000003.json"
