"""The command ``campaign``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.cli.spark import fleet_gate
from airflow_streaming.exceptions import LaunchError
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.campaign import BadSoak
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.spark_jobs.runner import Program
from tests.fakes import make_spark_home
from tests.unit.cli.host import Run
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

NAMES = ("clicks", "orders", "refunds", "views")
WEB = ("--select", "team=web", "--conf", "spark.sql.shuffle.partitions=8")


@pytest.fixture(autouse=True)
def streams(home: Home) -> dict[str, StreamHome]:
    made = {}
    for name in NAMES:
        stream = made[name] = home.stream(name)
        stream.create_deployment(make_deployment(stream=name), SCRIPT)
        stream.create_epoch(make_epoch(1, stream=name))
        team = "web" if name != "orders" else "shop"
        labels = {"team": team}
        stream.supervise(Supervision(number=0, by="dag", at=datetime.now(UTC), labels=labels))
    return made


def test_a_plan_shows_the_worst_stream_first_and_changes_nothing(
    run: Run, home: Home, streams: dict[str, StreamHome]
) -> None:
    streams["refunds"].want(DesiredState.STOPPED, by="kim", reason="month end", now=NOON)

    code, out, _ = run("campaign", "plan", *WEB)

    assert code == 1
    assert "3 streams" in out
    assert "1 not allowed, 2 unknown" in out
    rows = [line for line in out.splitlines() if "refunds" in line or "clicks" in line]
    assert "month end" in rows[0]
    assert not Campaigns(home.store).numbers()

    code, out, _ = run("campaign", "plan", *WEB, "--json")
    told = json.loads(out)
    assert [row["stream"] for row in told["streams"]] == ["refunds", "clicks", "views"]
    assert told["streams"][0]["decision"] == "not_allowed"


def test_a_campaign_is_begun_shown_and_commanded(run: Run, home: Home) -> None:
    more = ("--waves", "1,rest", "--canary", "views", "--at-once", "2", "--bad-soak", "wave")
    code, out, _ = run("campaign", "start", *WEB, *more, "--blackout", "06:00-08:00@Europe/Berlin")

    assert code == 0
    assert "DAG of the fleet" in out
    campaign = Campaigns(home.store).campaign(1)
    assert campaign.waves == (("views",), ("clicks", "refunds"))
    assert campaign.terms.bad_soak is BadSoak.WAVE
    assert campaign.terms.blackouts[0].timezone == "Europe/Berlin"

    assert run("campaign", "pause", "1", "--reason", "lunch")[0] == 0
    assert "1: paused, wave 0 of 2" in run("campaign", "list")[1]
    code, out, _ = run("campaign", "status", "1")
    assert (code, "paused" in out, "lunch" in out) == (0, True, True)
    assert run("campaign", "resume", "1")[0] == 0
    assert run("campaign", "take-out", "1", "views")[0] == 0
    told = json.loads(run("campaign", "status", "1", "--json")[1])
    assert told["streams"] == {"clicks": "waiting", "refunds": "waiting", "views": "out"}
    assert run("campaign", "abort", "1", "--reason", "enough")[0] == 0
    assert "1: stopping, wave 0 of 2" in run("campaign", "list")[1]
    code, out, _ = run("campaign", "status", "1")
    assert "The next run of the fleet's DAG puts streams back and closes the campaign." in out
    rows = [line.split() for line in out.splitlines()]
    assert ["clicks", "2", "waiting"] in rows
    assert ["views", "1", "out"] in rows
    assert "taken out: views" in out


def test_a_damaged_campaign_is_listed_beside_the_others_and_blocks_the_next_one_with_a_reason(
    run: Run, home: Home, tmp_path: Path
) -> None:
    run("campaign", "start", *WEB)
    run("campaign", "abort", "1")
    (record,) = Path(home.store.uri).rglob("_fleet/campaigns/000001.json")
    (record.parent / "000002.json").write_text("{")

    code, out, _ = run("campaign", "list")
    assert code == 1
    assert "2: " in out
    assert "cannot be read" in out
    assert "1: stopping" in out
    facts = json.loads(run("campaign", "list", "--json")[1])
    assert [one["campaign"]["number"] for one in facts["campaigns"]] == [1]
    assert [*facts["unreadable"]] == ["2"]
    code, _, err = run("campaign", "status", "2")
    assert code == 1
    assert "Restore the original file: it may have streams that another campaign wants." in err


def test_a_stream_of_an_open_campaign_is_refused_to_another_one(run: Run) -> None:
    run("campaign", "start", *WEB)

    code, _, err = run("campaign", "start", *WEB)

    assert code == 1
    assert "Campaign 1 is open and has stream 'clicks' and 2 more" in err
    assert "not_allowed" in run("campaign", "plan", *WEB, "--json")[1]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("start", "--select", "team=web"), "changes nothing"),
        (("start", "--select", "team=x", "--runtime", "r"), "No stream"),
        (("start", *WEB, "--waves", "x"), "not the size of a wave"),
        (("start", *WEB, "--waves", "1"), "have room for 1 of 3 streams"),
        (
            ("start", *WEB, "--conf", "spark.x=1", "--remove-conf", "spark.x"),
            "--conf sets 'spark.x' and --remove-conf removes it",
        ),
        (("start", *WEB, "--canary", "orders"), "no stream 'orders' to be a canary"),
        (("start", *WEB, "--blackout", "6-8"), "is not HH:MM-HH:MM"),
        (("start", *WEB, "--at-once", "101"), "at_once"),
        (("start", *WEB, "--conf", "spark.my.password=x"), "would record the secret"),
        (("start", *WEB, "--accept", "none.such"), "none.such"),
        (("start", *WEB, "--size", "cores=2"), "'cores' is not a size"),
        (("approve", "1"), "does not exist"),
        (("status", "7"), "Existing campaigns: none"),
    ],
)
def test_a_wrong_use_is_refused_and_records_nothing(
    run: Run, home: Home, arguments: tuple[str, ...], wanted: str
) -> None:
    try:
        code, _, err = run("campaign", *arguments)
    except SystemExit:
        return  # argparse has refused it
    assert code != 0
    assert wanted in err
    assert not Campaigns(home.store).numbers()


def test_the_evidence_is_one_file(run: Run, tmp_path: Path) -> None:
    run("campaign", "start", *WEB, "--reason", "<script>alert(1)</script>")

    for name in ("e.json", "e.html"):
        assert run("campaign", "evidence", "1", "--write", str(tmp_path / name))[0] == 0
    page = (tmp_path / "e.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    told = json.loads((tmp_path / "e.json").read_text())
    assert [one["stream"] for one in told["upgrades"]] == ["clicks", "refunds", "views"]
    code, _, err = run("campaign", "evidence", "1", "--write", str(tmp_path / "e.txt"))
    assert (code, ".json or .html" in err) == (2, True)


def test_queries_judge_the_waves_of_a_campaign(run: Run, home: Home) -> None:
    url = "http://prometheus:9090/api/v1/query?query=up"
    more = ("--query", "slo", url, ">= 0.99", "< 0.9", "--query", "lag", url, "<5", "")

    code, _, err = run("campaign", "start", *WEB, *more, "--query-path", "lag=checks.lag")

    assert code == 0, err
    slo, lag = Campaigns(home.store).campaign(1).terms.queries
    assert (str(slo.success), str(slo.failure), slo.path) == (">= 0.99", "< 0.9", "")
    assert (str(lag.success), lag.failure, lag.path) == ("< 5", None, "checks.lag")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--query", "slo", "file:///etc/passwd", "> 1", ""),
        ("--query", "slo", "http://prometheus", "one", ""),
        ("--query-path", "lag=x"),
    ],
)
def test_a_wrong_query_begins_nothing(run: Run, home: Home, wrong: tuple[str, ...]) -> None:
    assert run("campaign", "start", *WEB, *wrong)[0] == 2
    assert not Campaigns(home.store).numbers()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Program]:
    """The programs that a played Spark has planned."""
    ran: list[Program] = []

    def plan_script(program: Program, runtime: Any) -> ScriptPlan:
        ran.append(program)
        if "bad" in program.source.decode():
            raise LaunchError("The Spark did not start.")
        return ScriptPlan(application=program.application, spark="4.3.0", queries=())

    spark = {"spark-4.3": str(make_spark_home(tmp_path / "spark"))}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(spark))
    monkeypatch.setattr(fleet_gate, "plan_script", plan_script)
    monkeypatch.setattr(fleet_gate, "checkpoints_of", lambda _: SimpleNamespace(checkpoints={}))
    return ran


def test_a_plan_with_spark_runs_the_gate_for_each_stream(
    run: Run, planned: list[Program], tmp_path: Path
) -> None:
    more = ("--remove-conf", "spark.x", "--with-spark", "--at-once", "2", "--json")
    code, out, err = run("campaign", "plan", *WEB, *more)

    assert code == 1, err
    told = json.loads(out)
    found = {row["stream"]: [one["rule"] for one in row["findings"]] for row in told["streams"]}
    assert found == {name: ["script.no_query"] for name in ("clicks", "refunds", "views")}
    assert len(planned) == 3
    assert {one.conf["spark.sql.shuffle.partitions"] for one in planned} == {"8"}
    assert all(one.source == SCRIPT for one in planned)


def test_a_stream_whose_spark_fails_does_not_hold_up_the_plan(
    run: Run, planned: list[Program], tmp_path: Path
) -> None:
    script = tmp_path / "new.py"
    script.write_text("# bad\n")

    code, out, _ = run("campaign", "plan", *WEB, "--script", str(script), "--with-spark", "--json")

    told = json.loads(out)
    assert code == 0
    assert {row["decision"] for row in told["streams"]} == {"unknown"}
    assert "The Spark did not start" in told["streams"][0]["findings"][0]["message"]


def test_a_plan_with_spark_takes_no_size(run: Run, planned: list[Program]) -> None:
    assert run("campaign", "plan", *WEB, "--size", "executors=3", "--with-spark")[0] == 2
    assert planned == []
