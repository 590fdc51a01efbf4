from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.environment import driver_environment, job_variables, listening
from airflow_streaming.launch.runtime import Runtime

RUNTIME = Runtime(
    name="spark-4.3",
    spark_home=Path("/opt/spark"),
    python=Path("/opt/venv/bin/python"),
    java_home=Path("/opt/jdk"),
    spark_version="4.3.0",
)
OURS = {
    "SPARK_HOME": "/opt/spark",
    "PYSPARK_PYTHON": "/opt/venv/bin/python",
    "PYSPARK_DRIVER_PYTHON": "/opt/venv/bin/python",
    "JAVA_HOME": "/opt/jdk",
}


@pytest.mark.parametrize(
    "name",
    [
        "AIRFLOW_HOME",
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW_CONN_POSTGRES",
        "AIRFLOW_CTX_DAG_ID",
        "_AIRFLOW__STARTUP_MSG",
        "__AIRFLOW_SUPERVISOR_FD",
        "airflow__core__fernet_key",
        "CELERY_BROKER_URL",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHON_VERSION",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "SPARK_HOME",
        "PYSPARK_SUBMIT_ARGS",
        "PYSPARK_GATEWAY_PORT",
        "SPARK_REMOTE",
        "SPARK_ENV_LOADED",
        "JAVA_HOME",
    ],
)
def test_what_belongs_to_airflow_or_to_another_spark_does_not_reach_the_driver(name: str) -> None:
    assert driver_environment({name: "the worker's"}, RUNTIME, {}) == OURS


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "AWS_SECRET_ACCESS_KEY", "HADOOP_CONF_DIR", "KRB5CCNAME", "SPARK_CONF_DIR"],
)
def test_everything_else_of_the_worker_reaches_the_driver(name: str) -> None:
    assert driver_environment({name: "x"}, RUNTIME, {}) == {**OURS, name: "x"}


def test_the_streams_own_variables_win_over_the_workers() -> None:
    environment = driver_environment(
        {"TZ": "CET", "PYTHONPATH": "/airflow"}, RUNTIME, {"TZ": "UTC", "PYTHONPATH": "/mine"}
    )

    assert environment == {**OURS, "TZ": "UTC", "PYTHONPATH": "/mine"}


def test_an_unknown_java_is_left_to_the_worker() -> None:
    environment = driver_environment({"JAVA_HOME": "/j"}, replace(RUNTIME, java_home=None), {})

    assert environment["JAVA_HOME"] == "/j"


@pytest.mark.parametrize(
    "name", ["SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"]
)
def test_a_stream_may_not_choose_another_spark_than_its_runtimes(name: str) -> None:
    with pytest.raises(
        SpecError,
        match=rf"The stream's env may not set {name}; runtime 'spark-4\.3' does\. Choose another "
        r"runtime, or define one under \[streaming\] runtimes\.",
    ):
        driver_environment({}, RUNTIME, {name: "/mine"})


@pytest.mark.parametrize("name", ["", "A=B", "1A", "A-B", "A\0"])
def test_a_name_that_cannot_be_a_variable_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name of an environment variable"):
        driver_environment({}, RUNTIME, {name: "x"})


@pytest.mark.parametrize(
    ("master", "environment", "conf", "is_ours"),
    [
        pytest.param("local[2]", {}, {}, True, id="nothing_said"),
        pytest.param("local", {}, {"spark.ui.port": "4050"}, True, id="a_port_is_no_address"),
        pytest.param("local[2]", {"SPARK_LOCAL_IP": "10.0.0.7"}, {}, False, id="an_address"),
        pytest.param("local[2]", {"SPARK_LOCAL_HOSTNAME": "node"}, {}, False, id="a_host_name"),
        pytest.param("local[2]", {}, {"spark.driver.host": "node"}, False, id="the_drivers_host"),
        pytest.param(
            "local[2]", {}, {"spark.driver.bindAddress": "::"}, False, id="the_drivers_address"
        ),
        pytest.param("yarn", {}, {}, False, id="executors_elsewhere"),
        pytest.param("spark://host:7077", {}, {}, False, id="a_cluster"),
    ],
)
def test_spark_listens_on_loopback_where_the_user_did_not_say(
    master: str, environment: dict[str, str], conf: dict[str, str], is_ours: bool
) -> None:
    found = listening(environment, master, conf)

    assert found == {**environment, **({"SPARK_LOCAL_IP": "127.0.0.1"} if is_ours else {})}


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        *((name, True) for name in ("PATH", "HOME", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")),
        *((name, True) for name in ("SSL_CERT_FILE", "https_proxy", "NO_PROXY", "JAVA_HOME")),
        *((name, True) for name in ("JDK_JAVA_OPTIONS", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")),
        *((name, True) for name in ("KRB5CCNAME", "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_ID")),
        *((name, True) for name in ("GOOGLE_APPLICATION_CREDENTIALS", "SPARK_LOCAL_IP")),
        *((name, False) for name in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW_CONN_DB")),
        *((name, False) for name in ("DB_PASSWORD", "VAULT_TOKEN", "GITHUB_TOKEN", "PGPASSWORD")),
        *(
            (name, False)
            for name in ("MY_PATH", "PATH_X", "LD_PRELOAD", "PYTHONPATH", "NOTAWS_KEY")
        ),
        *((name, False) for name in ("_AIRFLOW_PROCESS_CONTEXT", "CELERY_BROKER_URL", "SHELLOPTS")),
    ],
)
def test_a_job_gets_of_the_worker_what_it_needs_to_run_and_to_read(name: str, passes: bool) -> None:
    assert (name in job_variables({name: "x"})) is passes


@pytest.mark.parametrize(
    ("code", "value", "passes"),
    [
        (b"os.environ.get('MIN_AMOUNT', '0.5')", "2.0", True),
        (b"MIN_AMOUNTS", "2.0", False),
        (b"", "2.0", False),
        (b"os.environ['MIN_AMOUNT']", "postgresql://me:secret@db/x", False),
    ],
)
def test_a_job_gets_the_variables_that_its_code_names(
    code: bytes, value: str, *, passes: bool
) -> None:
    assert ("MIN_AMOUNT" in job_variables({"MIN_AMOUNT": value}, [code])) is passes


@pytest.mark.parametrize("name", ["DB_PASSWORD", "GITHUB_TOKEN", "API_KEY"])
def test_a_job_gets_no_secret_that_its_code_names(name: str) -> None:
    assert job_variables({name: "x"}, [f"os.environ[{name!r}]".encode()]) == {}
