"""
The input of the edits: small files that arrive in three phases.

The old code sees the first phase. In the second, the new code goes on with what is open: windows,
sessions, pairs; its last file lies an hour later, so that the watermark closes all of it. The third
phase begins with nothing open, but for what is kept for ever. Some events come twice, some late.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

PHASES: Final = (range(4), range(4, 7), range(7, 9))
ROWS: Final = 24
JUMP: Final = 6
"""From this file on everything happens later."""

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_WRITTEN: Final = 1_767_225_600
_COUNTRIES: Final = ("France", "Germany", "Norway", "United Kingdom")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Everything that arrives, by file: path in the input folder, and text."""

    files: dict[int, dict[str, str]]

    def arrive(self, phase: int, folder: Path, written: int = _WRITTEN) -> None:
        """
        Write the files of one phase.

        :param written: When the first file of all was written, in seconds since 1970; Spark leaves
            out files that are a week older than those it has seen.
        """
        for number in PHASES[phase]:
            for path, text in self.files[number].items():
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
                # Spark takes files by their time, and of one time in any order.
                os.utime(place, (written + number, written + number))


def arrivals() -> Arrivals:
    """Return the same input each time."""
    chance = random.Random(11)
    files: dict[int, dict[str, str]] = {}
    seen: list[dict[str, Any]] = []
    for number in range(PHASES[-1][-1] + 1):
        fresh = list(_events(number, chance))
        again = chance.sample(seen[-ROWS:], 4) + chance.sample(seen, 2) if seen else []
        seen += fresh
        payments = [_payment(event, chance) for event in fresh if chance.random() < 0.8]
        rows = [*again, *fresh]
        files[number] = {
            f"events/{number:03}.json": _lines(rows),
            f"moved/{number:03}.json": _lines(rows),
            f"payments/{number:03}.json": _lines(payments),
            f"texts/{number:03}.json": "".join(_texts(rows)),
            f"orders/{number:03}.csv": "".join(_orders(number, chance)),
            "shops/all.json": _lines(
                [{"shop": f"s{n}", "town": f"t{n}", "size": n + 1} for n in range(3)]
            ),
            "towns/all.json": _lines(
                [{"shop": f"s{n}", "town": f"t{n + 1}", "size": n + 5} for n in range(2)]
            ),
        }
    return Arrivals(files)


def _events(number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    begin = _BEGIN + timedelta(seconds=30 * number, hours=int(number >= JUMP))
    for place in range(ROWS):
        seconds = place * 1.25 - (chance.choice((0, 4, 9)) if place % 3 == 0 else 0)
        yield {
            "id": f"e{number * ROWS + place}",
            "user": chance.choice(("u1", "u2", "u3", "u4", None)),
            "kind": chance.choice(("k1", "k2", None)),
            "shop": f"s{chance.randrange(3)}",
            "amount": chance.randrange(1, 100),
            "price": chance.randrange(1, 100) / 4,
            "ts": (begin + timedelta(seconds=seconds)).isoformat(),
        }


def _payment(event: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    at = datetime.fromisoformat(event["ts"]) + timedelta(seconds=chance.randrange(12))
    return {
        "sale": event["id"],
        "payer": event["user"],
        "means": chance.choice(("card", "cash")),
        "paid": event["amount"],
        "at": at.isoformat(),
    }


def _orders(number: int, chance: random.Random) -> Iterator[str]:
    yield "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
    begin = _BEGIN + timedelta(hours=18 * number, days=60 * int(number >= JUMP))
    for place in range(ROWS):
        at = begin + timedelta(minutes=45 * place)
        yield ",".join(
            (
                f"{'C' if chance.random() < 0.1 else ''}{number}{place}",
                f"p{chance.randrange(9)}",
                "a thing",
                str(chance.choice((-1, 1, 2, 5))),
                f"{at:%Y-%m-%d %H:%M:%S}",
                f"{chance.randrange(100, 900) / 100:.2f}",
                f"c{chance.randrange(5)}",
                f"{chance.choice(_COUNTRIES)}\n",
            )
        )


def _texts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines of JSON with a field of every kind, and a few lines that no schema fits."""
    coupons = ("ten", 5, 2.5, True, None, {"of": "ten"}, ["ten", 5], "")
    for place, row in enumerate(rows):
        made = row if place % 9 == 8 else {**row, "coupon": coupons[place % len(coupons)]}
        if place % 11 == 10:
            made = {**made, "amount": "many"}
        text = json.dumps(made)
        yield f"{text[: len(text) // 2] if place % 13 == 12 else text}\n"


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
