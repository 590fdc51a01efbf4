"""The feeds of the example pipelines, by name."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Final

from demo.feeds.feed import Feed, Flaws, Row

CITIES: Final = (
    ("Ankh", 52.5, 13.4),
    ("Bree", 51.5, -0.1),
    ("Cittagazze", 45.4, 12.3),
    ("Dis", 40.7, -74.0),
)
WORDS: Final = ("fine", "good", "great", "slow", "broken", "awful", "parcel", "teapot", "delivery")
TAGS: Final = ("teapots", "lanterns", "rulers", "parcels", "sale")


def reading(chance: random.Random, at: datetime, number: int) -> Row:
    """Return a sensor's temperature in thousandths of a degree; now and then a machine runs hot."""
    hot = 15_000 if chance.random() < 0.02 else 0
    return {
        "id": f"r{number}",
        "device": f"pump-{chance.randint(1, 5)}",
        "temperature": 60_000 + round(chance.gauss(0, 800)) + hot,
    }


def shop_event(chance: random.Random, at: datetime, number: int) -> Row:
    """Let a visitor look at a product, click on it, or put it into the cart."""
    return {
        "id": f"e{number}",
        "user": f"u{chance.randint(1, 25)}",
        "kind": chance.choices(("view", "click", "cart"), weights=(6, 3, 1))[0],
        "product": f"p{chance.choice((1, 1, 2, 3, 4))}",
    }


def payment(chance: random.Random, at: datetime, number: int) -> Row:
    """Use a card in a city; now and then a thief uses it far away."""
    card = chance.randint(1, 12)
    place = CITIES[card % 3] if chance.random() > 0.05 else CITIES[3]
    return {
        "id": f"p{number:06}",
        "card": f"c{card}",
        "city": place[0],
        "lat": place[1],
        "lon": place[2],
        "cents": chance.randint(100, 90_000),
    }


def mention(chance: random.Random, at: datetime, number: int) -> Row:
    """Return a short text that names a topic or two."""
    tags = sorted({chance.choice(TAGS) for _ in range(chance.randint(1, 2))})
    words = [chance.choice(WORDS) for _ in range(4)]
    return {
        "id": f"m{number}",
        "user": f"u{chance.randint(1, 9)}",
        "text": " ".join([*words, *(f"#{tag}" for tag in tags)]),
    }


def account(chance: random.Random, at: datetime, number: int) -> Row:
    """Return a change of an account; the version grows with the time of the change."""
    return {
        "id": f"a{number}",
        "account": f"acc-{chance.randint(1, 8)}",
        "version": number,
        "cents": chance.randint(0, 500_000),
        "closed": chance.random() < 0.05,
    }


def order(chance: random.Random, at: datetime, number: int) -> Row:
    """Return an order line: some lack a field, some have one of another type."""
    row: Row = {"id": f"o{number}", "sku": f"s{chance.randint(1, 5)}", "quantity": 2}
    if chance.random() < 0.05:
        row["quantity"] = "two"
    if chance.random() < 0.5:
        row["coupon"] = chance.choice(("SPRING", "FRIEND"))
    return row


FEEDS: Final[dict[str, Feed]] = {
    "sensors": Feed(shape=reading, flaws=Flaws(hopeless=0.01)),
    "clicks": Feed(shape=shop_event, span=timedelta(minutes=20)),
    "payments": Feed(shape=payment, rows=60, flaws=Flaws(late_by=timedelta(minutes=20))),
    "mentions": Feed(shape=mention, span=timedelta(minutes=10)),
    "accounts": Feed(shape=account, flaws=Flaws(broken=0.0)),
    "orders": Feed(shape=order),
}
"""The feeds by name."""
