"""What `status` tells of unread data that a source is about to remove."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.progress import SourceProgress
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from tests.unit.cli.host import GONE, FakeHost, Run, begin, end
from tests.unit.home.make import make_progress, make_query

TOPIC = "KafkaV2[orders]"


def tell(stream: StreamHome, *, ago: timedelta, hours_left: float) -> None:
    """Let a driver tell, some time ago, how long unread data is kept."""
    source = SourceProgress(source=TOPIC, loss_in_s=3_600 * hours_left, kept_for_s=36_000)
    queries = (make_query(progress=make_progress(sources=(source,))),)
    begin(stream, at=datetime.now(UTC) - ago, queries=queries)


def test_the_status_of_a_driver_names_the_first_loss(stream: StreamHome, run: Run) -> None:
    tell(stream, ago=timedelta(seconds=1), hours_left=5)
    text = run("status", "orders")[1]
    assert f"{TOPIC} removes unread data of revenue in 5 h" in text
    assert "50% of its retention was left" in text
    found = json.loads(run("status", "orders", "--json")[1])["data_loss"]
    assert (found["source"], found["share"]) == (TOPIC, 0.5)


@pytest.mark.parametrize(
    ("ago", "level", "words"),
    [
        pytest.param(2, "off", "Night.", id="most of the time is left"),
        pytest.param(3, "warn", f"Night. {TOPIC} removes unread data", id="half of it is over"),
        pytest.param(6, "warn", "by now.", id="it is too late"),
    ],
)
def test_a_stop_that_costs_data_needs_a_user(
    stream: StreamHome, run: Run, host: FakeHost, ago: float, level: str, words: str
) -> None:
    host.process = GONE
    tell(stream, ago=timedelta(hours=ago), hours_left=5)
    end(stream, outcome=Outcome.STOPPED, reason="ann asked for it.")
    stream.want(DesiredState.STOPPED, by="ann", reason="Night.", now=datetime.now(UTC))
    code, text, _ = run("status", "orders", "--json")
    found = json.loads(text)
    assert (found["state"], found["level"]) == ("off", level)
    assert words in found["reason"]
    assert code == (0 if level == "off" else 1)
    assert ("airflow-streaming start orders" in found["remedy"]) is (level == "warn")
