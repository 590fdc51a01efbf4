"""What green best begins with, and which findings of the gates count for it."""

from __future__ import annotations

import pytest

from airflow_streaming.changes.cutover.plan import chosen_start, counted, start_by_gate
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, Pattern
from airflow_streaming.model.arguments.choices import StartWay

RULES = ("aggregation.keys", "source.paths", "plan.script")


def report(severity: GateDecision = GateDecision.NOT_ALLOWED) -> GateReport:
    return GateReport(
        findings=tuple(GateFinding(rule=rule, severity=severity, message="x") for rule in RULES)
    )


@pytest.mark.parametrize("pattern", [None, *Pattern], ids=str)
def test_every_pattern_of_the_gates_has_a_start(pattern: Pattern | None) -> None:
    lost = {Pattern.CARRIED_OVER: StartWay.CARRIED}
    lost |= dict.fromkeys((Pattern.BLUE_GREEN, None), StartWay.FRESH)  # type: ignore[arg-type]

    found = start_by_gate(GateReport(pattern=pattern))

    assert found is lost.get(pattern, StartWay.CLONED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "rules"),
    [
        (StartWay.CLONED, RULES),
        (StartWay.CARRIED, ("source.paths", "plan.script")),
        (StartWay.FRESH, ("plan.script",)),
    ],
    ids=str,
)
def test_the_gates_count_as_far_as_green_begins_with_blues_checkpoint(
    start: StartWay, rules: tuple[str, ...]
) -> None:
    assert tuple(finding.rule for finding in counted(report(), start)) == rules


def test_what_the_gates_do_not_know_is_shown_by_green_beside_blue() -> None:
    found = list(counted(report(GateDecision.UNKNOWN), StartWay.CLONED))

    assert {one.severity for one in found} == {GateDecision.ALLOWED_WITH_CONSEQUENCE}
    assert all("beside blue" in one.remedy for one in found)


@pytest.mark.parametrize(
    ("wanted", "absent", "start", "why"),
    [
        (None, (), StartWay.CLONED, "a copy"),
        (None, ("late",), StartWay.CLONED, "a copy"),
        (None, ("late", "revenue"), StartWay.FRESH, "no committed checkpoint"),
        (StartWay.CARRIED, ("late", "revenue"), StartWay.CARRIED, "has chosen"),
    ],
)
def test_where_blue_has_no_checkpoint_of_any_query_green_starts_fresh(
    wanted: StartWay | None, absent: tuple[str, ...], start: StartWay, why: str
) -> None:
    gates = GateReport(pattern=Pattern.RESTART_IN_PLACE)

    found, reason = chosen_start(wanted, gates, ("revenue", "late"), absent)

    assert found is start
    assert why in reason
