"""
Synthetic order lines of a shop that does not exist, one CSV file per simulated day.

They have the columns of a public data set of real invoices and some of its habits: canceled
orders with negative quantities, anonymous customers, descriptions with commas and quotes, and
lines that arrive a day late. The same seed makes the same bytes, on any machine.

    python -m demo.events --folder /tmp/orders --days 30 --every 3
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

COLUMNS: Final = (
    "InvoiceNo",
    "StockCode",
    "Description",
    "Quantity",
    "InvoiceDate",
    "UnitPrice",
    "CustomerID",
    "Country",
)
LATENESS: Final = timedelta(days=1)
"""What the application allows; the watermark trails the newest event by it."""

FIRST_DAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
COUNTRIES: Final = {"Freedonia": 8, "Grand Fenwick": 3, "Ruritania": 2, "San Serriffe": 1}
ARTICLES: Final = (
    ("20101", "TEAPOT, BLUE", "12.50"),
    ("20102", "TEAPOT, GREEN", "12.50"),
    ("31415", 'RULER 12" WOOD', "1.95"),
    ("40001", "PAPER LANTERN", "3.25"),
    ("40002", "PAPER LANTERN LARGE", "4.75"),
    ("50999", "POSTAGE", "0.995"),
)
LATE_SHARE: Final = 0.03
CANCELED_SHARE: Final = 0.04
ANONYMOUS_SHARE: Final = 0.25

Line = tuple[str, ...]


class Shop:
    """
    Order lines, day after day.

    :param seed: The same seed gives the same lines.
    :param lines_per_day: How many lines a day has.
    """

    def __init__(self, seed: int = 7, lines_per_day: int = 400) -> None:
        self._seed, self._lines_per_day = seed, lines_per_day

    def day(self, number: int) -> list[Line]:
        """Return the lines that arrive on a day; day 0 is the first."""
        chance = random.Random(f"{self._seed}/{number}")
        moments = sorted(chance.uniform(8 * 3600, 20 * 3600) for _ in range(self._lines_per_day))
        start = FIRST_DAY + timedelta(days=number)
        return [
            self._line(chance, start + timedelta(seconds=int(moment)), is_first_day=number == 0)
            for moment in moments
        ]

    def _line(self, chance: random.Random, at: datetime, *, is_first_day: bool) -> Line:
        is_canceled = chance.random() < CANCELED_SHARE
        is_late = chance.random() < LATE_SHARE and not is_first_day
        # Less than the lateness that the application allows, so that no line is ever too late.
        late_by = timedelta(hours=chance.randint(6, 23)) if is_late else timedelta(0)
        code, description, price = chance.choice(ARTICLES)
        invoice = f"{'C' if is_canceled else ''}{chance.randint(500000, 599999)}"
        customer = "" if chance.random() < ANONYMOUS_SHARE else f"{chance.randint(12000, 18000)}.0"
        quantity = chance.choice((1, 1, 2, 4, 6, 12, 24)) * (-1 if is_canceled else 1)
        country = chance.choices([*COUNTRIES], weights=[*COUNTRIES.values()])[0]
        when = f"{at - late_by:%Y-%m-%d %H:%M:%S}"
        return (invoice, code, description, str(quantity), when, price, customer, country)


def as_csv(lines: Sequence[Line]) -> str:
    """Return the lines as a CSV file with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(lines)
    return text.getvalue()


def synthetic_files(days: int, shop: Shop) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of every day's file."""
    for number in range(days):
        name = f"{FIRST_DAY + timedelta(days=number):%Y-%m-%d}.csv"
        yield name, as_csv(shop.day(number))


def drop(folder: Path, name: str, content: str) -> None:
    """Put a file into the folder in one step, so that no reader sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    # Spark's file source ignores names that begin with a dot.
    unfinished = folder / f".{name}.part"
    unfinished.write_text(content, encoding="utf-8")
    unfinished.rename(folder / name)
    # Spark takes files in the order of their times, to the millisecond, and equal ones in any
    # order; a later day taken first would make the earlier one too late.
    time.sleep(0.01)


LOOK_AGAIN: Final = 0.3
"""Seconds until it is asked again whether another file may come."""


class Arrivals(threading.Thread):
    """
    Drops files into a folder, one at a time, until all are there or it is stopped.

    :param files: Names and contents, in the order of their arrival.
    :param every: Seconds between two arrivals.
    :param may_drop: Tells whether another file may come after so many; on a slow machine their
        reader may be behind.
    """

    def __init__(
        self,
        folder: Path,
        files: Iterable[tuple[str, str]],
        *,
        every: float,
        may_drop: Callable[[int], bool] = lambda dropped: True,
    ) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._folder, self._files, self._every = folder, files, every
        self._may_drop = may_drop
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._is_paused = False
        self.dropped = 0

    def run(self) -> None:
        for name, content in self._files:
            while not self._drop(name, content):
                if self._stopping.wait(LOOK_AGAIN):
                    return
            if self._stopping.wait(self._every):
                return

    def _drop(self, name: str, content: str) -> bool:
        with self._turn:
            if self._is_paused or not self._may_drop(self.dropped):
                return False
            drop(self._folder, name, content)
            self.dropped += 1
        return True

    def pause(self) -> None:
        """Drop no file until ``resume``; ``dropped`` does not change meanwhile."""
        with self._turn:
            self._is_paused = True

    def resume(self) -> None:
        """Drop files again."""
        self._is_paused = False

    def stop(self) -> None:
        """Drop no more files; returns when the thread has ended."""
        self._stopping.set()
        self.join()


def main() -> None:
    """Write files until done."""
    parser = argparse.ArgumentParser(description="Drop synthetic order files into a folder.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two files")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    files = synthetic_files(arguments.days, Shop(arguments.seed))
    arrivals = Arrivals(arguments.folder, files, every=arguments.every)
    print(f"Dropping {arguments.days} files of synthetic order lines into {arguments.folder}.")
    arrivals.run()


if __name__ == "__main__":
    main()
