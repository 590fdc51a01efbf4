"""One connection of a home, mapped to fsspec for Airflow and to Hadoop for the driver."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection

from airflow_streaming.hooks.home import hadoop_options, storage_options, store_access
from airflow_streaming.launch.environment import split_secrets
from airflow_streaming.spec import StreamSpec
from tests.unit.supervision.builders import a_deployment


def connection(login: str = "", password: str = "", **extra: str) -> Connection:
    return Connection(
        conn_id="home",
        conn_type="stream_home",
        login=login or None,
        password=password or None,
        extra=json.dumps(extra) if extra else None,
    )


KEY = connection("AKIA", "s3cret", endpoint_url="http://store:9000", region="eu-west-1")
BUCKET = "spark.hadoop.fs.s3a.bucket.streams"
ACCOUNT = "lake.dfs.core.windows.net"


@pytest.mark.parametrize("home", ["s3://streams/home", "s3a://streams/home"])
def test_a_key_and_an_endpoint_of_s3(home: str) -> None:
    assert storage_options(home, KEY) == {
        "key": "AKIA",
        "secret": "s3cret",
        "client_kwargs": {"endpoint_url": "http://store:9000", "region_name": "eu-west-1"},
    }
    assert hadoop_options(home, KEY, {}) == {
        f"{BUCKET}.access.key": "AKIA",
        f"{BUCKET}.secret.key": "s3cret",
        f"{BUCKET}.endpoint": "http://store:9000",
        f"{BUCKET}.endpoint.region": "eu-west-1",
        f"{BUCKET}.path.style.access": "true",
        f"{BUCKET}.connection.ssl.enabled": "false",
    }


def test_without_a_key_the_role_of_the_instance_counts_on_both_sides() -> None:
    role = connection(region="eu-west-1")
    fsspec = storage_options("s3://streams/home", role)
    assert {"key", "secret"}.isdisjoint(fsspec)
    assert hadoop_options("s3://streams/home", role, {}) == {
        f"{BUCKET}.endpoint.region": "eu-west-1"
    }


@pytest.mark.parametrize(
    ("home", "given", "told"),
    [
        pytest.param(
            "gs://streams/home",
            connection(password="/keys/streams.json"),
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/keys/streams.json",
            },
            id="gcs, key file",
        ),
        pytest.param(
            "gcs://streams/home",
            connection(),
            {"fs.gs.auth.type": "APPLICATION_DEFAULT"},
            id="gcs, service account of the pod",
        ),
        pytest.param(
            f"abfss://streams@{ACCOUNT}/home",
            connection("lake", "a2V5"),
            {
                f"fs.azure.account.auth.type.{ACCOUNT}": "SharedKey",
                f"fs.azure.account.key.{ACCOUNT}": "a2V5",
            },
            id="azure, account in the URI",
        ),
        pytest.param(
            "az://streams/home",
            connection("lake", "a2V5"),
            {
                f"fs.azure.account.auth.type.{ACCOUNT}": "SharedKey",
                f"fs.azure.account.key.{ACCOUNT}": "a2V5",
            },
            id="azure, account in the connection",
        ),
        pytest.param("abfss://streams@lake/home", connection("lake"), {}, id="azure, no key"),
        pytest.param("hdfs://namenode/home", connection("spark"), {}, id="hdfs"),
    ],
)
def test_other_stores(home: str, given: Connection, told: dict[str, str]) -> None:
    expected = {f"spark.hadoop.{key}": value for key, value in told.items()}
    assert hadoop_options(home, given, {}) == expected


@pytest.mark.parametrize(
    "own",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.bucket.streams.access.key",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
    ],
)
def test_what_the_stream_says_itself_counts(own: str) -> None:
    assert hadoop_options("s3://streams/home", KEY, {own: "x"}) == {}


def test_other_settings_of_the_store_do_not_keep_the_key_away() -> None:
    own = {"spark.hadoop.fs.s3a.connection.maximum": "200"}
    assert f"{BUCKET}.secret.key" in hadoop_options("s3://streams/home", KEY, own)


@pytest.mark.parametrize(
    ("home", "given", "secret"),
    [
        ("s3://streams/home", KEY, {"AKIA", "s3cret"}),
        (f"abfss://streams@{ACCOUNT}/home", connection("lake", "a2V5"), {"a2V5"}),
    ],
)
def test_keys_are_handed_over_as_secrets(home: str, given: Connection, secret: set[str]) -> None:
    shown, kept = split_secrets(hadoop_options(home, given, {}))
    assert set(kept.values()) == secret
    assert not secret & set(shown.values())


def test_a_stream_on_s3_is_reached_with_the_connection_of_its_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", KEY.get_uri())

    assert store_access("s3://streams/home", "lake", {})[f"{BUCKET}.access.key"] == "AKIA"
    assert store_access("s3://streams/home", None, {}) == {}
    assert store_access("/shared/home", "lake", {}) == {}


def test_a_short_job_on_s3_gets_the_key_and_what_the_deployment_says_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow_streaming.hooks.stream import SparkStreamHook

    monkeypatch.setenv("AIRFLOW_CONN_LAKE", KEY.get_uri())
    spec = StreamSpec(
        name="orders",
        application="/o.py",
        home="s3://streams/home",
        runtime="spark-4.3",
        env={"TOPIC": "orders"},
    )
    hook = SparkStreamHook(spec, home_conn_id="lake", by="test")
    endpoint = f"{BUCKET}.endpoint"
    deployment = a_deployment(conf={endpoint: "https://other", "spark.x": "1"})

    program = hook.program(deployment, b"")
    conf = program.conf

    assert program.env == {"TOPIC": "orders"}
    assert (conf[f"{BUCKET}.access.key"], conf[f"{BUCKET}.secret.key"]) == ("AKIA", "s3cret")
    assert (conf[endpoint], conf["spark.x"]) == ("https://other", "1")
