"""The Compose file, as far as it can be checked without Docker; the check finds what it is for."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY

CHECK = runpy.run_path(str(REPOSITORY / "scripts/check_compose.py"))
TEXT = (REPOSITORY / "docker-compose.yaml").read_text()


def found(told: dict[str, Any]) -> list[str]:
    problems: list[str] = CHECK["problems"](yaml.safe_dump(told))
    return problems


@pytest.fixture
def told() -> dict[str, Any]:
    # Anchors are resolved, so that an edit of one service is no edit of another.
    loaded: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(TEXT)))
    return loaded


def test_nothing_is_wrong_with_it() -> None:
    assert CHECK["problems"](TEXT) == []


def test_prometheus_scrapes_its_services(told: dict[str, Any]) -> None:
    config = (REPOSITORY / "monitoring/compose/prometheus.yaml").read_text()
    assert set(CHECK["scraped"](config)) <= set(told["services"])


def test_streams_run_in_cluster_mode_with_one_set_of_credentials(told: dict[str, Any]) -> None:
    environment = told["services"]["scheduler"]["environment"]
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_CLUSTER"])
    home = json.loads(environment["AIRFLOW_CONN_STREAMS_HOME"])
    file = REPOSITORY / "monitoring/compose/object-store.json"
    keys = json.loads(file.read_text())["identities"][0]["credentials"][0]
    assert spark["extra"]["deploy-mode"] == "cluster"
    assert (home["login"], home["password"]) == (keys["accessKey"], keys["secretKey"])


@pytest.mark.parametrize(
    ("service", "edit"),
    [
        pytest.param("grafana", {"image": "grafana/grafana:latest"}, id="no version"),
        pytest.param("grafana", {"image": "grafana/grafana:12.1.1"}, id="no digest"),
        pytest.param("grafana", {"image": "grafana/grafana@sha256:" + "a" * 64}, id="no tag"),
        pytest.param("grafana", {"image": "grafana/grafana:12.1.1@sha256:ab"}, id="half a digest"),
        pytest.param(
            "scheduler", {"build": {"dockerfile_inline": "FROM python:3.12\n"}}, id="built on a tag"
        ),
        pytest.param("grafana", {"image": None}, id="nothing to run"),
        pytest.param("grafana", {"labels": {}}, id="used by no example"),
        pytest.param(
            "grafana", {"labels": {"used-by": "dags/gone.py"}}, id="an example that is gone"
        ),
        pytest.param("grafana", {"ports": ["3000:3000"]}, id="a port for all"),
        pytest.param("grafana", {"ports": ["127.0.0.1:9090:3000"]}, id="a port twice"),
        pytest.param("grafana", {"depends_on": ["loki"]}, id="waits for no service"),
        pytest.param(
            "grafana",
            {"depends_on": {"prometheus": {"condition": "service_healthy"}}},
            id="waits for a health that is not checked",
        ),
        pytest.param("grafana", {"volumes": ["./monitoring/gone:/x"]}, id="mounts what is gone"),
        pytest.param("grafana", {"volumes": ["more:/x"]}, id="a volume that is not declared"),
        pytest.param(
            "broker", {"environment": {"A": "PLAINTEXT://kafka:9092"}}, id="a host that is none"
        ),
        pytest.param("broker", {"environment": {"AIRFLOW_CONN_A": "{"}}, id="no JSON"),
        pytest.param("broker", {"privileged": True}, id="a key that is not checked"),
        pytest.param(
            "broker",
            {"image": "minio/minio:1@sha256:" + "a" * 64},
            id="an image that left its registry",
        ),
        pytest.param(
            "scheduler", {"build": {"context": "."}}, id="an image that two services build"
        ),
        pytest.param(
            "orders", {"command": ["--folder", "/elsewhere"]}, id="an input that nobody writes"
        ),
        pytest.param("topics", {"command": ["true"]}, id="topics that nobody fills"),
        pytest.param("spark-master", {"environment": {}}, id="a Spark that finds another pyspark"),
        pytest.param(
            "spark-master", {"healthcheck": None}, id="a service that never says it is ready"
        ),
        pytest.param(
            "image",
            {
                "build": {
                    "dockerfile_inline": "FROM a:1@sha256:" + "a" * 64 + "\nRUN pip install b\n"
                }
            },
            id="an install without a version",
        ),
        pytest.param(
            "image",
            {
                "build": {
                    "dockerfile_inline": "FROM a:1@sha256:"
                    + "a" * 64
                    + "\nRUN /x/bin/spark-submit y\n"
                }
            },
            id="a step with a Spark that finds another pyspark",
        ),
    ],
)
def test_a_mistake_is_found(told: dict[str, Any], service: str, edit: dict[str, Any]) -> None:
    edited = told["services"][service] | edit
    told["services"][service] = {key: value for key, value in edited.items() if value is not None}
    assert len(found(told)) >= 1


def test_a_build_sends_the_files_that_dockerignore_leaves(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"123")
    (tmp_path / "large").write_bytes(b"12345")
    assert CHECK["context_size"](tmp_path) == 8

    (tmp_path / ".dockerignore").write_text("# a comment\n*\n!kept\n")
    assert CHECK["context_size"](tmp_path) == 3


@pytest.mark.parametrize("text", ["", "services: {}", "a: [", "[1]"])
def test_what_is_no_compose_file_is_a_problem(text: str) -> None:
    assert CHECK["problems"](text)
