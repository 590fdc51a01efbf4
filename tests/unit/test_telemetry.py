"""Metrics go to Airflow's stats, and never stand in anybody's way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_streaming import telemetry


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
        states.tell(state)

    assert emitted == [
        ("incr", "streaming.verdict.healthy", 1, {"stream": "orders"}),
        ("timing", "streaming.time_in_state.healthy", timedelta(minutes=1), {"stream": "orders"}),
        ("incr", "streaming.verdict.hung", 1, {"stream": "orders"}),
    ]


RULE = {"stream": "orders", "rule": "late", "query": "revenue"}


def test_a_rule_is_exported_once_while_it_is_clear_and_at_every_look_while_it_fires(
    emitted: list[Any],
) -> None:
    gauges = telemetry.RuleGauges(stream="orders")

    for fires in (False, False, True, True, False, False):
        gauges.tell({("late", "revenue"): fires})

    assert emitted == [("gauge", "streaming.rule_firing", value, RULE) for value in (0, 1, 1, 0)]


@pytest.mark.parametrize("ends", ["the rule is gone", "nobody looks"])
def test_a_rule_that_is_not_looked_at_any_more_does_not_fire(emitted: list[Any], ends: str) -> None:
    gauges = telemetry.RuleGauges(stream="orders")
    gauges.tell({("late", "revenue"): True})

    gauges.tell({}) if ends == "the rule is gone" else gauges.close()
    gauges.close()
    gauges.tell({("late", "revenue"): True})

    assert [value for _, _, value, _ in emitted] == [1, 0]


def test_a_label_holds_no_sign_that_a_metrics_system_splits_at(emitted: list[Any]) -> None:
    telemetry.RuleGauges(stream="orders").tell({("too late, again", ""): True})

    assert emitted[0][3] == {"stream": "orders", "rule": "too_late__again", "query": "driver"}


def test_statsd_with_tags_gets_each_rule_as_a_series_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger

    sent: list[tuple[str, float]] = []
    client = SimpleNamespace(gauge=lambda name, value, *_: sent.append((name, value)))
    logger = SafeStatsdLogger(client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)  # type: ignore[arg-type]
    monkeypatch.setattr(stats, "gauge", logger.gauge)

    telemetry.RuleGauges(stream="orders").tell({("late", "revenue"): True})

    assert sent == [("streaming.rule_firing,stream=orders,rule=late,query=revenue", 1)]
