"""
The connection to the topics that a comparison reads, with encryption and login.

The script configures Kafka's Java clients; a comparison uses librdkafka, which has other names for some settings. A
record of a plan holds no secret. The value of a secret option comes from the deployment's configuration
(``spark.kafka.OPTION``), from its environment (``{env.NAME}`` in ``CompareTerms.options``), or from the JAAS file of
the driver. The secrets stay in the memory of the task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_streaming.model.spark.secrets import REDACTED, is_secret_name

PREFIX: Final = "kafka."
SERVERS: Final = f"{PREFIX}bootstrap.servers"
_CONF: Final = "spark.kafka."
_CARRIED: Final = ("bootstrap.servers", "client.dns.lookup", "sasl.", "security.", "ssl.")
"""Beginnings of the names of connection options; the other options of a writer are about writing."""
_JAVA_ONLY: Final = frozenset(
    {
        *("sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.class"),
        *("sasl.login.callback.handler.class", "security.providers", "ssl.engine.factory.class"),
        *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.provider", "ssl.protocol"),
        *("ssl.secure.random.implementation", "ssl.enabled.protocols", "ssl.cipher.suites"),
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.ticket.renew.jitter"),
        *("sasl.kerberos.ticket.renew.window.factor", "sasl.login.refresh.buffer.seconds"),
        *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor"),
        *(
            "sasl.login.refresh.window.jitter",
            "ssl.truststore.type",
            "ssl.keystore.type",
            "group.id",
        ),
    }
)
"""Settings of Java clients without an equal in librdkafka, and settings that this module translates."""
_PEM: Final = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_PAIR: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""")
_CLIENT: Final = re.compile(r"KafkaClient\s*\{(.*?)\}\s*;?", re.DOTALL)
_JAAS_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\"[^\"]+\"|\S+)")
_DRIVER_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_ENVIRONMENT: Final = re.compile(r"\{env\.([A-Za-z_][A-Za-z0-9_]*)\}")


class NoConnection(Exception):
    """The connection of the topics cannot be made as the script makes it; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The configuration that the driver of a lane was launched with, secrets included."""

    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def connection_of(
    writer: Mapping[str, str], terms: Mapping[str, str], launched: Launched
) -> dict[str, str]:
    """
    Return the options of a connection by the names of Spark's Kafka source, secrets included.

    :param writer: Options of the sink in a recorded plan, secrets redacted.
    :param terms: Options of ``CompareTerms``, which take precedence.
    :raises NoConnection: an option is a secret without a value in any of these places.
    """
    of_conf = {
        f"{PREFIX}{key.removeprefix(_CONF)}": value
        for key, value in launched.conf.items()
        if key.startswith(_CONF) and _is_carried(key.removeprefix(_CONF))
    }
    of_writer = {
        key: value for key, value in writer.items() if _is_carried(key.removeprefix(PREFIX))
    }
    found = {**of_writer, **of_conf, **_filled(terms, launched.env)}
    hidden = sorted(key for key, value in found.items() if REDACTED in value)
    if hidden and not _is_login_given(hidden, found):
        raise NoConnection(
            f"Option {hidden[0]} of the Kafka sink is a secret, which no record holds. Give the comparison its "
            f"value: as {_CONF}{hidden[0].removeprefix(PREFIX)} in the conf of the StreamSpec, or as "
            f"CompareTerms(options={{{hidden[0]!r}: '{{env.NAME}}'}}) with NAME in the env of the StreamSpec."
        )
    kept = {key: value for key, value in found.items() if key not in hidden}
    return kept | _of_jaas_file(kept, launched.conf)


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """
    Return the settings of librdkafka for the options of Spark's Kafka source.

    :raises NoConnection: librdkafka cannot read the keys or certificates.
    """
    given = {
        key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)
    }
    found = {key: value for key, value in given.items() if key not in _JAVA_ONLY}
    for java, own in _PEM.items():
        if java in found:
            found[own] = found.pop(java)
    found |= dict(_stores(found, given))
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return {**dict(_login(given.get("sasl.jaas.config", ""))), **found}


def secrets_in(options: Mapping[str, str]) -> list[str]:
    """Return the secret values of options and of a JAAS text in them, the longest first."""
    found = {value for key, value in options.items() if is_secret_name(key) and value}
    texts = (value for key, value in options.items() if key.endswith("jaas.config"))
    found |= {
        value for text in texts for key, value in _pairs(text) if is_secret_name(key) and value
    }
    return sorted(found, key=len, reverse=True)


def _is_carried(option: str) -> bool:
    return option.startswith(_CARRIED)


def _filled(terms: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in env:
            raise NoConnection(
                f"The options of the comparison name the variable {name}, which is not set. Set it in the env of the "
                "StreamSpec, or in the environment of the command."
            )
        return env[name]

    return {key: _ENVIRONMENT.sub(value, text) for key, text in terms.items()}


def _is_login_given(hidden: list[str], found: Mapping[str, str]) -> bool:
    """Tell whether only a hidden JAAS text is missing, and another option has the login."""
    return hidden == [f"{PREFIX}sasl.jaas.config"] and f"{PREFIX}sasl.password" in found


def _of_jaas_file(found: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """
    Return the login of the driver's JAAS file, where no option has one.

    :raises NoConnection: the file cannot be read here, or has no section for Kafka.
    """
    protocol = found.get(f"{PREFIX}security.protocol", "").upper()
    has_login = {f"{PREFIX}sasl.jaas.config", f"{PREFIX}sasl.password"} & found.keys()
    named = _JAAS_FILE.search(" ".join(conf.get(key, "") for key in _DRIVER_OPTIONS))
    if not protocol.startswith("SASL") or has_login or named is None:
        return {}
    path = Path(named.group(1).strip('"'))
    try:
        section = _CLIENT.search(path.read_text())
    except (OSError, ValueError) as err:
        raise NoConnection(f"The driver's JAAS file {path} cannot be read here: {err}") from None
    if section is None:
        raise NoConnection(f"The driver's JAAS file {path} has no section KafkaClient.")
    return {f"{PREFIX}sasl.jaas.config": section.group(1).strip()}


def _login(jaas: str) -> Iterator[tuple[str, str]]:
    for key, value in _pairs(jaas):
        if key in ("username", "password"):
            yield f"sasl.{key}", value
        elif key in ("principal", "keyTab", "serviceName"):
            own = {"keyTab": "keytab", "serviceName": "service.name"}.get(key, key)
            yield f"sasl.kerberos.{own}", value


def _pairs(jaas: str) -> Iterator[tuple[str, str]]:
    for key, double, single, plain in _PAIR.findall(jaas):
        yield key, re.sub(r"\\(.)", r"\1", double) or single or plain


def _stores(found: dict[str, str], given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """
    Yield the settings for key and trust stores in files, and take the Java settings out.

    :raises NoConnection: a store has a format of Java.
    """
    found.pop("ssl.truststore.password", None)
    trusted = found.pop("ssl.truststore.location", "")
    if trusted:
        _check_format("truststore", trusted, given, ("PEM",))
        yield "ssl.ca.location", trusted
    store = found.pop("ssl.keystore.location", "")
    if not store:
        return
    if _check_format("keystore", store, given, ("PEM", "PKCS12")) == "PKCS12":
        yield "ssl.keystore.location", store
        return
    found.pop("ssl.keystore.password", None)
    yield "ssl.certificate.location", store
    yield "ssl.key.location", store


def _check_format(store: str, path: str, given: Mapping[str, str], known: tuple[str, ...]) -> str:
    form = given.get(f"ssl.{store}.type", "JKS").upper()
    if form not in known:
        own = "ssl.ca.location" if store == "truststore" else "ssl.keystore.location"
        raise NoConnection(
            f"The {store} {path} is of type {form}, which only Java reads; the comparison reads "
            f"{' and '.join(known)}. Give CompareTerms options={{'{PREFIX}{own}': ...}} with such a file, and "
            f"'{PREFIX}ssl.{store}.location': ''."
        )
    return form
