"""When two payments of one card are a fraud: plain Python, tested without a stream and Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

REMEMBERED_SECONDS = 7200
KM_PER_HOUR = 900.0

Payment = tuple[str, int, float, float]
"""Id, seconds since 1970, latitude, longitude."""

Alert = tuple[str, str, int, int]
"""Ids of the earlier and the later payment, kilometers and minutes between them."""


def kilometers(one: Payment, other: Payment) -> float:
    """Return the distance on a sphere."""
    a, b = math.radians(one[2]), math.radians(other[2])
    half = (b - a) / 2, math.radians(other[3] - one[3]) / 2
    chord = math.sin(half[0]) ** 2 + math.cos(a) * math.cos(b) * math.sin(half[1]) ** 2
    return 12742.0 * math.asin(math.sqrt(chord))


def judge(
    history: Sequence[Payment], arrived: Iterable[Payment]
) -> tuple[list[Payment], list[Alert]]:
    """
    Compare the payments of one card with earlier ones, and return the new memory and the alerts.

    Repeated payments are left out by their ids; payments more than two hours older than the newest
    are forgotten.
    """
    known = {one[0]: one for one in history}
    alerts: list[Alert] = []
    for payment in sorted(arrived, key=lambda one: (one[1], one[0])):
        if payment[0] in known:
            continue
        for other in known.values():
            first, second = sorted((other, payment), key=lambda one: (one[1], one[0]))
            seconds, km = second[1] - first[1], kilometers(first, second)
            if seconds <= REMEMBERED_SECONDS and km > 100 + KM_PER_HOUR * seconds / 3600:
                alerts.append((first[0], second[0], round(km), seconds // 60))
        known[payment[0]] = payment
    newest = max((one[1] for one in known.values()), default=0)
    # Twice as long: a payment may be late, and its partner older than it.
    kept = [one for one in known.values() if newest - one[1] <= 2 * REMEMBERED_SECONDS]
    return sorted(kept, key=lambda one: (one[1], one[0])), sorted(alerts)
