"""A check of an installation: every line of the judgement, and five broken installations."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.advice.installation.airflow_issues import ISSUES
from airflow_streaming.advice.installation.check_line import CheckOutcome, Line
from airflow_streaming.advice.installation.installation_checks import (
    CHECKS,
    Installation,
    SeenAirflow,
    SeenHome,
    SeenHost,
    SeenRows,
    SeenRuntime,
    SeenServer,
    judge,
    worst,
)
from airflow_streaming.advice.installation.installation_probes import ask_server, gather
from airflow_streaming.home.home import Home
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.probe import ensure_exclusive
from tests.fakes import make_spark_home

AIRFLOW = SeenAirflow(
    version="3.3.2",
    executor="LocalExecutor",
    capacity=1000,
    queues_enabled=False,
    base_url="http://airflow.example",
)
HEALTH = dict.fromkeys(("metadatabase", "scheduler", "dag_processor", "triggerer"), "healthy")
WELL = Installation(
    java="Java 17.0.9 (JAVA_HOME /java)",
    runtimes=(SeenRuntime(name="spark-4.3", spark="4.3.0", java=17),),
    homes=(
        SeenHome(
            uri="/data/streams",
            latency_ms=3.0,
            skew_s=0.1,
            streams=4,
            rows=SeenRows(objects=200, rows=4, newest_age_s=12.0),
        ),
    ),
    airflow=AIRFLOW,
    server=SeenServer(health=HEALTH, page=401),
    host=SeenHost(
        disk_free=80_000_000_000,
        memory_free=8_000_000_000,
        open_files=65_536,
        processes=60_000,
        free_ports=16,
    ),
)


def problems(found: Installation) -> dict[str, Line]:
    return {
        line.check: line
        for line in judge(found)
        if line.outcome not in (CheckOutcome.OK, CheckOutcome.NOTE)
    }


def test_nothing_is_wrong_with_a_good_installation() -> None:
    assert problems(WELL) == {}
    assert worst(judge(WELL)) is CheckOutcome.NOTE, "the known issues of this Airflow"


HOME = WELL.homes[0]
CASES: list[tuple[str, dict[str, Any], str, CheckOutcome]] = [
    ("no runtime", {"runtimes": ()}, "runtimes", CheckOutcome.PROBLEM),
    (
        "wrong runtime",
        {"runtimes": (SeenRuntime(name="spark-2", problem="Spark 2.4"),)},
        "runtime spark-2",
        CheckOutcome.PROBLEM,
    ),
    ("no home", {"homes": ()}, "home", CheckOutcome.UNKNOWN),
    (
        "no rights",
        {"homes": (replace(HOME, problem="denied"),)},
        "home /data/streams",
        CheckOutcome.PROBLEM,
    ),
    (
        "no init",
        {"homes": (replace(HOME, is_made=False),)},
        "home /data/streams",
        CheckOutcome.PROBLEM,
    ),
    (
        "careless store",
        {"homes": (replace(HOME, flaw="24 of 24"),)},
        "home /data/streams: exclusive create",
        CheckOutcome.PROBLEM,
    ),
    (
        "slow store",
        {"homes": (replace(HOME, latency_ms=1001.0),)},
        "home /data/streams: latency",
        CheckOutcome.WARNING,
    ),
    (
        "clock behind",
        {"homes": (replace(HOME, skew_s=-31.0),)},
        "home /data/streams: clock",
        CheckOutcome.WARNING,
    ),
    *(
        (
            name,
            {"homes": (replace(HOME, rows=SeenRows(newest_age_s=3.0, **rows)),)},
            "home /data/streams: rows of triggers",
            CheckOutcome.WARNING,
        )
        for name, rows in {
            "broken rows": {"objects": 2, "malformed": 1},
            "rows of a wrong clock": {"objects": 2, "ahead": 1},
            "rows of too many writers": {"objects": 201},
        }.items()
    ),
    ("no airflow", {"airflow": None}, "airflow", CheckOutcome.UNKNOWN),
    (
        "old airflow",
        {"airflow": replace(AIRFLOW, version="3.2.2")},
        "airflow",
        CheckOutcome.PROBLEM,
    ),
    (
        "new airflow",
        {"airflow": replace(AIRFLOW, version="3.9.0")},
        "airflow issues",
        CheckOutcome.WARNING,
    ),
    ("no provider", {"airflow": replace(AIRFLOW, provider="-")}, "provider", CheckOutcome.PROBLEM),
    ("no plugin", {"airflow": replace(AIRFLOW, plugin="-")}, "plugin", CheckOutcome.PROBLEM),
    ("no triggers", {"airflow": replace(AIRFLOW, triggers="-")}, "triggers", CheckOutcome.PROBLEM),
    (
        "celery",
        {"airflow": replace(AIRFLOW, executor="team:CeleryExecutor")},
        "executor",
        CheckOutcome.WARNING,
    ),
    (
        "kubernetes",
        {"airflow": replace(AIRFLOW, executor="a.b.KubernetesExecutor")},
        "executor",
        CheckOutcome.WARNING,
    ),
    (
        "few triggers",
        {"airflow": replace(AIRFLOW, capacity=3)},
        "triggerer capacity",
        CheckOutcome.WARNING,
    ),
    (
        "queues",
        {"airflow": replace(AIRFLOW, queues_enabled=True)},
        "triggerer queues",
        CheckOutcome.WARNING,
    ),
    ("no server", {"server": SeenServer(problem="-")}, "api server", CheckOutcome.UNKNOWN),
    (
        "no triggerer",
        {"server": SeenServer(health={**HEALTH, "triggerer": ""}, page=401)},
        "triggerer",
        CheckOutcome.PROBLEM,
    ),
    ("no page", {"server": SeenServer(health=HEALTH, page=404)}, "page", CheckOutcome.PROBLEM),
    ("full disk", {"host": SeenHost(disk_free=999)}, "disk", CheckOutcome.PROBLEM),
    ("little disk", {"host": SeenHost(disk_free=4_000_000_000)}, "disk", CheckOutcome.WARNING),
    ("few files", {"host": SeenHost(open_files=1024)}, "open files", CheckOutcome.WARNING),
    ("few processes", {"host": SeenHost(processes=100)}, "processes", CheckOutcome.WARNING),
    ("little memory", {"host": SeenHost(memory_free=10)}, "memory", CheckOutcome.WARNING),
    ("no port", {"host": SeenHost(free_ports=0)}, "ports", CheckOutcome.WARNING),
]


@pytest.mark.parametrize(
    ("changes", "check", "outcome"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_one_broken_thing_is_one_line(
    changes: dict[str, Any], check: str, outcome: CheckOutcome
) -> None:
    found = problems(replace(WELL, **changes))

    assert [*found] == [check]
    line = found[check]
    assert line.outcome is outcome
    assert line.seen
    assert line.expected
    assert line.next


def test_a_missing_java_matters_only_without_a_runtime_that_brings_one() -> None:
    absent = replace(WELL, java="", java_problem="none")
    assert problems(absent) == {}
    broken = replace(absent, runtimes=(SeenRuntime(name="spark-4.3", problem="no Java"),))
    assert [*problems(broken)] == ["java", "runtime spark-4.3"]


def test_every_known_issue_of_the_version_is_a_note() -> None:
    notes = [line.check for line in judge(WELL) if line.outcome is CheckOutcome.NOTE]
    assert notes == [f"airflow issue {issue.name}" for issue in ISSUES]


def test_facts_that_are_missing_are_unknown_and_never_well() -> None:
    lines = judge(Installation())
    assert {line.check for line in lines if line.outcome is CheckOutcome.UNKNOWN} == {
        "home",
        "airflow",
    }
    assert len(CHECKS) == len({rule.__name__ for rule in CHECKS})


# Five broken installations, through the probes.


def told(**airflow: Any) -> dict[str, Any]:
    facts = {name: getattr(AIRFLOW, name) for name in AIRFLOW.__dataclass_fields__}
    facts["trigger_queues"] = AIRFLOW.trigger_queues.to_dict()
    return {"airflow": {**facts, **airflow}, "runtimes": {}, "homes": [], "driver_folder": "/"}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Any]:
    """A host with a Java, a Spark and a home."""
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('JAVA_VERSION="17.0.9"\n')
    spark = make_spark_home(tmp_path / "spark")
    home = tmp_path / "home"
    home.mkdir()
    ensure_exclusive(LocalStore(str(home)), creators=2, rounds=1)
    return {"java": java, "spark": spark, "home": home}


def look(
    places: dict[str, Any],
    *,
    java: bool = True,
    runtime: str | None = None,
    store: Any = LocalStore,
    health: dict[str, str] = HEALTH,
    plugin: str = "",
) -> dict[str, Line]:
    environment = {"PATH": "/usr/nowhere"}
    if java:
        environment["JAVA_HOME"] = str(places["java"])
    facts = told(plugin=plugin)
    spark = runtime or str(places["spark"])
    facts["runtimes"] = {"spark-4.3": {"path": spark, "python": sys.executable}}
    body = ", ".join(f'"{name}": {{"status": "{state}"}}' for name, state in health.items())

    def get(url: str) -> tuple[int, bytes]:
        return (200, f"{{{body}}}".encode()) if url.endswith("health") else (401, b"")

    found = gather(
        [str(places["home"])],
        environment,
        open_=lambda uri: Home(store(uri)),
        ask=lambda: (facts, ""),
        get=get,
    )
    of_host = ("disk", "memory", "open files", "processes", "ports")
    return {name: line for name, line in problems(found).items() if name not in of_host}


class Careless(LocalStore):
    """A store that confirms every create."""

    def create(self, path: str, data: bytes) -> None:
        self.replace(path, data)


def test_the_queues_of_the_setting_are_looked_at_in_each_home(tmp_path: Path) -> None:
    queues = {"names": ["a", "b"], "label": ""}
    found = gather(
        [str(tmp_path)],
        open_=lambda uri: Home(LocalStore(uri)),
        ask=lambda: (told(trigger_queues=queues), ""),
        get=lambda _: (200, b"{}"),
    )

    assert [one.name for one in found.homes[0].queues] == ["a", "b"]
    assert found.airflow is not None
    assert found.airflow.trigger_queues.names == ("a", "b")


def test_the_host_of_these_tests_is_in_order(places: dict[str, Any]) -> None:
    assert look(places) == {}
    assert [path.name for path in (places["home"] / "_store").iterdir()] == ["000001.json"]


def test_no_java(places: dict[str, Any]) -> None:
    found = look(places, java=False)
    assert [*found] == ["java", "runtime spark-4.3"]
    assert "openjdk-17" in found["java"].next


def test_a_wrong_runtime(places: dict[str, Any], tmp_path: Path) -> None:
    wrong = make_spark_home(tmp_path / "old", version="2.4.8")
    found = look(places, runtime=str(wrong))
    assert [*found] == ["runtime spark-4.3"]
    assert "2.4.8" in found["runtime spark-4.3"].seen


def test_a_home_without_exclusive_create(places: dict[str, Any]) -> None:
    found = look(places, store=Careless)
    name = f"home {places['home']}: exclusive create"
    assert [*found] == [name]
    assert "24 of 24" in found[name].seen


def test_a_triggerer_that_is_off(places: dict[str, Any]) -> None:
    found = look(places, health={**HEALTH, "triggerer": "unhealthy"})
    assert [*found] == ["triggerer"]
    assert found["triggerer"].seen == "unhealthy"


def test_a_missing_plugin(places: dict[str, Any]) -> None:
    found = look(places, plugin="not among 3 plugins")
    assert [*found] == ["plugin"]


def test_an_api_server_that_does_not_answer_is_unknown() -> None:
    def get(url: str) -> tuple[int, bytes]:
        raise ConnectionRefusedError(111, "Connection refused")

    assert "refused" in ask_server("http://127.0.0.1:1/airflow/", get).problem


def test_another_server_at_the_address_is_no_airflow() -> None:
    found = ask_server("http://127.0.0.1:1/prefix", lambda url: (404, b""))
    assert found.problem == "http://127.0.0.1:1/prefix/api/v2/monitor/health answers HTTP 404"
    assert found.page == 0
