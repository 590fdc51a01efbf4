"""The first unread version of a table, by its metadata files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.sources.table_files import (
    delta_outlook,
    iceberg_metadata,
    table_outlook,
)
from airflow_streaming.model.products.retention import LossGap
from airflow_streaming.model.products.table_retention import (
    IcebergPosition,
    delta_kept_for,
    delta_unread,
    iceberg_position,
    of_iceberg,
)
from airflow_streaming.model.storage import LocalStore

NOW = 1_795_000_000.0
DAY = 86_400.0


def commit(folder: Path, version: int, ago: float, **metadata: str) -> None:
    """Write a commit of a Delta table."""
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": int((NOW - ago) * 1000)}}]
    if metadata or version == 0:
        actions.append({"metaData": {"configuration": metadata}})
    actions.append({"add": {"path": "part-0.parquet", "size": 1}})
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    (log / f"{version:020}.crc").touch()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for version, days in enumerate((6, 4, 2, 1)):
        commit(tmp_path, version, days * DAY)
    return tmp_path


@pytest.mark.parametrize(
    ("unread", "days", "read_days"),
    [
        pytest.param(4, 7, 0, id="everything is read"),
        pytest.param(3, 6, 1, id="one version is unread"),
        pytest.param(1, 3, 4, id="three are"),
    ],
)
def test_a_delta_table_keeps_what_was_replaced_for_a_week(
    table: Path, unread: int, days: int, read_days: int
) -> None:
    found = delta_outlook(LocalStore(str(table)), unread, now=NOW)
    assert (found.seconds_left(NOW), found.read_until) == (days * DAY, NOW - read_days * DAY)


def test_the_properties_of_a_delta_table_are_found_in_its_newest_or_first_commit(
    table: Path,
) -> None:
    key = "delta.deletedFileRetentionDuration"
    commit(table, 0, 6 * DAY, **{key: "interval 2 days"})
    assert delta_outlook(LocalStore(str(table)), 3, now=NOW).kept_for == 2 * DAY
    commit(table, 4, 0.5 * DAY, **{key: "interval 36 hours", "delta.logRetentionDuration": "1 day"})
    assert delta_outlook(LocalStore(str(table)), 3, now=NOW).seconds_left(NOW) == 0
    assert delta_outlook(LocalStore(str(table)), 4, now=NOW).seconds_left(NOW) == 0.5 * DAY


def test_a_version_whose_log_is_gone_is_lost(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").unlink()
    found = delta_outlook(LocalStore(str(table)), 0, now=NOW)
    assert found.seconds_left(NOW) == 0
    assert found.read_until is None


def test_a_folder_without_a_log_tells_nothing(tmp_path: Path) -> None:
    assert delta_outlook(LocalStore(str(tmp_path)), 0, now=NOW).gap is LossGap.FAILED


def test_a_torn_commit_tells_nothing_of_its_time(table: Path) -> None:
    (table / "_delta_log" / f"{3:020}.json").write_text('{"commitInfo":\n[1]')
    assert delta_outlook(LocalStore(str(table)), 3, now=NOW).gap is LossGap.FAILED


@pytest.mark.parametrize(
    ("text", "days"),
    [(None, 7), ("interval 3 days", 3), ("2 weeks", 7), ("12 hours", 0.5), ("soon", 7)],
)
def test_the_retention_of_a_delta_table(text: str | None, days: float) -> None:
    given = None if text is None else {"delta.logRetentionDuration": text}
    assert delta_kept_for(given) == days * DAY


def lineage(*ages: float, **more: Any) -> dict[str, Any]:
    """Return the metadata of an Iceberg table with snapshots of these ages in days, the oldest first."""
    snapshots = [
        {
            "snapshot-id": number,
            **({"parent-snapshot-id": number - 1} if number > 1 or more.get("cut") else {}),
            "timestamp-ms": int((NOW - age * DAY) * 1000),
            "summary": {"added-data-files": "2"},
        }
        for number, age in enumerate(ages, start=1)
    ]
    return {
        "current-snapshot-id": len(ages),
        "snapshots": snapshots,
        "properties": more.get("properties", {}),
    }


@pytest.mark.parametrize(
    ("position", "metadata", "days"),
    [
        pytest.param((3, 2), lineage(4, 2, 1), 5, id="everything is read"),
        pytest.param((3, 1), lineage(4, 2, 1), 4, id="a file of the newest snapshot is unread"),
        pytest.param((1, 2), lineage(4, 2, 1), 3, id="two snapshots are unread"),
        pytest.param(
            (1, 2),
            lineage(
                4, 2, 1, properties={"history.expire.max-snapshot-age-ms": str(3 * 86_400_000)}
            ),
            1,
            id="the table says how long it keeps them",
        ),
        pytest.param((0, 2), lineage(4, 2, 1, cut=True), 1, id="the position itself has expired"),
        pytest.param((-7, 2), lineage(4, 2, 1, cut=True), 0, id="an unread snapshot has expired"),
    ],
)
def test_an_iceberg_table(position: tuple[int, int], metadata: dict[str, Any], days: float) -> None:
    found = of_iceberg(metadata, IcebergPosition(*position), now=NOW)
    assert found.seconds_left(NOW) == days * DAY


def test_the_newest_metadata_of_an_iceberg_table_counts(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    for name in ("00009-ab12.metadata.json", "00010-0c.metadata.json", "snap-99-1-ab.avro"):
        (tmp_path / "metadata" / name).write_text(json.dumps({"of": name}))
    assert iceberg_metadata(LocalStore(str(tmp_path))) == {"of": "00010-0c.metadata.json"}
    assert iceberg_metadata(LocalStore(str(tmp_path / "metadata"))) is None


class Source:
    """A Java source, and the table that an Iceberg one holds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def getClass(self) -> Any:
        return self

    def getName(self) -> str:
        return self.name


def test_the_offset_of_a_delta_source_names_the_first_unread_version(table: Path) -> None:
    end = '{"sourceVersion":1,"reservoirId":"a","reservoirVersion":3,"index":-1,"isStartingVersion":false}'
    source = Source("org.apache.spark.sql.delta.sources.DeltaSource")
    found = table_outlook(f"DeltaSource[{table}]", source, end, now=NOW, open_=LocalStore)
    assert found is not None
    assert found.seconds_left(NOW) == 6 * DAY
    missing = table_outlook(f"DeltaSource[{table}]", source, None, now=NOW, open_=LocalStore)
    assert missing is not None
    assert missing.gap is LossGap.NO_POSITION
    other = Source("org.apache.spark.sql.execution.streaming.FileStreamSource")
    assert table_outlook("FileStreamSource[/in]", other, end, now=NOW) is None


@pytest.mark.parametrize(
    "offset", [None, 7, "x", {}, {"reservoirVersion": -1}, {"snapshot_id": "1", "position": 0}]
)
def test_offsets_of_other_sources_are_no_position(offset: Any) -> None:
    assert delta_unread(offset) is None
    assert iceberg_position(offset) is None
