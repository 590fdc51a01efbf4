"""What is known before an upgrade, as one report and one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.preflight_report import Preflight, differences, joined
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
)
from airflow_streaming.model.arguments.accepted import NO_ROLLBACK
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.report import Heading
from airflow_streaming.reports.upgrade import upgrade_report
from tests.unit.home.make import make_deployment

REWIND = RollbackPlan(way=RollbackMethod.REWIND, reason="The sink has a log.")
REPLAY = replace(REWIND, replay="Batches 7 and later are written twice.")
NONE = RollbackPlan(
    way=RollbackMethod.NONE, reason="The sink only appends.", refused="Use a stream beside it."
)
OLD = make_deployment(1, conf={"spark.a": "1", "spark.b": "2"})
NEW = replace(
    OLD,
    number=2,
    runtime="spark-4.4",
    application_sha256="f" * 64,
    conf={"spark.a": "1", "spark.b": "3|4", "spark.c": "5"},
)


def finding(severity: GateDecision, rule: str = "sink.path") -> GateFinding:
    return GateFinding(rule=rule, severity=severity, message="It moves.", evidence="sources/0/0")


def found(**changes: Any) -> Preflight:
    told: dict[str, Any] = {
        "stream": "orders",
        "replaced": 1,
        "proposed": NEW,
        "differences": differences(OLD, NEW),
        "gates": joined([], REWIND),
        "rollback": REWIND,
    }
    return Preflight(**{**told, **changes})


def test_differences_are_told_key_by_key() -> None:
    told = {one.what: (one.old, one.new) for one in differences(OLD, NEW)}

    assert told["spark.b"] == ("2", "3|4")
    assert told["spark.c"] == ("", "5")
    assert told["runtime"][1] == "spark-4.4"
    assert told["application_sha256"][1] == "f" * 12
    assert "spark.a" not in told
    assert "number" not in told


@pytest.mark.parametrize(
    ("rollback", "accepted", "decision"),
    [
        pytest.param(REWIND, (), GateDecision.ALLOWED, id="as if never tried"),
        pytest.param(REPLAY, (), GateDecision.ALLOWED_WITH_CONSEQUENCE, id="with a replay"),
        pytest.param(NONE, (), GateDecision.NOT_ALLOWED, id="none"),
        pytest.param(
            NONE, [NO_ROLLBACK], GateDecision.ALLOWED_WITH_CONSEQUENCE, id="none, accepted"
        ),
    ],
)
def test_the_way_back_decides_with_the_gates(
    rollback: RollbackPlan, accepted: Sequence[str], decision: GateDecision
) -> None:
    report = joined([report_of([])], rollback, accepted=accepted)

    assert report.decision is decision


@pytest.mark.parametrize(
    ("pattern", "decision"),
    [
        (None, GateDecision.ALLOWED),
        (Pattern.ROLLING_RESTART, GateDecision.ALLOWED),
        (Pattern.RESTART_IN_PLACE, GateDecision.ALLOWED),
        (Pattern.CARRIED_OVER, GateDecision.NOT_ALLOWED),
        (Pattern.BLUE_GREEN, GateDecision.NOT_ALLOWED),
    ],
)
def test_what_needs_another_checkpoint_is_no_upgrade_in_place(
    pattern: Pattern | None, decision: GateDecision
) -> None:
    report = joined([GateReport(), report_of([], pattern)], REWIND)

    assert (report.decision, report.pattern) == (decision, pattern)


def test_what_a_gate_refuses_is_not_said_again_of_the_way_back() -> None:
    refused = report_of([finding(GateDecision.NOT_ALLOWED)])

    assert joined([refused], NONE).findings == refused.findings


def test_what_the_gates_do_not_know_has_to_be_rehearsed() -> None:
    gates = joined([report_of([finding(GateDecision.UNKNOWN)])], REWIND)

    assert found(gates=gates).has_to_be_rehearsed
    assert not found().has_to_be_rehearsed


SECRETS = {
    "application_args": ("--password=hunter2", "--api-token", "hunter2", "db://u:hunter2@h/db"),
    "jars": ("https://u:hunter2@h/x.jar", "s3a://b/y.jar?sig=hunter2"),
    "conf": {"spark.x": "jdbc:db://u:hunter2@h/db"},
}


@pytest.mark.parametrize("old", [OLD, replace(OLD, **SECRETS)], ids=["new", "old"])
def test_no_secret_of_a_deployment_is_told_or_shown(old: Deployment) -> None:
    new = replace(NEW, **SECRETS) if old is OLD else NEW
    told = found(proposed=new, differences=differences(old, new), queries=("counts",))

    report, page = told.to_dict(), markdown(upgrade_report(told, SoakTerms()))

    assert "hunter2" not in json.dumps(report)
    assert "hunter2" not in page
    assert "--api-token" in page, "what changes is told"
    assert report["fingerprint"] == new.fingerprint
    assert report["queries"] == ["counts"]


def test_it_travels_as_json_with_all_that_the_next_tasks_need() -> None:
    report = found().to_dict()

    assert json.loads(json.dumps(report)) == report
    assert report["fingerprint"] == NEW.fingerprint
    assert report["rollback"]["way"] == "rewind"
    assert report["gates"]["decision"] == report["decision"] == "allowed"


def test_the_page_says_what_changes_what_it_brings_and_how_it_ends() -> None:
    gates = joined([report_of([finding(GateDecision.ALLOWED_WITH_CONSEQUENCE)])], REPLAY)
    told = found(gates=gates, rollback=REPLAY, advice=("It works 90 % of its time.",))

    page = markdown(upgrade_report(told, SoakTerms(batches=4)))

    for text in (
        "Deployment 1 → 2",
        "**allowed with consequence**",
        "| `spark.b` | `2` | `3\\|4` |",
        "It moves.",
        "Batches 7 and later are written twice.",
        "4 batches",
        "at most 15 min",
        "It works 90 % of its time.",
    ):
        assert text in page


def test_the_page_of_a_refused_upgrade_says_nothing_of_an_approval() -> None:
    refused = found(gates=joined([report_of([finding(GateDecision.NOT_ALLOWED)])], REWIND))

    headings = [
        block.words
        for block in upgrade_report(refused, SoakTerms()).blocks[1:]
        if isinstance(block, Heading)
    ]

    assert headings == ["What changes", "Findings of the gates"]


def test_the_page_of_a_plain_restart_says_that_nothing_changes() -> None:
    page = markdown(upgrade_report(found(differences=()), SoakTerms()))

    assert "the same deployment is started again" in page
