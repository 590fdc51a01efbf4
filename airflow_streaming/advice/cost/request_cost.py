"""
Requests to an object store that a checkpoint and a home make in a day, and their price.

A batch writes a file to each log of the checkpoint and one for each part of its state. Hadoop's S3A writes a
temporary object and copies it to its name, after two looks and a listing. Snapshots of the state, its clean-up, and
the data itself come on top, so the figures are lower bounds. A home costs the same whatever the trigger: the
heartbeat, the driver's looks, and the polls of the triggerer (measured, ``docs/capacity.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from airflow_streaming.exceptions import SpecError

DAY: Final = 86_400.0
DAYS_A_MONTH: Final = 30
_LOGS: Final = 2
"""Logs of every query: ``offsets`` and ``commits``."""
_WRITES, _READS, _LISTINGS = 2, 2, 1
"""Requests for one file of a checkpoint."""
_HEARTBEAT: Final = 2.0
_LOOKS: Final = 2
"""Reads a second of the driver: a stop request, a newer epoch."""
_POLL_READS, _POLL_LISTINGS = 5, 1
_KINDS: Final = ("writes", "reads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """
    Prices in one currency.

    :param writes: Of 1,000 requests that write or list.
    :param reads: Of 1,000 requests that read.
    """

    writes: float
    reads: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read prices, e.g. ``writes=0.005,reads=0.0004``.

        :raises SpecError: the text has another form.
        """
        given: dict[str, float] = {}
        for part in text.split(","):
            name, _, amount = part.partition("=")
            try:
                given[name.strip()] = float(amount)
            except ValueError:
                given = {}
                break
        return cls.of(given, text)

    @classmethod
    def of(cls, given: Mapping[str, float], shown: object = None) -> Self:
        """
        Return prices by their names.

        :raises SpecError: a price is missing, negative, or of another name.
        """
        if set(given) != set(_KINDS) or not all(0 <= price < 1e6 for price in given.values()):
            raise SpecError(
                f"Prices are {shown or dict(given)!r:.80}. Give the price of 1,000 requests of each kind, e.g. "
                "writes=0.005,reads=0.0004."
            )
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests of a day."""

    writes: float
    reads: float
    listings: float

    @property
    def total(self) -> float:
        return self.writes + self.reads + self.listings

    def month(self, prices: Prices) -> float:
        """Return the price of a month."""
        a_day = (self.writes + self.listings) * prices.writes + self.reads * prices.reads
        return a_day * DAYS_A_MONTH / 1_000


def of_checkpoint(gap: float, *, sources_with_log: int = 0, stores: int = 0) -> Requests:
    """
    Return the requests of a query to its checkpoint.

    :param gap: Seconds from the begin of a batch to the begin of the next.
    :param sources_with_log: File sources, which keep a log each.
    :param stores: State stores: partitions of all stateful operators.
    """
    files = DAY / gap * (_LOGS + sources_with_log + stores)
    return Requests(writes=files * _WRITES, reads=files * _READS, listings=files * _LISTINGS)


def of_home(poll_seconds: float) -> Requests:
    """
    Return the requests of a stream to its home.

    :param poll_seconds: Interval of the triggerer's polls.
    """
    polls, beats = DAY / poll_seconds, DAY / _HEARTBEAT
    return Requests(
        writes=beats,
        reads=DAY * _LOOKS + polls * _POLL_READS,
        # S3A lists the name that it writes, in case it is a folder.
        listings=beats + polls * _POLL_LISTINGS,
    )
