from __future__ import annotations

import json
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.cached import CachedStream
from airflow_streaming.home.control import MAX_TRIES
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.alerts.alerting import open_incidents
from tests.unit.home.make import NOON
from tests.unit.supervision.builders import an_alert

FIRES: Final = an_alert(at=NOON)
OVER: Final = replace(FIRES, alert=AlertKind.RECOVERED, reason="Fast again.")
BACKLOG: Final = replace(FIRES, key="backlog/revenue")


def numbers(alerts: tuple[Alert, ...]) -> list[int]:
    return [alert.number for alert in alerts]


def test_a_new_stream_has_told_nothing(stream: StreamHome) -> None:
    assert stream.alerts() == ()
    assert stream.unsent_alerts() == ()


def test_alerts_are_kept_in_the_order_they_were_told(stream: StreamHome) -> None:
    added = [stream.add_alert(alert) for alert in (FIRES, BACKLOG, OVER)]

    assert stream.alerts() == tuple(added)
    assert [alert and alert.number for alert in added] == [1, 2, 3]
    assert stream.alerts(limit=2) == tuple(added[1:])


def test_what_was_told_is_not_recorded_again(stream: StreamHome) -> None:
    stream.add_alert(FIRES)

    assert stream.add_alert(replace(FIRES, by="another task")) is None
    assert numbers(stream.alerts()) == [1]


def test_an_end_without_an_incident_is_not_recorded(stream: StreamHome) -> None:
    assert stream.add_alert(OVER) is None
    assert stream.alerts() == ()


def test_whoever_loses_the_number_to_the_same_alert_gives_up(tmp_path: Path) -> None:
    stream = StreamHome(Overtaken(str(tmp_path), FIRES), "orders")

    assert stream.add_alert(FIRES) is None
    assert [alert.by for alert in stream.alerts()] == ["somebody else"]


def test_whoever_loses_the_number_to_another_alert_takes_the_next(tmp_path: Path) -> None:
    stream = StreamHome(Overtaken(str(tmp_path), BACKLOG), "orders")

    added = stream.add_alert(FIRES)

    assert added is not None
    assert [(alert.number, alert.key) for alert in stream.alerts()] == [
        (1, BACKLOG.key),
        (2, FIRES.key),
    ]


class Overtaken(LocalStore):
    """Somebody else tells something just before our first create."""

    def __init__(self, uri: str, alert: Alert) -> None:
        super().__init__(uri)
        self.other: Alert | None = replace(alert, by="somebody else")

    def create(self, path: str, data: bytes) -> None:
        if self.other is not None:
            other, self.other = self.other, None
            StreamHome(LocalStore(self.uri), "orders").add_alert(other)
        super().create(path, data)


def test_racing_tasks_tell_one_incident_once(stream: StreamHome) -> None:
    start = threading.Barrier(12)

    def tell(number: int) -> Alert | None:
        start.wait()
        alert = (FIRES, BACKLOG)[number % 2]
        return stream.add_alert(replace(alert, by=f"task {number}"))

    with ThreadPoolExecutor(12) as pool:
        added = [alert for alert in pool.map(tell, range(12)) if alert is not None]

    assert sorted(alert.key for alert in added) == [BACKLOG.key, FIRES.key]
    assert numbers(stream.alerts()) == [1, 2]


def test_a_store_that_never_lists_the_newest_file_ends_with_an_error(tmp_path: Path) -> None:
    class StaleStore(LocalStore):
        def names(self, folder: str) -> list[str]:
            return []

    stream = StreamHome(StaleStore(str(tmp_path)), "orders")
    stream.add_alert(FIRES)

    with pytest.raises(HomeUnavailable, match=r"orders/alerts: 100 times"):
        stream.add_alert(BACKLOG)


def test_a_record_that_cannot_be_read_hides_no_other(stream: StreamHome) -> None:
    for alert in (FIRES, BACKLOG):
        stream.add_alert(alert)
    stream.store.replace("orders/alerts/000001.json", b"torn")

    assert numbers(stream.alerts()) == [2]
    assert numbers(stream.unsent_alerts()) == [2]


def test_a_marked_alert_is_not_delivered_again(stream: StreamHome) -> None:
    for alert in (FIRES, BACKLOG):
        stream.add_alert(alert)

    stream.mark_sent(1, "sent", now=NOON)

    assert numbers(stream.unsent_alerts()) == [2]
    assert stream.store.names("orders/alerts") == [
        "000001.json",
        "000001.sent.json",
        "000002.json",
    ]


def test_the_first_mark_stays(stream: StreamHome) -> None:
    stream.add_alert(FIRES)
    stream.mark_sent(1, "sent", now=NOON)
    stream.mark_sent(1, "failed: SmtpNotifier: OSError", now=NOON + timedelta(minutes=1))

    mark = stream.sent(1)

    assert mark is not None
    assert (mark.outcome, mark.at) == ("sent", NOON)


def test_an_alert_is_tried_a_few_times_and_then_given_up(stream: StreamHome) -> None:
    stream.add_alert(FIRES)

    tries = [stream.begin_try(1, by="a test", now=NOON) for _ in range(MAX_TRIES)]
    assert tries == [1, 2, 3]
    assert numbers(stream.unsent_alerts()) == [1]

    assert stream.begin_try(1, by="a test", now=NOON) is None
    mark = stream.sent(1)
    assert mark is not None
    assert mark.outcome == "failed: 3 tries were not seen through"
    assert stream.unsent_alerts() == ()


def test_one_try_is_made_by_one_task(stream: StreamHome) -> None:
    stream.add_alert(FIRES)
    start = threading.Barrier(8)

    def claim(number: int) -> int | None:
        start.wait()
        return stream.begin_try(1, by=f"task {number}", now=NOON)

    with ThreadPoolExecutor(8) as pool:
        claimed = [attempt for attempt in pool.map(claim, range(8)) if attempt is not None]

    assert len(claimed) == len(set(claimed))


def test_finding_out_that_nothing_is_to_be_delivered_takes_one_listing(tmp_path: Path) -> None:
    class Counting(LocalStore):
        asked: Final[list[str]] = []

        def names(self, folder: str) -> list[str]:
            self.asked.append(folder)
            return super().names(folder)

        def read(self, path: str) -> bytes | None:
            self.asked.append(path)
            return super().read(path)

    stream = StreamHome(Counting(str(tmp_path)), "orders")
    stream.add_alert(FIRES)
    stream.mark_sent(1, "sent", now=NOON)
    Counting.asked.clear()

    assert stream.unsent_alerts() == ()
    assert Counting.asked == ["orders/alerts"]


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_alert_of_each_key_tells_the_open_incidents(
    stream: StreamHome, seed: int
) -> None:
    chance = random.Random(seed)
    for minute in range(chance.randrange(1, 30)):
        alert = replace(
            chance.choice((FIRES, BACKLOG)),
            alert=chance.choice((AlertKind.UNHEALTHY, AlertKind.RECOVERED)),
            at=NOON + timedelta(minutes=minute),
        )
        stream.add_alert(alert)

    cached = CachedStream(stream.store, stream.name)

    assert open_incidents(stream.newest_alerts()) == open_incidents(stream.alerts())
    assert open_incidents(cached.newest_alerts()) == open_incidents(stream.alerts())
    assert numbers(stream.newest_alerts()) == sorted(numbers(stream.newest_alerts()))
    assert numbers(cached.newest_alerts()) == numbers(stream.newest_alerts())


def test_an_alert_that_cannot_be_read_leaves_the_one_before_it(stream: StreamHome) -> None:
    stream.add_alert(FIRES)
    forged = {**replace(OVER, number=2).to_dict(), "stream": "another"}
    stream.store.create("orders/alerts/000002.json", json.dumps(forged).encode())
    stream.store.create("orders/alerts/000003.json", b"[]")

    assert numbers(stream.newest_alerts()) == [1]


class CountingStore(LocalStore):
    """Counts the reads of each file."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.reads: Counter[str] = Counter()

    def read(self, path: str) -> bytes | None:
        self.reads[path] += 1
        return super().read(path)


def test_the_file_of_an_alert_is_read_once_for_a_look(stream: StreamHome) -> None:
    for alert in (FIRES, BACKLOG, OVER):
        stream.add_alert(alert)
    store = CountingStore(stream.store.uri)

    assert numbers(StreamHome(store, stream.name).newest_alerts()) == [2, 3]
    alerts = {path: count for path, count in store.reads.items() if "/alerts/" in path}
    assert set(alerts.values()) == {1}
    assert len(alerts) == 3
