"""A driver with the official Kafka connector logs in to a broker over TLS, as ``docs/pipelines-security.md`` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.model.records.epoch import Exit
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.integration.driver.running import World
from tests.integration.driver.test_kafka import send
from tests.integration.servers.broker import count_records, create_topic, kafka_broker
from tests.integration.servers.connector import official_jars
from tests.integration.servers.guarded_broker import Login, certificate, guarded

LOGIN = Login(mechanism="SCRAM-SHA-256")
ROWS = 40
SCRIPT = """
import os
servers, protocol, certificates, timeout_ms = sys.argv[3:]
module = "org.apache.kafka.common.security.scram.ScramLoginModule"
options = {
    "kafka.bootstrap.servers": servers,
    "kafka.security.protocol": protocol,
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.certificates": Path(certificates).read_text(),
    "kafka.sasl.jaas.config": f'{module} required username="kim" password="{os.environ["KAFKA_PASSWORD"]}";',
    "kafka.default.api.timeout.ms": timeout_ms,
    "kafka.max.block.ms": "300000",
    "fetchOffset.numRetries": "1",
}
rows = (spark.readStream.format("kafka").options(**options)
        .option("subscribe", "in").option("startingOffsets", "earliest").load())
(rows.select("key", "value").writeStream.queryName("q").format("kafka").options(**options)
 .option("topic", "out").trigger(availableNow=True).start().awaitTermination())
"""


class Broker:
    """A broker with TLS and a login; ``plain`` is its address without."""

    def __init__(self, plain: str, address: str, certificates: Path) -> None:
        self.plain, self.address, self.certificates = plain, address, certificates


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("kafka")
    tls = certificate(folder)
    with kafka_broker(folder / "data") as plain, guarded(plain, tls=tls, login=LOGIN) as address:
        for topic in ("in", "out"):
            create_topic(plain, topic, 1)
        send(plain, "in", ROWS)
        yield Broker(plain, address, tls[0])


def run(
    world: World, broker: Broker, password: str, protocol: str = "SASL_SSL", seconds: int = 300
) -> Exit:
    arguments = (
        *(str(world.folder), "{stream}", broker.address, protocol),
        *(str(broker.certificates), str(seconds * 1000)),
    )
    world.deploy(SCRIPT, application_args=arguments, checkpoint=str(world.home / "checkpoint"))
    world.begin_epoch(1)
    driver = world.launch(env={"KAFKA_PASSWORD": password}, submit=["--jars", official_jars()])
    driver.ended()
    found = driver.exit()
    assert found is not None, driver.log
    recorded = [path for path in world.home.rglob("*") if path.is_file()]
    assert not [path for path in recorded if password.encode() in path.read_bytes()]
    return found


def test_records_pass_over_tls_with_a_login_and_no_record_holds_the_password(
    world: World, broker: Broker
) -> None:
    before = count_records(broker.plain, "out")

    ended = run(world, broker, LOGIN.password)

    assert ended.failure_kind is None, ended.reason
    assert count_records(broker.plain, "out") - before == ROWS


def test_a_wrong_password_names_the_cause_and_the_broker(world: World, broker: Broker) -> None:
    ended = run(world, broker, "wrong-sesame")

    assert ended.failure_kind is FailureKind.CONFIGURATION, ended
    assert "Authentication failed" in ended.reason
    assert broker.address in ended.reason


def test_a_client_without_tls_is_told_of_the_protocol(world: World, broker: Broker) -> None:
    ended = run(world, broker, "any-sesame", "PLAINTEXT", seconds=30)

    # Kafka's client cannot tell a listener with TLS from one that does not answer.
    assert ended.failure_kind is FailureKind.TRANSIENT, ended
    assert "kafka.security.protocol" in ended.remedy
    assert broker.address in ended.reason
