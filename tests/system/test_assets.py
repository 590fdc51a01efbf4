"""A dag that is scheduled by the watermark of a stream, on a real Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.core.names import Layout
from airflow_streaming.home.home import open_home
from demo.airflow import Airflow
from demo.waiting import Progress, wait_for
from tests.unit.core.builders import a_batch, a_query, a_status, an_epoch

DAG = """
import json
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, task
from airflow_streaming.assets import stream_asset

asset = stream_asset("orders", {home!r}, every=timedelta(hours=1), poll=timedelta(seconds=1))

with DAG("hourly_report", schedule=asset, catchup=False):

    @task
    def report(triggering_asset_events=None):
        with Path({told!r}).open("a") as told:
            for event in triggering_asset_events[asset]:
                told.write(json.dumps(event.extra["payload"]) + "\\n")

    report()
"""

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Stream:
    """A stream whose driver is the test; nothing of it runs but its records."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "home")
        self._home = open_home(self.uri)
        self._home.stream("orders").create_epoch(an_epoch(number=1))

    def commit(self, batch: int, watermark: datetime) -> None:
        progress = a_batch(batch_id=batch, watermark=watermark.isoformat())
        status = a_status(epoch=1, beat=batch, queries=(a_query(progress=progress),))
        self._home.store.replace(Layout("orders").epoch(1, "status.json"), status.to_bytes())


def is_settled(airflow: Airflow) -> bool:
    """Tell whether nothing would be told again if the triggerer died now."""
    (asset,) = airflow.get("/api/v2/assets")["assets"]
    kept = airflow.get(f"/api/v2/assets/{asset['id']}/state-store/streaming.watermark")
    return kept["value"]["pending"] is None


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[Airflow]:
    dags = tmp_path / "dags"
    dags.mkdir()
    made = Airflow(tmp_path / "airflow", dags=dags, environment={}, port=0)
    yield made
    made.stop()


def test_a_dag_runs_when_the_watermark_of_a_stream_completes_an_hour(
    tmp_path: Path, airflow: Airflow
) -> None:
    stream, told, say = Stream(tmp_path), tmp_path / "told.jsonl", Progress()
    stream.commit(7, NOON + timedelta(minutes=20))
    source = DAG.format(home=stream.uri, told=str(told))
    (tmp_path / "dags" / "hourly_report.py").write_text(source)

    def reports() -> list[dict[str, Any]]:
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    def wait_for_reports(number: int, what: str) -> None:
        wait_for(lambda: len(reports()) >= number, what=what, seconds=90, say=say)

    airflow.start(say)
    wait_for(lambda: airflow.has_dag("hourly_report"), what="the dag", seconds=60, say=say)
    airflow.unpause("hourly_report")
    wait_for_reports(1, "a run for where the stream stands")
    stream.commit(8, NOON + timedelta(minutes=50))
    stream.commit(9, NOON + timedelta(minutes=125))
    wait_for_reports(2, "a run for the hours that were completed")

    wait_for(lambda: is_settled(airflow), what="the delivery", seconds=30, say=say)
    airflow.replace_component("triggerer")
    stream.commit(10, NOON + timedelta(minutes=185))
    wait_for_reports(3, "a run after the triggerer was killed")

    assert [
        (one["sequence"], (one["complete_from"] or "")[11:16], one["complete_until"][11:16])
        for one in reports()
    ] == [(1, "", "12:00"), (2, "12:00", "14:00"), (3, "14:00", "15:00")]
    events = airflow.get("/api/v2/assets/events")
    assert events["total_entries"] == 3, "nothing is told twice"
    assert {event["extra"]["from_trigger"] for event in events["asset_events"]} == {True}
