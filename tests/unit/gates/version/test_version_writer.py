from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.report import FindingCode, SourceType
from airflow_streaming.gates.findings import GateDecision
from tests.unit.gates.version.asking import AGGREGATE, JOIN, a_problem, judge
from tests.unit.gates.version.cases import a_checkpoint, a_matrix, a_source, an_operator, pinned_by


@pytest.mark.parametrize(
    "way", ["4.3.0 to 4.3.7", "4.3.7 to 4.3.0", "3.4.1 to 3.4.4", "9.1 to 9.1", "4.3 to 4.3.0"]
)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_staying_on_a_minor_release_needs_no_measurement(way: str, back: bool) -> None:
    version = way[:3]
    checkpoint = a_checkpoint(
        an_operator("somethingNew"),
        spark_at_least=version,
        async_progress=True,
        sources=(a_source(SourceType.CUSTOM),),
        conf=pinned_by(version),
    )

    report = judge(checkpoint, way, matrix=a_matrix({}), back=back)

    rule = "version.can_come_back" if back else "version.same_minor"
    assert {rule} <= {finding.rule for finding in report.findings} <= {rule, "version.security"}


def test_staying_on_a_minor_release_does_not_hide_what_stands_against_it() -> None:
    damaged = a_checkpoint(problems=(a_problem(FindingCode.OFFSETS_GAP),))

    assert judge(damaged, "4.3.0 to 4.3.1").decision is GateDecision.NOT_ALLOWED
    assert judge(AGGREGATE, "3.5.9 to 3.5.6").decision is GateDecision.ALLOWED_WITH_CONSEQUENCE
    assert judge(JOIN, "4.3 to 4.3.1", written_by="3.5").decision is GateDecision.UNKNOWN


@pytest.mark.parametrize(
    ("writer", "said", "is_found"),
    [
        ("3.5", "4.0", True),
        ("3.5", "4.3", True),
        ("4.1", "4.2", True),
        ("4.2", "4.3", True),
        ("3.1", "3.5", True),
        # Both pin the same.
        ("4.0", "4.1", False),
        ("4.3", "4.4", False),
        ("4.3", "4.3", False),
        # One may have the bounds of a newer one for its maintenance releases.
        ("3.4", "3.5", False),
    ],
)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_version_that_is_too_high_is_not_believed(
    writer: str, said: str, is_found: bool, back: bool
) -> None:
    checkpoint = a_checkpoint(an_operator("symmetricHashJoin"), spark_at_least=None)

    report = judge(checkpoint, f"{said} to 4.4", written_by=writer, back=back)

    found = [each for each in report.findings if each.rule == "version.written_by_older"]
    assert bool(found) is is_found
    assert not is_found or found[0].evidence == "offsets/2"
    assert not is_found or report.decision is GateDecision.UNKNOWN


def test_a_plan_that_cannot_be_read_lacks_nothing() -> None:
    report = judge(a_checkpoint(offset_log_version=None, conf={}), "4.3 to 4.4", written_by="2.0")

    assert "version.written_by_older" not in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("way", ["4.3.0-preview1 to 4.3.0", "3.5.9.1 to 4.3.0", "4.0 to 4.3.0rc1"])
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_build_that_is_no_release_was_not_measured(way: str, back: bool) -> None:
    report = judge(AGGREGATE, way, back=back)

    assert report.decision is GateDecision.UNKNOWN
    assert report.findings[0].rule == "version.not_a_release"


def test_staying_on_a_vendors_build_changes_nothing() -> None:
    same = "4.3.1-amzn-0 to 4.3.1-amzn-0"

    assert judge(AGGREGATE, same).decision is GateDecision.ALLOWED
