"""
Whether the brokers of a query accept connections.

Spark waits for a broker silently: three minutes at the start, and as long in each batch. While a query waits,
the driver opens a connection, in another thread, and closes it at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from airflow_streaming.driver.monitoring.kafka_places import KafkaPlace

ASK_SECONDS: Final = 10.0
"""Seconds that a query waits before its brokers are probed, and the interval between probes."""
_CONNECT_SECONDS: Final = 3.0
_MOST_SERVERS: Final = 5
Connect = Callable[[str], None]


def connect(server: str) -> None:
    """
    Open a connection to ``host:port`` and close it.

    :raises OSError: nothing accepts it within 3 s.
    :raises ValueError: the text is not ``host:port``.
    """
    host, _, port = server.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
        pass


def refusal_of(place: KafkaPlace, connect: Connect = connect) -> str:
    """Return why none of the brokers answers, in a sentence; empty where one of them does."""
    why = ""
    for server in place.servers[:_MOST_SERVERS]:
        try:
            connect(server)
        except (OSError, ValueError) as err:
            why = getattr(err, "strerror", None) or str(err) or type(err).__name__
        else:
            return ""
    return f"No broker of {place} accepts a connection ({why})." if why else ""


class BrokerReach:
    """
    The brokers of one query, asked while the query waits for them.

    :param connect: Raises ``OSError`` for a server that it cannot reach.
    :param clock: Seconds that only ever rise.
    """

    def __init__(
        self, connect: Connect = connect, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect, self._clock = connect, clock
        self._waits_since: float | None = None
        self._next = 0.0
        self._refusal = ""
        self._thread: threading.Thread | None = None

    @property
    def refusal(self) -> str:
        """Return why the brokers cannot be reached, as last seen; empty while they can or were not asked."""
        return self._refusal

    @property
    def refused_for(self) -> float | None:
        if not self._refusal or self._waits_since is None:
            return None
        return self._clock() - self._waits_since

    def look(self, places: Sequence[KafkaPlace], *, waits: bool) -> None:
        """
        Take note whether the query waits, and ask the brokers if it has for long; does not wait for them.

        :param waits: It asks a source for offsets, or shows no sign of work.
        """
        now = self._clock()
        if not waits:
            self._waits_since, self._refusal = None, ""
            return
        if self._waits_since is None:
            self._waits_since, self._next = now, now + ASK_SECONDS
        if now >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = now + ASK_SECONDS
            self._begin(places)

    def ask(self, places: Sequence[KafkaPlace], within: float) -> str:
        """Ask the brokers now, and return their refusal if it comes in time."""
        self._begin(places).join(within)
        return self._refusal

    def _begin(self, places: Sequence[KafkaPlace]) -> threading.Thread:
        self._thread = threading.Thread(
            target=self._ask, args=(places,), name="airflow-streaming-brokers", daemon=True
        )
        self._thread.start()
        return self._thread

    def _ask(self, places: Sequence[KafkaPlace]) -> None:
        refusals = (refusal_of(place, self._connect) for place in places)
        self._refusal = next(filter(None, refusals), "")
