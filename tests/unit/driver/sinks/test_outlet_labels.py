"""The figures of a driver carry the labels that its configuration brings."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from airflow_streaming.driver.sinks import outlet
from airflow_streaming.driver.sinks.config import PrometheusConfig
from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, SINK_FIGURES, Ledger
from airflow_streaming.driver.sinks.outlet import Sinks
from airflow_streaming.driver.sinks.port import Origin
from airflow_streaming.driver.sinks.prometheus import PrometheusSink
from airflow_streaming.model.fleet.metric_labels import CONF_KEY
from airflow_streaming.model.status import SinkStatus
from tests.unit.driver.sinks.events import ORIGIN, an_event

LABELS = {"label_team": "payments"}
LABELLED = Origin(stream="orders", epoch=7, deployment=3, labels=LABELS)


def test_every_sample_has_the_labels() -> None:
    ledger = Ledger(LABELLED.tags, lambda: (SinkStatus(sink="kafka", sent=2),))
    ledger.take([an_event(1)])

    samples = [s for figure in (*BATCH_FIGURES, *SINK_FIGURES) for s in ledger.samples(figure)]

    assert len(samples) > 5
    assert all({**s.labels, **LABELS, "stream": "orders"} == s.labels for s in samples)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[Origin]:
    """Origins with which sinks were connected."""
    found: list[Origin] = []

    class Outlet:
        def __init__(self, name: str, connect: Any) -> None:
            found.append(connect.args[1])

        def begin(self) -> None: ...

    monkeypatch.setattr(outlet, "Outlet", Outlet)
    return found


def test_the_configuration_brings_the_labels_to_the_sinks(connected: list[Origin]) -> None:
    conf = {
        "spark.airflowStreaming.sinks": "prometheus",
        CONF_KEY: json.dumps({"label_team": "payments", "tier\n": "1\n2"}),
    }

    sinks = Sinks(ORIGIN, read_conf=lambda: conf)
    sinks.offer(())

    assert connected[0].tags == {"stream": "orders", **LABELS, "label_tier_": "1_2"}
    assert sinks._problems == (), "the key is of no sink"


def test_prometheus_scrapes_the_labels_of_every_metric() -> None:
    pytest.importorskip("prometheus_client")
    sink = PrometheusSink(PrometheusConfig(), LABELLED, lambda: (SinkStatus(sink="kafka"),))
    try:
        sink.send([an_event(1)])
        with urllib.request.urlopen(str(sink.url), timeout=10) as reply:  # noqa: S310 - our own address
            lines = reply.read().decode().splitlines()
    finally:
        sink.close()

    series = [line for line in lines if not line.startswith("#")]
    assert len(series) > 5
    assert all('label_team="payments"' in line and 'stream="orders"' in line for line in series)
    [about] = [line for line in series if line.startswith("spark_streaming_query_info")]
    assert 'epoch="7"' in about
    assert 'query="q"' in about
