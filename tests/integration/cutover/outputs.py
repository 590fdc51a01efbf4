"""
Outputs of a blue and of greens that are wrong in one way each, as JSON files in folders.

Blue's is as a file sink leaves it: with a log of what is committed, and a file of a batch that is
not. It has six hours of three stores, two sales in each; the newest hour is not settled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import Bound

BEGIN: Final = datetime(2026, 11, 21, 4, tzinfo=UTC)
HOURS: Final = 6
WATERMARK: Final = BEGIN + timedelta(hours=5)
SCHEMA: Final = "at timestamp, store string, amount decimal(12,2), share double, note string"
TERMS: Final = CompareTerms(
    stream="sales",
    format="json",
    time="at",
    keys=("store",),
    sums=("amount", "share"),
    options={"schema": SCHEMA},
)
SETTLED: Final = Bound(blue=WATERMARK, green=WATERMARK + timedelta(minutes=9))

Row = dict[str, Any]
Change = Callable[[list[Row]], Iterable[Row]]


def hour(number: int) -> str:
    return (BEGIN + timedelta(hours=number)).strftime("%Y-%m-%dT%H:")


def sales() -> list[Row]:
    return [
        {
            "at": f"{hour(number)}{minute}:00.000Z",
            "store": store,
            "amount": float(Decimal(f"{number + 1}.{minute}")),
            "share": 0.1 * (number + 1),
            "note": "",
        }
        for number in range(HOURS)
        for store in ("s1", "s2", None)
        for minute in (10, 40)
    ]


def in_hour(number: int, store: str | None = "s2") -> Callable[[Row], bool]:
    return lambda row: row["at"].startswith(hour(number)) and row["store"] == store


def write(folder: Path, rows: Iterable[Row]) -> str:
    """Write plain files, as a ``foreachBatch`` function would."""
    folder.mkdir(parents=True)
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "part-00000.json").write_text(text)
    return str(folder)


def write_as_sink(folder: Path, rows: Iterable[Row], *, uncommitted: Iterable[Row]) -> str:
    """Write as a file sink that was killed within its second batch."""
    write(folder, rows)
    part = folder / "part-00000.json"
    (folder / "part-00001.json").write_text("".join(f"{json.dumps(r)}\n" for r in uncommitted))
    entry = {
        "path": part.as_uri().replace("file:///", "file:/"),
        "size": part.stat().st_size,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    (folder / "_spark_metadata").mkdir()
    (folder / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")
    return str(folder)
