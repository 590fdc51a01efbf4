from __future__ import annotations

import pytest

from airflow_streaming.driver.sinks.config import (
    CONF_PREFIX,
    JsonLinesConfig,
    KafkaConfig,
    OtelConfig,
    PrometheusConfig,
    PushgatewayConfig,
    SinkConfig,
    SinkSelection,
    StatsdConfig,
    wanted_sinks,
)


def conf(sinks: str | None = None, /, **keys: str) -> dict[str, str]:
    """Return a configuration; ``kafka__sasl__password`` stands for ``kafka.sasl.password``."""
    named = {f"{CONF_PREFIX}.{key.replace('__', '.')}": value for key, value in keys.items()}
    return named if sinks is None else {f"{CONF_PREFIX}s": sinks, **named}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"spark.master": "local"}, id="other keys"),
        pytest.param(conf(""), id="an empty list"),
        pytest.param(conf(" home , "), id="the home, which is there anyway"),
        pytest.param(conf(prometheus__port="1"), id="a prepared sink that is not listed"),
    ],
)
def test_without_a_list_there_are_no_sinks(given: dict[str, str]) -> None:
    assert wanted_sinks(given) == SinkSelection()


KAFKA = {"kafka__topic": "progress", "kafka__bootstrap__servers": "a:9092,b:9092"}


@pytest.mark.parametrize(
    ("name", "keys", "config"),
    [
        ("kafka", KAFKA, KafkaConfig(topic="progress", bootstrap_servers="a:9092,b:9092")),
        (
            "kafka",
            {**KAFKA, "kafka__sasl__password": "x"},
            KafkaConfig(
                topic="progress",
                bootstrap_servers="a:9092,b:9092",
                client={"sasl.password": "x"},
            ),
        ),
        ("prometheus", {}, PrometheusConfig(address="127.0.0.1", port=0)),
        (
            "prometheus",
            {"prometheus__address": " 10.0.0.5 ", "prometheus__port": "9464"},
            PrometheusConfig(address="10.0.0.5", port=9464),
        ),
        (
            "pushgateway",
            {"pushgateway__url": "http://gate:9091", "pushgateway__timeout": "0.5"},
            PushgatewayConfig(url="http://gate:9091", timeout=0.5),
        ),
        ("statsd", {}, StatsdConfig(host="127.0.0.1", port=8125, protocol="udp")),
        ("statsd", {"statsd__protocol": "tcp"}, StatsdConfig(protocol="tcp")),
        ("otel", {}, OtelConfig(endpoint=None)),
        (
            "otel",
            {"otel__headers": "a=1, b = x=y"},
            OtelConfig(headers={"a": "1", "b": "x=y"}),
        ),
        (
            "jsonlines",
            {"jsonlines__folder": "/var/log/p", "jsonlines__max__bytes": "1000"},
            JsonLinesConfig(folder="/var/log/p", max_bytes=1000),
        ),
    ],
)
def test_a_sink_is_read_from_its_keys(name: str, keys: dict[str, str], config: SinkConfig) -> None:
    assert wanted_sinks(conf(name, **keys)) == SinkSelection(sinks={name: config})


@pytest.mark.parametrize(
    ("given", "sink", "sentence"),
    [
        pytest.param(
            conf("kafak"),
            "kafak",
            "Unknown sink 'kafak' in spark.airflowStreaming.sinks. Known sinks: "
            "'kafka', 'prometheus', 'pushgateway', 'statsd', 'otel', 'jsonlines'.",
            id="an unknown sink",
        ),
        pytest.param(
            conf(promethius__port="1"),
            "promethius",
            "Unknown sink 'promethius' in spark.airflowStreaming.sink.promethius.*. "
            "Known sinks: 'kafka', 'prometheus', 'pushgateway', 'statsd', 'otel', 'jsonlines'.",
            id="keys of an unknown sink",
        ),
        pytest.param(
            conf("prometheus", prometheus__prt="1"),
            "prometheus",
            "Sink 'prometheus' has no key 'prt'. It knows 'address', 'port'; each is written "
            "spark.airflowStreaming.sink.prometheus.<key>.",
            id="an unknown key",
        ),
        pytest.param(
            conf("kafka", kafka__topic="t"),
            "kafka",
            "Sink 'kafka' needs 'bootstrap.servers'. Set "
            "spark.airflowStreaming.sink.kafka.bootstrap.servers in the stream's conf.",
            id="a missing key",
        ),
        pytest.param(
            conf("prometheus", prometheus__port="http"),
            "prometheus",
            "spark.airflowStreaming.sink.prometheus.port must be a port, a number from 0 to 65535.",
            id="a bad port",
        ),
        pytest.param(
            conf("statsd", statsd__port="70000"),
            "statsd",
            "spark.airflowStreaming.sink.statsd.port must be a port, a number from 0 to 65535.",
            id="a port too high",
        ),
        pytest.param(
            conf("statsd", statsd__protocol="quic"),
            "statsd",
            "spark.airflowStreaming.sink.statsd.protocol must be 'udp' or 'tcp'.",
            id="a bad protocol",
        ),
        pytest.param(
            conf("otel", otel__endpoint="collector:4318"),
            "otel",
            "spark.airflowStreaming.sink.otel.endpoint must be an address that begins with "
            "http:// or https://.",
            id="an address without a scheme",
        ),
        pytest.param(
            conf("otel", otel__timeout="nan"),
            "otel",
            "spark.airflowStreaming.sink.otel.timeout must be a number of seconds above 0 and at "
            "most 60.",
            id="a timeout that is no number",
        ),
        pytest.param(
            conf("jsonlines", jsonlines__folder="logs"),
            "jsonlines",
            "spark.airflowStreaming.sink.jsonlines.folder must be an absolute path on the "
            "driver's host.",
            id="a relative folder",
        ),
        pytest.param(
            conf("jsonlines", jsonlines__folder="/l", jsonlines__files="0"),
            "jsonlines",
            "spark.airflowStreaming.sink.jsonlines.files must be a whole number above 0.",
            id="no files",
        ),
        pytest.param(
            conf("kafka", kafka__topic="", kafka__bootstrap__servers="a:1"),
            "kafka",
            "spark.airflowStreaming.sink.kafka.topic is empty.",
            id="an empty value",
        ),
    ],
)
def test_a_mistake_becomes_a_sentence(given: dict[str, str], sink: str, sentence: str) -> None:
    wanted = wanted_sinks(given)
    assert wanted.sinks == {}
    assert [(problem.sink, problem.trouble) for problem in wanted.problems] == [(sink, sentence)]


def test_one_mistake_costs_one_sink() -> None:
    wanted = wanted_sinks(conf("otel,kafka,statsd", otel__timeout="soon"))
    assert list(wanted.sinks) == ["statsd"]
    assert [problem.sink for problem in wanted.problems] == ["otel", "kafka"]


@pytest.mark.parametrize(
    "given",
    [
        conf("kafka", **KAFKA, kafka__sasl__password="canary"),
        conf("otel", otel__headers="Authorization=canary"),
        conf("otel", otel__headers="canary"),
        conf("otel", otel__endpoint="canary"),
        conf("pushgateway", pushgateway__url="http://g", pushgateway__password="canary"),
        conf("prometheus", prometheus__password="canary"),
    ],
)
def test_no_value_of_a_secret_is_told(given: dict[str, str]) -> None:
    assert "canary" not in repr(wanted_sinks(given))
