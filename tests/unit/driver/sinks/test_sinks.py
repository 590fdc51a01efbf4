from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_streaming.driver.sinks import port
from airflow_streaming.driver.sinks.config import CONF_PREFIX
from airflow_streaming.driver.sinks.outlet import Sinks
from tests.patience import until
from tests.unit.driver.sinks.events import ORIGIN, a_batch


def to_files(folder: Path, sinks: str = "jsonlines") -> Mapping[str, str]:
    return {f"{CONF_PREFIX}s": sinks, f"{CONF_PREFIX}.jsonlines.folder": str(folder)}


def test_sinks_open_once_the_configuration_can_be_read(tmp_path: Path) -> None:
    known: list[Mapping[str, str] | None] = [None]
    sinks = Sinks(ORIGIN, read_conf=lambda: known[0])
    sinks.offer([])
    assert sinks.statuses() == ()

    known[0] = to_files(tmp_path)
    sinks.offer([])
    assert [status.sink for status in sinks.statuses()] == ["jsonlines"]
    sinks.offer([a_batch(0), a_batch(0, "other")])
    sinks.offer([a_batch(1)])
    assert sinks.close()

    [status] = sinks.statuses()
    assert (status.sent, status.dropped, status.trouble) == (3, 0, None)
    told = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    assert [(line["query"], line["sequence"]) for line in told] == [
        ("q", 1),
        ("other", 2),
        ("q", 3),
    ]
    assert told[2] == {
        "stream": "orders",
        "epoch": 7,
        "deployment": 3,
        "query": "q",
        "sequence": 3,
        "progress": {"id": "id-q", "runId": "run-q", "batchId": 1},
    }


def test_a_stream_without_sinks_has_nothing_to_close() -> None:
    sinks = Sinks(ORIGIN, read_conf=dict)
    sinks.offer([a_batch(0)])
    assert not sinks.close()
    assert sinks.statuses() == ()


def test_a_wrong_sink_is_told_and_the_others_work(tmp_path: Path) -> None:
    sinks = Sinks(ORIGIN, read_conf=lambda: to_files(tmp_path, "jsonlines,grafana"))
    sinks.offer([a_batch(0)])
    sinks.close()
    written, unknown = sinks.statuses()
    assert (written.sink, written.sent) == ("jsonlines", 1)
    assert unknown.sink == "grafana"
    assert unknown.trouble is not None
    assert unknown.trouble.startswith("Unknown sink 'grafana'")


def test_a_jvm_that_does_not_answer_disturbs_nobody(tmp_path: Path) -> None:
    answers: list[Mapping[str, str]] = []

    def ask() -> Mapping[str, str]:
        return answers[0]

    sinks = Sinks(ORIGIN, read_conf=ask)
    sinks.offer([a_batch(0)])  # IndexError
    answers.append(to_files(tmp_path))
    sinks.offer([a_batch(1)])
    sinks.close()
    assert [(s.sink, s.sent) for s in sinks.statuses()] == [("jsonlines", 1)]


@pytest.mark.parametrize(
    ("keys", "package"),
    [
        (
            {"s": "kafka", ".kafka.topic": "t", ".kafka.bootstrap.servers": "b:1"},
            "confluent-kafka",
        ),
        ({"s": "prometheus"}, "prometheus-client"),
        ({"s": "pushgateway", ".pushgateway.url": "http://gate"}, "prometheus-client"),
        ({"s": "statsd"}, "statsd"),
        ({"s": "otel"}, "opentelemetry-sdk"),
    ],
    ids=lambda value: value["s"] if isinstance(value, dict) else "",
)
def test_a_missing_library_is_told_with_what_to_install(
    keys: Mapping[str, str], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr(port.importlib, "import_module", absent)
    conf = {f"{CONF_PREFIX}{key}": value for key, value in keys.items()}
    sinks = Sinks(ORIGIN, read_conf=lambda: conf)
    sinks.offer([])
    until(lambda: sinks.statuses()[0].trouble, "Trouble", every=0.002)
    sinks.close()
    [status] = sinks.statuses()
    assert status.trouble is not None
    assert f"Install {package!r} into the runtime of the stream." in status.trouble
