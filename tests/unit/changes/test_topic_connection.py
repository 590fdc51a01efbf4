"""The connection of a comparison of topics: the options of the sink, of the conf and of the terms, by librdkafka's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.topic_connection import (
    Launched,
    NoConnection,
    client_settings,
    connection_of,
    secrets_in,
)
from airflow_streaming.model.spark.secrets import REDACTED

SERVERS = {"kafka.bootstrap.servers": "b:9093"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{SCRAM} required username="streams" password="se\\"cret;1";'
SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
HIDDEN = {**SERVERS, **SASL, "kafka.sasl.jaas.config": REDACTED}


def settings(writer: dict[str, str], terms: dict[str, str] | None = None, **launched: Any) -> Any:
    return client_settings(connection_of(writer, terms or {}, Launched(**launched)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(SASL | {"kafka.acks": "all", "kafka.linger.ms": "5", "topic": "o"},
                     {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}, id="no options of a writer"),
        pytest.param({"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": "-----BEGIN"},
                     {"ssl.ca.pem": "-----BEGIN"}, id="PEM text"),
        pytest.param({"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "/ca.pem"},
                     {"ssl.ca.location": "/ca.pem"}, id="PEM file"),
        pytest.param({"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": "/me.pem"},
                     {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"}, id="PEM key file"),
        pytest.param({"kafka.ssl.keystore.type": "PKCS12", "kafka.ssl.keystore.location": "/me.p12"},
                     {"ssl.keystore.location": "/me.p12"}, id="PKCS12"),
        pytest.param({"kafka.ssl.endpoint.identification.algorithm": ""},
                     {"ssl.endpoint.identification.algorithm": "none"}, id="no check of names"),
        pytest.param({"kafka.ssl.protocol": "TLSv1.3", "kafka.sasl.login.class": "x.Y"}, {}, id="only of Java"),
    ],
)  # fmt: skip
def test_the_options_of_the_sink_become_settings_of_the_library(
    options: dict[str, str], expected: dict[str, str]
) -> None:
    assert settings({**SERVERS, **options}) == {"bootstrap.servers": "b:9093", **expected}


@pytest.mark.parametrize("form", ["", "PKCS12", "JKS"])
def test_a_trust_store_that_only_java_reads_is_named_with_the_remedy(form: str) -> None:
    store = {"kafka.ssl.truststore.location": "/t.jks", "kafka.ssl.truststore.password": REDACTED}
    given = {"kafka.ssl.truststore.type": form} if form else {}
    conf = {"spark.kafka.ssl.truststore.password": "p"}

    with pytest.raises(NoConnection, match=r"/t\.jks is of type .*kafka\.ssl\.ca\.location"):
        settings({**SERVERS, **store, **given}, conf=conf)

    own = {"kafka.ssl.ca.location": "/ca.pem", "kafka.ssl.truststore.location": ""}
    assert settings({**SERVERS, **store, **given}, own, conf=conf) == {
        "bootstrap.servers": "b:9093",
        "ssl.ca.location": "/ca.pem",
    }


def test_the_login_comes_from_the_conf_of_the_deployment() -> None:
    found = settings(HIDDEN, conf={"spark.kafka.sasl.jaas.config": JAAS, "spark.master": "local"})

    assert (found["sasl.username"], found["sasl.password"]) == ("streams", 'se"cret;1')
    assert "sasl.jaas.config" not in found


def test_the_login_comes_from_the_environment_by_a_placeholder() -> None:
    terms = {"kafka.sasl.username": "streams", "kafka.sasl.password": "{env.KAFKA_PASSWORD}"}

    found = settings(HIDDEN, terms, env={"KAFKA_PASSWORD": "secret-1"})

    assert (found["sasl.username"], found["sasl.password"]) == ("streams", "secret-1")
    with pytest.raises(NoConnection, match="KAFKA_PASSWORD, which is not set"):
        settings(HIDDEN, terms)


def test_the_login_comes_from_the_jaas_file_of_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    conf = {"spark.driver.extraJavaOptions": f"-Xss4m -Djava.security.auth.login.config={file}"}
    writer = {**SERVERS, **SASL}

    with pytest.raises(NoConnection, match="cannot be read here"):
        settings(writer, conf=conf)
    file.write_text("Other { x required; };\n")
    with pytest.raises(NoConnection, match="no section KafkaClient"):
        settings(writer, conf=conf)
    file.write_text(f"KafkaClient {{\n  {JAAS}\n}};\n")
    assert settings(writer, conf=conf)["sasl.password"] == 'se"cret;1'
    assert "sasl.password" not in settings(SERVERS, conf=conf)


def test_kerberos_keeps_principal_and_keytab() -> None:
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        'keyTab="/k.keytab" principal="s@EXAMPLE.ORG";'
    )

    found = settings({**SERVERS, "kafka.sasl.jaas.config": jaas})

    assert found["sasl.kerberos.keytab"] == "/k.keytab"
    assert found["sasl.kerberos.principal"] == "s@EXAMPLE.ORG"


def test_a_secret_that_is_nowhere_is_named_without_a_guess() -> None:
    with pytest.raises(NoConnection, match=r"kafka\.sasl\.jaas\.config.*spark\.kafka\.sasl") as err:
        settings(HIDDEN)

    assert REDACTED not in str(err.value)


def test_secrets_are_known_and_never_shown() -> None:
    launched = Launched(conf={"spark.kafka.sasl.jaas.config": JAAS}, env={"P": "secret-1"})
    options = connection_of(HIDDEN, {}, launched)

    assert "cret" not in repr(launched)
    assert secrets_in(options) == [JAAS, 'se"cret;1']


def test_the_library_knows_every_setting(tmp_path: Path) -> None:
    library = pytest.importorskip("confluent_kafka")
    plain = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    names = {
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.client.dns.lookup": "use_all_dns_ips",
    }
    conf = {"spark.kafka.sasl.jaas.config": JAAS}

    found = settings({**SERVERS, **plain, **names, "kafka.sasl.jaas.config": REDACTED}, conf=conf)

    library.Consumer({**found, "group.id": "g"}).close()
