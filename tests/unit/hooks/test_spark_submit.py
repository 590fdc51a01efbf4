"""Spark connections as Airflow has them, and the command each one makes."""

from __future__ import annotations

import base64
import json
import logging
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.spark_submit import StreamSubmitHook, build_submit_command
from airflow_streaming.launch.runtime import Runtime

CANARY = "canary-5b1f"
RUNTIME = Runtime(
    name="spark-4.3",
    spark_home=Path("/opt/spark"),
    python=Path("/opt/venv/bin/python"),
    java_home=None,
    spark_version="4.3.0",
)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Define the connection ``my_spark``."""

    def define(host: str | None = "local[2]", extra: Any = None, **fields: Any) -> None:
        connection = {"conn_type": "spark", "host": host, "extra": extra or {}, **fields}
        monkeypatch.setenv("AIRFLOW_CONN_MY_SPARK", json.dumps(connection))

    return define


def build(folder: Path, **changes: Any) -> tuple[str, ...]:
    given: dict[str, Any] = {
        "conn_id": "my_spark",
        "runtime": RUNTIME,
        "stream": "orders",
        "properties_file": folder / "orders.properties",
        "main": Path("/cache/main.py"),
        "lists": {},
        "arguments": ["--token", "t0", "script.py", "--output", "/out"],
    }
    return build_submit_command(**{**given, **changes})


def options(command: tuple[str, ...]) -> dict[str, str]:
    """Return the options before the script; every one has a value."""
    before = command[1 : command.index("/cache/main.py")]
    assert len(before) % 2 == 0
    return dict(zip(before[::2], before[1::2], strict=True))


def test_the_command_is_the_runtimes_spark_submit_with_our_script(
    connect: Any, tmp_path: Path
) -> None:
    connect()

    command = build(tmp_path)

    assert command == (
        "/opt/spark/bin/spark-submit",
        "--master",
        "local[2]",
        "--properties-file",
        f"{tmp_path}/orders.properties",
        "--name",
        "orders",
        "--deploy-mode",
        "client",
        "/cache/main.py",
        "--token",
        "t0",
        "script.py",
        "--output",
        "/out",
    )


def test_lists_are_joined_as_spark_wants_them(connect: Any, tmp_path: Path) -> None:
    connect()

    found = options(
        build(
            tmp_path,
            lists={
                "py_files": ["/cache/driver.zip", "s3a://bucket/lib.py"],
                "jars": ["a.jar"],
                "packages": ["org.x:y_2.13:4.3.0"],
                "files": ["f.conf", "g.conf"],
            },
        )
    )

    assert found["--py-files"] == "/cache/driver.zip,s3a://bucket/lib.py"
    assert found["--jars"] == "a.jar"
    assert found["--packages"] == "org.x:y_2.13:4.3.0"
    assert found["--files"] == "f.conf,g.conf"


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        pytest.param({"host": "local"}, "local", id="local"),
        pytest.param({"host": "local[*]"}, "local[*]", id="local_all_cores"),
        pytest.param({"host": "local[2,4]"}, "local[2,4]", id="local_with_retries"),
        pytest.param({"host": "yarn"}, "yarn", id="yarn"),
        pytest.param({"host": "spark://m", "port": 7077}, "spark://m:7077", id="standalone"),
        pytest.param({"host": "m", "port": 7077}, "spark://m:7077", id="standalone_from_a_uri"),
        pytest.param({"host": "spark://a:1,b:2"}, "spark://a:1,b:2", id="standalone_two_masters"),
        pytest.param({"host": "local-cluster[2,1,1024]"}, "local-cluster[2,1,1024]", id="cluster"),
    ],
)
def test_the_master_is_the_connections(
    connect: Any, tmp_path: Path, fields: dict[str, Any], master: str
) -> None:
    connect(**fields)

    assert options(build(tmp_path))["--master"] == master


def test_the_connections_queue_and_kerberos_names_are_used(connect: Any, tmp_path: Path) -> None:
    keytab = base64.encodebytes(b"\x05\x02" + CANARY.encode() * 20).decode()
    connect("yarn", {"queue": "streams", "principal": "etl@EXAMPLE.ORG", "keytab": keytab})

    found = options(build(tmp_path))

    assert (found["--queue"], found["--principal"]) == ("streams", "etl@EXAMPLE.ORG")
    written = Path(found["--keytab"])
    assert written == tmp_path / "orders.keytab"
    assert written.read_bytes() == b"\x05\x02" + CANARY.encode() * 20
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_the_connections_binary_is_not_used(connect: Any, tmp_path: Path) -> None:
    connect(extra={"spark-binary": "spark3-submit", "deploy-mode": "client"})

    assert build(tmp_path)[0] == "/opt/spark/bin/spark-submit"


def test_no_secret_is_in_the_command_or_in_the_log(
    connect: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keytab = base64.b64encode(CANARY.encode()).decode()
    connect(
        "yarn",
        {"keytab": keytab, "principal": "p", "password": CANARY, "spark.x.password": CANARY},
        login=CANARY,
        password=CANARY,
    )

    with caplog.at_level(logging.DEBUG):
        command = build(tmp_path, arguments=["--token", "t0", "--argument", "of-the-script"])

    for told in (*command, caplog.text):
        assert CANARY not in told
        assert keytab not in told
    assert "of-the-script" not in caplog.text


def test_a_missing_connection_is_no_yarn(tmp_path: Path) -> None:
    sentence = re.escape(
        "Spark connection 'spark_default' does not exist. Create it with: airflow connections add "
        "spark_default --conn-type spark --conn-host 'local[*]' (or yarn, spark://HOST:PORT, "
        "k8s://URL), or name another one as conn_id."
    )
    with pytest.raises(SpecError, match=sentence):
        build(tmp_path, conn_id="spark_default")


def test_the_connection_is_asked_for_once(
    connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second question that fails would silently mean yarn."""
    connect("local[2]")
    asked: list[str] = []
    real = StreamSubmitHook.get_connection

    def count(conn_id: str) -> Any:
        asked.append(conn_id)
        return real(conn_id)

    monkeypatch.setattr(StreamSubmitHook, "get_connection", staticmethod(count))
    build(tmp_path)

    assert asked == ["my_spark"]


@pytest.mark.parametrize(
    ("host", "extra", "sentence"),
    [
        pytest.param(
            "yarn",
            {"deploy-mode": "cluster"},
            "Spark connection 'my_spark' asks for deploy mode 'cluster', and the launcher is 'local', "
            "which runs the driver on the worker's host. Set deploy-mode to client, or leave the "
            "stream's launcher out.",
            id="cluster_mode",
        ),
        pytest.param(
            "yarn",
            {"deploy-mode": "CLUSTER"},
            "Spark connection 'my_spark' has the deploy-mode 'CLUSTER'. Write it as client or cluster",
            id="no_mode",
        ),
        pytest.param(
            "http://spark.example.org",
            {},
            "Spark connection 'my_spark' gives the master 'http://spark.example.org'. Use "
            "local[N], yarn, spark://HOST:PORT or k8s://URL as its host.",
            id="no_master",
        ),
        pytest.param("local[2] --conf a=b", {}, "gives the master 'local[2] --conf", id="options"),
        pytest.param("", {}, "gives the master 'spark://'", id="empty_host"),
        pytest.param(
            "yarn", {"queue": 7}, "has an extra 'queue' that is not a string.", id="number"
        ),
        pytest.param("yarn", {"queue": "a\nb"}, "has an extra 'queue' that is no", id="two_lines"),
        pytest.param(
            "yarn",
            {"keytab": CANARY + "!"},
            "Spark connection 'my_spark' has a keytab that is not base64. Put the output of "
            "'base64 FILE' there.",
            id="keytab_not_base64",
        ),
        pytest.param("yarn", {"keytab": 7}, "a keytab that is not base64", id="keytab_no_text"),
        pytest.param(
            "yarn",
            {"spark-home": "/opt/spark"},
            "Spark connection 'my_spark' cannot be used: The `spark-home` extra is not allowed",
            id="spark_home",
        ),
        pytest.param("yarn", {"rest-port": "x"}, "'my_spark' cannot be used: inv", id="rest_port"),
    ],
)
def test_a_connection_that_cannot_be_used_is_told(
    connect: Any, tmp_path: Path, host: str, extra: dict[str, Any], sentence: str
) -> None:
    connect(host, extra)

    with pytest.raises(SpecError, match=re.escape(sentence)) as told:
        build(tmp_path)
    assert CANARY not in str(told.value)


def test_a_kubernetes_master_needs_airflows_kubernetes_provider(
    connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(provider, "kube_client", raising=False)
    connect("k8s://https://cluster:6443", {"namespace": "streams"})

    with pytest.raises(SpecError, match="Install apache-airflow-providers-cncf-kubernetes"):
        build(tmp_path)


def test_a_kubernetes_master_and_namespace_are_the_connections(
    connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "kube_client", object(), raising=False)
    connect("k8s://https://cluster:6443", {"namespace": "streams"})

    found = options(build(tmp_path))

    assert found["--master"] == "k8s://https://cluster:6443"
    assert found["--conf"] == "spark.kubernetes.namespace=streams"


@pytest.mark.parametrize("what", ["py_files", "jars", "packages", "files"])
@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        pytest.param("a,b", "Spark separates entries with commas", id="comma"),
        pytest.param("", "Give every one as an item of its own", id="empty"),
        pytest.param("a\nb", "without commas or control characters", id="two_lines"),
        pytest.param(
            f"https://me:{CANARY}@repo/x.jar", "carries a password, which every user", id="password"
        ),
    ],
)
def test_a_list_entry_that_spark_would_misread_is_told(
    connect: Any, tmp_path: Path, what: str, entry: str, sentence: str
) -> None:
    connect()

    with pytest.raises(SpecError, match=sentence) as told:
        build(tmp_path, lists={what: [entry]})
    assert what in str(told.value)
    assert CANARY not in str(told.value)


def test_what_the_parent_hook_must_keep_is_there() -> None:
    """Private names of the Spark provider that this hook builds on."""
    for name in (
        "_resolve_connection",
        "_build_spark_common_args",
        "_get_spark_binary_path",
        "_create_keytab_path_from_base64_keytab",
    ):
        assert callable(getattr(StreamSubmitHook.__mro__[1], name))
