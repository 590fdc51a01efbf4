"""The configuration that the security page prints is at least read by what it is for."""

from __future__ import annotations

import ast
import re
from typing import Final

import pytest

from airflow_streaming.spec import StreamSpec
from tests.conftest import REPOSITORY

PAGE: Final = (REPOSITORY / "docs" / "pipelines-security.md").read_text()


def printed(name: str) -> dict[str, str]:
    """Return a dictionary that the page shows under a name."""
    found = re.search(rf"^{name} = (\{{.*?^\}})", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"The page shows no {name}."
    value: dict[str, str] = ast.literal_eval(found.group(1))
    return value


@pytest.mark.parametrize("name", ["SPARK_TLS", "KERBEROS", "KAFKA_JAAS", "KAFKA_TOKENS"])
def test_a_stream_takes_the_configuration_and_does_not_show_its_secrets(name: str) -> None:
    conf = {
        key: "hunter2hunter2" if "password" in key.lower() else value
        for key, value in printed(name).items()
    }
    spec = StreamSpec(
        name="secured", application="jobs/x.py", home="/streams", runtime="spark-4.3", conf=conf
    )

    spec.check()

    assert "hunter2" not in repr(spec)


def test_executors_name_a_file_that_is_shipped_to_their_working_folder() -> None:
    options = printed("KAFKA_JAAS")
    [shipped] = re.findall(r"^    files=(\[.*\]),$", PAGE, re.MULTILINE)
    names = {place.rpartition("/")[2] for place in ast.literal_eval(shipped)}

    place = options["spark.executor.extraJavaOptions"].partition("login.config=")[2]
    assert place in names
    driver = options["spark.driver.extraJavaOptions"].partition("login.config=")[2]
    assert driver in ast.literal_eval(shipped)


def test_librdkafka_takes_the_settings_of_the_topics() -> None:
    from confluent_kafka import Consumer

    own_names = {"ssl.truststore.certificates", "ssl.truststore.type"}
    given = {key.removeprefix("kafka."): value for key, value in printed("KAFKA_SECURITY").items()}
    settings = {key: value for key, value in given.items() if key not in own_names}
    login = {"sasl.username": "streams", "sasl.password": "x", "group.id": "spark-kafka-source"}

    Consumer({**settings, **login, "bootstrap.servers": "127.0.0.1:1"}).close()


def test_librdkafka_refuses_what_is_no_setting() -> None:
    from confluent_kafka import Consumer, KafkaException

    with pytest.raises(KafkaException):
        Consumer({"group.id": "x", "security.protocol": "SASL_TLS"})
