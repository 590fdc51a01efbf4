from __future__ import annotations

import json
import socket
import threading
from datetime import datetime, timedelta

import pytest

from demo.feeds.__main__ import to_socket
from demo.feeds.feed import Feed, Flaws, parsed
from demo.feeds.shapes import FEEDS, reading
from tests.integration.home.servers import free_ports
from tests.patience import until


@pytest.mark.parametrize("name", [*FEEDS])
def test_the_same_seed_makes_the_same_bytes(name: str) -> None:
    assert [*FEEDS[name].files(3)] == [*FEEDS[name].files(3)]
    assert [*FEEDS[name].files(3)] != [*FEEDS[name].files(3, seed=8)]


def feed_with(**flaws: float) -> Feed:
    none = {"late": 0.0, "hopeless": 0.0, "doubled": 0.0, "broken": 0.0}
    return Feed(shape=reading, flaws=Flaws(**{**none, **flaws}))


def test_a_feed_without_flaws_has_every_row_once_and_in_its_file_s_time() -> None:
    feed = feed_with()
    rows = [row for number in range(5) for row in parsed(feed.lines(number))]

    assert len({row["id"] for row in rows}) == len(rows) == 5 * feed.rows


def test_doubled_rows_come_again_whole_in_the_next_file() -> None:
    feed = feed_with(doubled=1.0)
    first, second = (
        {line for line in feed.lines(number) if json.loads(line)["id"] in ids}
        for number, ids in ((0, {"r0", "r1"}), (1, {"r0", "r1"}))
    )

    assert first == second
    assert len(first) == 2


def test_late_rows_are_as_late_as_they_may_be_and_hopeless_ones_a_day() -> None:
    begin = [datetime.fromisoformat("2026-01-05") + timedelta(minutes=30 * n) for n in range(6)]
    for flaws, least, most in (
        ({"late": 1.0}, timedelta(minutes=-30), timedelta(minutes=50)),
        ({"hopeless": 1.0}, timedelta(hours=23), timedelta(days=1)),
    ):
        rows = parsed(feed_with(**flaws).lines(5))
        late = [begin[5] - datetime.fromisoformat(row["ts"].rstrip("Z")) for row in rows]
        assert least <= min(late)
        assert max(late) <= most


def test_broken_lines_are_no_rows() -> None:
    feed = feed_with(broken=1.0)

    assert len(feed.lines(0)) == 2 * len(parsed(feed.lines(0)))


def test_a_socket_gets_every_line() -> None:
    (port,) = free_ports(1)
    files = [*FEEDS["mentions"].files(2)]
    server = threading.Thread(target=to_socket, args=(iter(files), port), daemon=True)
    server.start()

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            return None

    with until(connected, "the server's port") as reader:
        received = b"".join(iter(lambda: reader.recv(65536), b""))

    assert received.decode() == "".join(content for _, content in files)
