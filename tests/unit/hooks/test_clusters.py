"""A Spark connection's master and deploy mode choose the launcher; secrets go one way only."""

from __future__ import annotations

import base64
import json
import logging
import stat
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.clusters import Target, credentials_in, target_of
from airflow_streaming.launch.clusters.yarn import YarnLauncher
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.spark.conf import LOG_BYTES, PRIVATE_CONF
from tests.unit.launch.recorded_master import RecordedMaster
from tests.unit.launch.recorded_yarn import Cluster, ResourceManager
from tests.unit.world import World

CLUSTER, CLIENT = {"deploy-mode": "cluster"}, {"deploy-mode": "client"}
DEFAULTS = dict(YarnLauncher.__init__.__kwdefaults__ or {})
RM = "yarn_resourcemanager_webapp_address"


def connection(host: str, port: int | None = None, **extra: Any) -> Connection:
    return Connection(conn_id="c", conn_type="spark", host=host, port=port, extra=json.dumps(extra))


@pytest.mark.parametrize(
    ("asked", "made", "launcher", "cluster"),
    [
        ("", None, "local", ""),
        ("", connection("local[2]"), "local", ""),
        ("", connection("spark://m1", 7077), "local", ""),
        ("", connection("k8s://https://api:6443"), "local", ""),
        ("", connection("yarn", **{"deploy-mode": "client"}), "local", ""),
        ("", connection("spark://m1", 7077, **CLUSTER), "standalone", "spark://m1:6066"),
        (
            "",
            connection("spark://m1:7077,m2", 7077, **CLUSTER, **{"rest-port": 16066}),
            "standalone",
            "spark://m1:16066,m2:16066",
        ),
        (
            "",
            connection("spark://m1", 7077, **CLUSTER, **{"webui-port": "8090"}),
            "standalone",
            "spark://m1:6066?ui=8090",
        ),
        (
            "",
            connection("spark://m1", 7077, **CLUSTER, **{"webui-port": 8080}),
            "standalone",
            "spark://m1:6066",
        ),
        ("standalone", connection("spark://m1:7077"), "standalone", "spark://m1:6066"),
        (
            "",
            connection("k8s://https://api", 6443, **CLUSTER, namespace="streams"),
            "kubernetes",
            "k8s://https://api:6443/streams",
        ),
        (
            "",
            connection("k8s://api:6443", **CLUSTER, **{"kubernetes-conn-id": "prod"}),
            "kubernetes",
            "k8s://https://api:6443/default?connection=prod",
        ),
        (
            "",
            connection("yarn", **CLUSTER, **{RM: "rm1:8088, http://rm2:8088/"}),
            "yarn",
            "yarn://http://rm1:8088,http://rm2:8088",
        ),
        ("yarn", connection("yarn", **{RM: "rm1:8088"}), "yarn", "yarn://http://rm1:8088"),
        (
            "",
            connection("k8s://api:6443", **CLUSTER, **{"spark-operator": "apache"}),
            "apache-operator",
            "k8s://https://api:6443/default",
        ),
        (
            "kubeflow-operator",
            connection("k8s://api:6443", namespace="streams"),
            "kubeflow-operator",
            "k8s://https://api:6443/streams",
        ),
        ("local", connection("spark://m1:7077", **CLUSTER), "local", ""),
        ("theirs", connection("spark://m1:7077", **CLUSTER), "theirs", ""),
    ],
)
def test_master_and_deploy_mode_choose_the_launcher(
    asked: str, made: Connection | None, launcher: str, cluster: str
) -> None:
    target = target_of("c", made, asked)

    assert (target.launcher, target.cluster) == (launcher, cluster)


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ("", connection("yarn", **CLUSTER)),
        ("", connection("yarn", **CLUSTER, **{RM: "http://user:pw@rm1:8088"})),
        ("", connection("yarn", **CLUSTER, **{RM: 8088})),
        ("yarn", connection("spark://m1:7077", **{RM: "rm1:8088"})),
        ("", connection("local[2]", **CLUSTER)),
        ("standalone", connection("k8s://https://api:6443")),
        ("kubernetes", connection("spark://m1:7077")),
        ("kubernetes", None),
        ("apache-operator", connection("spark://m1:7077")),
        ("", connection("k8s://api:6443", **CLUSTER, **{"spark-operator": "mine"})),
        ("", connection("k8s://api:6443", **{"spark-operator": "apache"})),
        ("", connection("k8s://api:6443", **CLIENT, **{"spark-operator": "apache"})),
        ("", connection("k8s://api:6443", **CLIENT, **{"spark-operator": "helm"})),
        ("apache-operator", connection("k8s://api:6443", **CLIENT)),
        ("kubernetes", connection("k8s://api:6443", **CLIENT)),
        ("standalone", connection("spark://m1:7077", **CLIENT)),
        ("yarn", connection("yarn", **CLIENT, **{RM: "rm1:8088"})),
        ("", connection("spark://m1", 7077, **CLUSTER, **{"rest-port": "x"})),
        ("", connection("spark://m1", 7077, **CLUSTER, **{"webui-port": "8080/json"})),
        ("", connection("k8s://https://api", 6443, **CLUSTER, namespace="Not A Namespace")),
        ("", connection("k8s://https://user:pw@api:6443", **CLUSTER)),
        ("", connection("k8s://api:6443", **{"deploy-mode": "CLUSTER"})),
        ("", connection("k8s://api:6443", **{"deploy-mode": 7})),
    ],
)
def test_what_cannot_be_run_is_refused(asked: str, made: Connection | None) -> None:
    with pytest.raises(SpecError):
        target_of("c", made, asked)


@pytest.mark.parametrize("mode", ["CLUSTER", "Client", " cluster", "clustr"])
def test_a_deploy_mode_that_there_is_not_is_named_with_those_there_are(mode: str) -> None:
    with pytest.raises(SpecError) as refusal:
        target_of("c", connection("k8s://api:6443", **{"deploy-mode": mode}))

    assert str(refusal.value) == (
        f"Spark connection 'c' has the deploy-mode {mode!r}. Write it as client or cluster, in small "
        "letters."
    )


@pytest.mark.parametrize("mode", [None, "", "client"])
def test_without_a_deploy_mode_the_driver_runs_on_the_workers_host(mode: str | None) -> None:
    made = connection("k8s://api:6443", **{"deploy-mode": mode})

    assert target_of("c", made).launcher == "local"


def test_credentials_are_taken_from_the_kubernetes_client(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    renewed = []
    configuration = SimpleNamespace(
        host="https://api:6443/",
        api_key={"authorization": "Bearer t-1"},
        ssl_ca_cert=str(authority),
        cert_file=None,
        key_file=None,
        verify_ssl=True,
        refresh_api_key_hook=renewed.append,
    )

    found = credentials_in(configuration)

    assert (found.server, found.token, found.authority) == ("https://api:6443", "t-1", "PEM")
    assert renewed == [configuration]
    assert "t-1" not in repr(found)


def test_a_stream_is_submitted_to_a_cluster_and_its_secrets_go_one_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = RecordedMaster()
    host, _, port = master.address.partition(":")
    extra = {**CLUSTER, "rest-port": int(port)}
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        json.dumps({"conn_type": "spark", "host": f"spark://{host}", "port": 7077, "extra": extra}),
    )
    conf = {"spark.hadoop.fs.s3a.secret.key": "planted-1", "spark.executor.memory": "1g"}

    world.run(world.operator(conf=conf, env={"API": "planted-2"}))
    master.close()

    epoch, launch = world.epoch(), world.home.launch(1)
    assert launch is not None
    assert (epoch.launcher, epoch.host.name) == ("standalone", f"spark://{master.address}")
    assert launch.handle["submission"] in master.drivers
    (body,) = master.submitted
    environment = body.pop("environmentVariables")
    assert json.loads(environment[PRIVATE_CONF])["spark.hadoop.fs.s3a.secret.key"] == "planted-1"
    assert environment["API"] == "planted-2"
    assert environment[LOG_BYTES] == "100000000"
    assert body["sparkProperties"]["spark.executor.memory"] == "1g"
    assert "planted" not in json.dumps(body)
    written = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path for path in written if b"planted" in path.read_bytes()] == []
    options = body["appArgs"]
    assert options[options.index("--master") + 1] == f"spark://{host}:7077"
    main = next(argument for argument in options if argument.endswith("main.py"))
    assert Path(main.removeprefix("file://")).is_file(), (
        "the cluster's hosts fetch it from the home"
    )
    assert stat.S_ISREG(Path(main.removeprefix("file://")).stat().st_mode)


def test_a_stream_is_submitted_to_yarn_as_its_connection_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    manager = ResourceManager(cluster)
    keytab = base64.b64encode(b"a keytab").decode()
    extra = {**CLUSTER, RM: manager.url, "queue": "streams"}
    extra |= {"principal": "airflow@EXAMPLE.ORG", "keytab": keytab}
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}),
    )
    seen: dict[str, Any] = {}

    def run(request: LaunchRequest, command: tuple[str, ...], more: Mapping[str, str]) -> int:
        seen["command"], seen["environment"] = command, request.environment
        seen["keytab"] = Path(command[command.index("--keytab") + 1]).read_bytes()
        return cluster.run(request, command, more)

    monkeypatch.setattr(YarnLauncher.__init__, "__kwdefaults__", {**DEFAULTS, "run": run})
    conf = {"spark.hadoop.my.password": "planted-1", "spark.executor.memory": "1g"}

    world.run(world.operator(conf=conf, env={"API": "planted-2"}))

    epoch, launch = world.epoch(), world.home.launch(1)
    assert launch is not None
    assert (epoch.launcher, epoch.host.name) == ("yarn", f"yarn://{manager.url}")
    assert launch.handle["application"] in cluster.applications
    command = seen["command"]
    options = dict(pairwise(command))
    assert (options["--master"], options["--deploy-mode"]) == ("yarn", "cluster")
    assert (options["--queue"], options["--principal"]) == ("streams", "airflow@EXAMPLE.ORG")
    assert seen["keytab"] == b"a keytab"
    assert "PYSPARK_PYTHON" not in seen["environment"]
    assert command[-2:] == ("--token", epoch.mark)
    assert "planted" not in " ".join(command)
    (submitted,) = cluster.submitted
    assert submitted["spark.hadoop.my.password"] == "planted-1"
    assert submitted["spark.executor.memory"] == "1g"
    assert submitted[f"spark.yarn.appMasterEnv.{LOG_BYTES}"] == "100000000"
    written = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path for path in written if b"planted" in path.read_bytes()] == []
    assert [path for path in written if path.suffix in (".keytab", ".conf")] == []
    manager.close()
    cluster.node.close()


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"spark.kubernetes.container.image": "a", "spark.kubernetes.driverEnv.PASSWORD": "planted"},
        {"spark.kubernetes.container.image": "a", "spark.kubernetes.namespace": "other"},
    ],
    ids=["no_image", "a_secret_too_early", "another_namespace"],
)
@pytest.mark.parametrize("operator", [{}, {"spark-operator": "apache"}])
def test_what_a_pod_cannot_be_launched_with_is_refused_before_anything_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], operator: dict[str, str]
) -> None:
    spark = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({**spark, "extra": {**CLUSTER, **operator}})
    )

    with pytest.raises(AirflowFailException) as refusal:
        world.run(world.operator(conf=conf))

    assert "planted" not in str(refusal.value)
    assert (world.home.newest_deployment(), world.home.newest_epoch()) == (None, None)


@pytest.mark.parametrize(
    ("listed", "launches"),
    [
        pytest.param("", True, id="no list"),
        pytest.param("yarn://http://rm:8088 spark://{master}", True, id="listed"),
        pytest.param("yarn://http://rm:8088", False, id="not listed"),
    ],
)
def test_no_driver_is_started_on_a_cluster_that_triggers_do_not_ask(
    world: World, monkeypatch: pytest.MonkeyPatch, listed: str, launches: bool
) -> None:
    master = RecordedMaster()
    host, _, port = master.address.partition(":")
    extra = {**CLUSTER, "rest-port": int(port)}
    spark = {"conn_type": "spark", "host": f"spark://{host}", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setenv("AIRFLOW__STREAMING__CLUSTERS", listed.format(master=master.address))

    if launches:
        world.run()
    else:
        with pytest.raises(AirflowFailException) as refusal:
            world.run()
        assert f"'spark://{master.address}' is not in [streaming] clusters" in str(refusal.value)
        assert "yarn://http://rm:8088" in str(refusal.value)
        assert (world.home.newest_deployment(), world.home.newest_epoch()) == (None, None)
    master.close()
    assert len(master.submitted) == launches


def test_a_list_of_clusters_does_not_concern_drivers_of_this_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__STREAMING__CLUSTERS", "yarn://http://rm:8088")
    world.run()
    assert world.launcher.living() == [1]


@pytest.mark.parametrize(
    ("named", "in_command", "in_file"),
    [("s3a://b/z.py", True, False), ("https://h/z.py?sig=planted", False, True)],
)
def test_python_files_of_the_conf_are_added_to_the_streams_own(
    world: World, named: str, in_command: bool, in_file: bool
) -> None:
    conf = {"spark.submit.pyFiles": named, "spark.jars": "s3a://b/z.jar"}

    world.run(world.operator(conf=conf, py_files=["s3a://b/u.py"], jars=["s3a://b/a.jar"]))

    (request,) = world.launcher.launched
    options = dict(pairwise(request.command))
    assert options["--jars"] == "s3a://b/a.jar,s3a://b/z.jar"
    assert options.get("--py-files", "").endswith(f".zip,s3a://b/u.py,{named}") == in_command
    assert ("--py-files" in options) == in_command
    text = request.private_files[0].read_text()
    lines = [line for line in text.splitlines() if line.startswith("spark.submit.pyFiles=")]
    assert [line.count("u.py,https") for line in lines] == ([1] if in_file else [])
    assert "planted" not in " ".join(request.command)


def test_who_runs_the_driver_of_a_cluster_in_client_mode_is_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "spark://m1:7077"})
    )
    caplog.set_level(logging.INFO)

    world.run(world.operator())

    assert [one for one in caplog.records if one.args and "spark://m1:7077" in one.args] != []


def test_a_target_of_this_host_has_no_cluster() -> None:
    assert not Target(launcher="local").cluster
