"""
Which progress sinks a stream configures, and their options.

The keys are in the private properties file like all others, so a password in them reaches the
driver but no record. A misconfigured sink affects neither other sinks nor the stream: the mistake
becomes a sentence in the driver's status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_streaming.exceptions import closed
from airflow_streaming.model.status import SinkStatus

CONF_PREFIX: Final = "spark.airflowStreaming.sink"
"""Prefix of all keys: the list ``...sinks`` and the keys ``...sink.<name>.<key>``."""
_LIST: Final = f"{CONF_PREFIX}s"
_HOME: Final = "home"
"""The history in the home, which is always written and may be named for completeness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    """
    A topic of a Kafka-protocol broker.

    :param client: Everything else, for librdkafka; may hold secrets.
    """

    topic: str
    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusConfig:
    """
    An HTTP endpoint in the driver.

    :param port: 0 takes a free one.
    """

    address: str = "127.0.0.1"
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PushgatewayConfig:
    """
    A Prometheus Pushgateway.

    :param timeout: Seconds for one push.
    """

    url: str
    job: str = "spark_streaming"
    username: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsdConfig:
    """
    A StatsD server.

    :param protocol: ``udp``, or ``tcp``, by which losses are noticed.
    :param timeout: Seconds for one send over TCP.
    """

    host: str = "127.0.0.1"
    port: int = 8125
    protocol: str = "udp"
    prefix: str = "spark_streaming"
    timeout: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelConfig:
    """
    An OTLP endpoint over HTTP.

    :param endpoint: The whole URL, ``/v1/metrics`` included; ``None`` leaves it to the
        ``OTEL_EXPORTER_OTLP_*`` environment variables.
    :param headers: Sent with every export; may hold secrets.
    :param timeout: Seconds for one export.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLinesConfig:
    """
    Files on the driver's host.

    :param folder: Holds ``<stream>.jsonl`` and the older files beside it.
    :param max_bytes: Size at which a file is put aside.
    :param files: How many older files are kept.
    """

    folder: str
    max_bytes: int = 64 * 1024 * 1024
    files: int = 5


SinkConfig = (
    KafkaConfig | PrometheusConfig | PushgatewayConfig | StatsdConfig | OtelConfig | JsonLinesConfig
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSelection:
    """
    The sinks that a configuration selects.

    :param problems: Sinks that cannot be created, with the reason as their trouble.
    """

    sinks: Mapping[str, SinkConfig] = field(default_factory=dict)
    problems: tuple[SinkStatus, ...] = ()


class _Mistake(Exception):
    """A sentence about one sink's configuration."""


def wanted_sinks(conf: Mapping[str, str]) -> SinkSelection:
    """Read the sinks out of a Spark configuration; other keys in it are passed over."""
    listed = [name.strip() for name in conf.get(_LIST, "").split(",")]
    names = dict.fromkeys(name for name in listed if name and name != _HOME)
    keys = _keys_by_sink(conf)
    problems = [
        SinkStatus(sink=name, trouble=_unknown(name, f"{CONF_PREFIX}.{name}.*"))
        for name in keys
        if name not in _KNOWN and name not in names
    ]
    sinks: dict[str, SinkConfig] = {}
    for name in names:
        try:
            sinks[name] = _read(name, keys.get(name, {}))
        except _Mistake as err:
            problems.append(SinkStatus(sink=name, trouble=str(err)))
    return SinkSelection(sinks=sinks, problems=tuple(problems))


def _keys_by_sink(conf: Mapping[str, str]) -> dict[str, dict[str, str]]:
    keys: dict[str, dict[str, str]] = {}
    for key, value in conf.items():
        if key.startswith(f"{CONF_PREFIX}."):
            name, _, rest = key.removeprefix(f"{CONF_PREFIX}.").partition(".")
            keys.setdefault(name, {})[rest] = value
    return keys


def _read(name: str, given: Mapping[str, str]) -> SinkConfig:
    known = _KNOWN.get(name)
    if known is None:
        raise _Mistake(_unknown(name, _LIST))
    config, keys = known
    others = {key: value for key, value in given.items() if key not in keys}
    if others and config is not KafkaConfig:
        raise _Mistake(
            f"Sink {name!r} has no key {_names(others)}. It knows {_names(keys)}; "
            f"each is written {CONF_PREFIX}.{name}.<key>."
        )
    values: dict[str, Any] = {"client": others} if config is KafkaConfig else {}
    for key, read in keys.items():
        if key in given:
            values[_field(key)] = _value(name, key, given[key], read)
    missing = [key for key in keys if key not in given and _is_required(config, key)]
    if missing:
        raise _Mistake(
            f"Sink {name!r} needs {_names(missing)}. "
            f"Set {CONF_PREFIX}.{name}.{missing[0]} in the stream's conf."
        )
    made: SinkConfig = config(**values)
    return made


def _is_required(config: Any, key: str) -> bool:
    found = next(f for f in fields(config) if f.name == _field(key))
    return found.default is MISSING and found.default_factory is MISSING


def _field(key: str) -> str:
    return key.replace(".", "_")


def _value(name: str, key: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text.strip())
    except ValueError as err:
        # The value itself is not repeated: it may be a secret in the wrong place.
        raise _Mistake(f"{CONF_PREFIX}.{name}.{key} {closed(err)}") from None


def _unknown(name: str, where: str) -> str:
    return f"Unknown sink {name!r} in {where}. Known sinks: {_names(_KNOWN)}."


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"{name!r}" for name in names)


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError("must be a port, a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("must be a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 60:
        raise ValueError("must be a number of seconds above 0 and at most 60")
    return seconds


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    return text


def _folder(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("must be an absolute path on the driver's host")
    return text


def _protocol(text: str) -> str:
    if text not in ("udp", "tcp"):
        raise ValueError("must be 'udp' or 'tcp'")
    return text


def _headers(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("must be written name=value,name=value")
    return {name.strip(): value.strip() for name, _, value in pairs}


_KNOWN: Final[Mapping[str, tuple[Any, Mapping[str, Callable[[str], Any]]]]] = {
    "kafka": (KafkaConfig, {"topic": _text, "bootstrap.servers": _text}),
    "prometheus": (PrometheusConfig, {"address": _text, "port": _port}),
    "pushgateway": (
        PushgatewayConfig,
        {"url": _url, "job": _text, "username": _text, "password": _text, "timeout": _seconds},
    ),
    "statsd": (
        StatsdConfig,
        {"host": _text, "port": _port, "protocol": _protocol, "prefix": _text, "timeout": _seconds},
    ),
    "otel": (OtelConfig, {"endpoint": _url, "headers": _headers, "timeout": _seconds}),
    "jsonlines": (JsonLinesConfig, {"folder": _folder, "max.bytes": _count, "files": _count}),
}
"""Every sink with the keys it knows and how each is read."""
