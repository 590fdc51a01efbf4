from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.events import COLUMNS, FIRST_DAY, LATENESS, Arrivals, Shop, drop, synthetic_files
from tests.patience import PATIENCE, until

DAYS = 20


def read(content: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(content))]


def time_of(line: dict[str, str]) -> datetime:
    return datetime.fromisoformat(line["InvoiceDate"]).replace(tzinfo=UTC)


def test_the_same_seed_makes_the_same_files() -> None:
    assert [*synthetic_files(3, Shop(7))] == [*synthetic_files(3, Shop(7))]
    assert [*synthetic_files(3, Shop(7))] != [*synthetic_files(3, Shop(8))]


def test_a_file_reads_back_as_lines_with_the_columns_of_the_application() -> None:
    _, content = next(synthetic_files(1, Shop(lines_per_day=200)))

    lines = read(content)

    assert len(lines) == 200
    assert all(tuple(line) == COLUMNS for line in lines)
    assert any(line["Description"] == 'RULER 12" WOOD' for line in lines)


def test_no_line_is_later_than_the_application_allows() -> None:
    newest = FIRST_DAY
    late = 0
    for _, content in synthetic_files(DAYS, Shop()):
        moments = [time_of(line) for line in read(content)]
        watermark = newest - LATENESS
        # A line counts while the end of its day has not been passed by the watermark.
        ends = [
            moment.replace(hour=0, minute=0, second=0) + timedelta(days=1) for moment in moments
        ]
        assert min(ends) > watermark
        late += sum(moment < newest for moment in moments)
        newest = max(newest, *moments)
    assert late > 0


@pytest.mark.parametrize(
    ("what", "is_so"),
    [
        pytest.param(
            "cancelled orders", lambda line: line["Quantity"].startswith("-"), id="cancelled"
        ),
        pytest.param("anonymous customers", lambda line: line["CustomerID"] == "", id="anonymous"),
    ],
)
def test_the_habits_of_the_real_data_are_there(what: str, is_so) -> None:  # type: ignore[no-untyped-def]
    lines = [line for _, content in synthetic_files(3, Shop()) for line in read(content)]

    assert 0 < sum(map(is_so, lines)) < len(lines) / 2, what


def test_a_dropped_file_leaves_no_unfinished_one_behind(tmp_path: Path) -> None:
    drop(tmp_path / "orders", "day.csv", "a,b\n")

    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["day.csv"]


def test_arrivals_drop_every_file_in_order(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, iter([("1.csv", "x"), ("2.csv", "y")]), every=0)

    arrivals.start()
    arrivals.join(PATIENCE)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.csv", "2.csv"]
    assert arrivals.dropped == 2


def test_stopped_arrivals_drop_no_more(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, ((f"{n}.csv", "x") for n in range(1000)), every=3600)

    arrivals.start()
    arrivals.stop()

    assert not arrivals.is_alive()
    assert len([*tmp_path.iterdir()]) == arrivals.dropped <= 1


def test_paused_arrivals_drop_no_more_until_they_are_resumed(tmp_path: Path) -> None:
    is_paused = threading.Event()

    def files() -> Iterator[tuple[str, str]]:
        for number in range(6):
            if number == 3:
                arrivals.pause()
                is_paused.set()
            yield f"{number}.csv", "x"

    arrivals = Arrivals(tmp_path, files(), every=0)
    arrivals.start()
    assert is_paused.wait(PATIENCE)
    assert arrivals.dropped == len([*tmp_path.iterdir()]) == 3
    arrivals.resume()
    arrivals.join(PATIENCE)

    assert arrivals.dropped == 6


def test_arrivals_wait_for_who_reads_them(tmp_path: Path) -> None:
    read = [0]
    files = ((f"{n}.csv", "x") for n in range(10))
    arrivals = Arrivals(tmp_path, files, every=0, may_drop=lambda dropped: dropped < read[0] + 2)

    arrivals.start()
    for read[0] in range(4):
        until(lambda: arrivals.dropped >= read[0] + 2, "Two files more than were read")
        assert arrivals.dropped == read[0] + 2
    arrivals.stop()

    assert len([*tmp_path.iterdir()]) == arrivals.dropped == 5
