"""Metrics go to Airflow's stats, and never stand in anybody's way."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_streaming import telemetry

LANE = {"stream": "orders", "lane": "orders"}


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any, dict[str, str]]]:
    """Everything that reaches Airflow's stats."""
    seen: list[tuple[str, str, Any, dict[str, str]]] = []

    def note(kind: str) -> Callable[..., None]:
        def emit(name: str, value: Any, *, tags: dict[str, str]) -> None:
            seen.append((kind, name, value, tags))

        return emit

    for kind in ("incr", "timing", "gauge"):
        monkeypatch.setattr(stats, kind, note(kind))
    return seen


def test_every_kind_of_metric_has_our_prefix_and_texts_as_tags(emitted: list[Any]) -> None:
    telemetry.count("restarts", stream="orders", epoch=3)
    telemetry.timing("poll_lag", 0.25, stream="orders")

    assert emitted == [
        ("incr", "streaming.restarts", 1, {"stream": "orders", "epoch": "3"}),
        ("timing", "streaming.poll_lag", timedelta(seconds=0.25), {"stream": "orders"}),
    ]


def test_a_broken_metrics_client_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no such host")

    monkeypatch.setattr(stats, "incr", fail)
    monkeypatch.setattr(telemetry, "_complained", set())

    telemetry.count("restarts")
    telemetry.count("restarts")

    assert telemetry._complained == {"restarts"}


def test_without_a_metrics_client_nothing_is_complained_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "_complained", set())
    telemetry.count("restarts", stream="orders")
    telemetry.timing("poll_lag", 0.1)

    assert telemetry._complained == set()


def test_a_verdict_is_counted_when_it_changes_and_timed_when_it_ends(emitted: list[Any]) -> None:
    moments = iter([101.0, 161.0])
    states = telemetry.StateClock(stream="orders", clock=lambda: next(moments))

    for state in (None, "healthy", "healthy", "hung"):
        states.tell(state, lane="orders")

    assert emitted == [
        ("incr", "streaming.verdict.healthy", 1, LANE),
        ("timing", "streaming.time_in_state.healthy", timedelta(minutes=1), LANE),
        ("incr", "streaming.verdict.hung", 1, LANE),
    ]


RULE = {**LANE, "rule": "late", "query": "revenue"}


def test_a_rule_is_exported_once_while_it_is_clear_and_at_every_look_while_it_fires(
    emitted: list[Any],
) -> None:
    gauges = telemetry.RuleGauges(stream="orders")

    for fires in (False, False, True, True, False, False):
        gauges.tell({("late", "revenue"): fires}, lane="orders")

    assert emitted == [("gauge", "streaming.rule_firing", value, RULE) for value in (0, 1, 1, 0)]


@pytest.mark.parametrize("ends", ["the rule is gone", "nobody looks"])
def test_a_rule_that_is_not_looked_at_any_more_does_not_fire(emitted: list[Any], ends: str) -> None:
    gauges = telemetry.RuleGauges(stream="orders")
    gauges.tell({("late", "revenue"): True}, lane="orders")

    gauges.tell({}, lane="orders") if ends == "the rule is gone" else gauges.close()
    gauges.close()
    gauges.tell({("late", "revenue"): True}, lane="orders")

    assert [value for _, _, value, _ in emitted] == [1, 0]


def test_a_label_holds_no_sign_that_a_metrics_system_splits_at(emitted: list[Any]) -> None:
    telemetry.RuleGauges(stream="orders").tell({("too late, again", ""): True}, lane="orders")

    assert emitted[0][3] == {**LANE, "rule": "too_late__again", "query": "driver"}


def test_statsd_with_tags_gets_each_rule_as_a_series_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger

    sent: list[tuple[str, float]] = []
    client = SimpleNamespace(gauge=lambda name, value, *_: sent.append((name, value)))
    logger = SafeStatsdLogger(client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)  # type: ignore[arg-type]
    monkeypatch.setattr(stats, "gauge", logger.gauge)

    telemetry.RuleGauges(stream="orders").tell({("late", "revenue"): True}, lane="orders")

    assert sent == [("streaming.rule_firing,stream=orders,lane=orders,rule=late,query=revenue", 1)]


def test_a_lane_that_is_left_fires_no_rule_and_begins_a_verdict(emitted: list[Any]) -> None:
    moments = iter([101.0, 161.0])
    gauges = telemetry.RuleGauges(stream="orders")
    states = telemetry.StateClock(stream="orders", clock=lambda: next(moments))
    for lane in ("orders", "orders.green"):
        gauges.tell({("late", "revenue"): True}, lane=lane)
        states.tell("healthy", lane=lane)

    green = {"stream": "orders", "lane": "orders.green"}
    assert emitted == [
        ("gauge", "streaming.rule_firing", 1, RULE),
        ("incr", "streaming.verdict.healthy", 1, LANE),
        ("gauge", "streaming.rule_firing", 1, RULE | green),
        ("gauge", "streaming.rule_firing", 0, RULE),
        ("timing", "streaming.time_in_state.healthy", timedelta(minutes=1), LANE),
        ("incr", "streaming.verdict.healthy", 1, green),
    ]


@pytest.fixture
def dogstatsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A receiver of DogStatsD to which Airflow's stats are sent, as its configuration says."""
    pytest.importorskip("datadog", reason="Airflow's DogStatsD client; 'make setup' installs it.")
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    module = importlib.import_module("airflow.sdk._shared.observability.metrics.stats")
    for name in ("_factory", "_backend", "_export_legacy_names"):
        monkeypatch.setattr(module, name, getattr(module, name))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        options = {
            "STATSD_DATADOG_ENABLED": "True",
            "STATSD_HOST": "127.0.0.1",
            "STATSD_PORT": str(receiver.getsockname()[1]),
            "STATSD_DATADOG_TAGS": "env:test",
        }
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
        yield receiver
        module._backend.dogstatsd.close_socket()


def parsed(line: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Return name, value, type and tags of a line of DogStatsD."""
    metric, kind, *rest = line.decode().strip().split("|")
    name, _, value = metric.partition(":")
    [tags] = [part.removeprefix("#") for part in rest if part.startswith("#")]
    return name, value, kind, dict(tag.split(":", 1) for tag in tags.split(","))


def test_datadog_receives_each_metric_with_its_tags(dogstatsd: socket.socket) -> None:
    telemetry.count("restarts", **LANE)
    telemetry.timing("poll_lag", 0.25, stream="orders")
    telemetry.RuleGauges(stream="orders").tell({("too late, again", ""): True}, lane="orders.green")

    own = {"env": "test"}
    rule = {"rule": "too_late__again", "query": "driver", "lane": "orders.green"}
    assert [parsed(dogstatsd.recv(65_536)) for _ in range(3)] == [
        ("airflow.streaming.restarts", "1", "c", LANE | own),
        ("airflow.streaming.poll_lag", "250.0", "ms", {"stream": "orders"} | own),
        ("airflow.streaming.rule_firing", "1", "g", LANE | rule | own),
    ]


def test_labels_are_further_tags_of_verdicts_and_rules(emitted: list[Any]) -> None:
    moments = iter([101.0, 161.0])
    labels = {"label_team": "payments"}
    states = telemetry.StateClock(stream="orders", labels=labels, clock=lambda: next(moments))
    states.tell("healthy", lane="orders")
    states.tell("hung", lane="orders")
    telemetry.RuleGauges(stream="orders", labels=labels).tell(
        {("late", "revenue"): True}, lane="orders"
    )

    assert [tags for *_, tags in emitted] == [
        *[{**LANE, **labels}] * 3,
        {**RULE, **labels},
    ]


def test_a_label_cannot_replace_the_stream(emitted: list[Any]) -> None:
    telemetry.StateClock(stream="orders", labels={"stream": "other"}).tell("healthy", lane="orders")

    assert emitted[0][3] == LANE
