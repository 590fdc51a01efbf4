from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from airflow_streaming.checkpoints.read.report import FindingCode, SourceType
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.gates.version.judge import RULES
from airflow_streaming.gates.version.matrix import Outcome, Seen
from airflow_streaming.model.spark.plan import SourcePlan
from tests.unit.gates.version.asking import (
    AGGREGATE,
    BEFORE_3_3,
    CHECK_OFF,
    FRUIT,
    JOIN,
    JOIN_FAILS,
    NULLABLE,
    PARTITIONED,
    a_problem,
    judge,
    of_aggregates,
    of_duplicates,
    seen,
)
from tests.unit.gates.version.cases import (
    FINE,
    STREAMING,
    a_checkpoint,
    a_matrix,
    a_source,
    an_operator,
    join_schemas,
)
from tests.unit.gates.version.measured import plan_of

CASES: Final[Mapping[str, tuple[str, GateReport]]] = {
    "an empty checkpoint": (
        "version.nothing_written",
        judge(a_checkpoint(last_planned_batch=None, last_committed_batch=None), "3.5 to 4.3"),
    ),
    "a damaged checkpoint": (
        "version.damaged",
        judge(a_checkpoint(problems=(a_problem(FindingCode.OFFSETS_GAP),)), "4.3 to 4.3"),
    ),
    "a checkpoint of a newer Spark than is said": (
        "version.not_the_writer",
        judge(a_checkpoint(an_operator(), spark_at_least="4.0"), "3.5 to 4.3"),
    ),
    "asynchronous progress": (
        "version.asynchronous_progress",
        judge(a_checkpoint(async_progress=True), "4.0 to 4.3"),
    ),
    "format 2 below Spark 4": (
        "version.format",
        judge(a_checkpoint(an_operator(), commit_log_version=2, state_format=2), "4.3 to 3.5"),
    ),
    "a measured pair": ("version.measured", judge(AGGREGATE, "3.5 to 4.3")),
    "a store that was measured with other queries": (
        "version.measured_apart",
        judge(
            a_checkpoint(an_operator("globalLimit")),
            "4.0 to 4.3",
            matrix=a_matrix({"limit/rocksdb": {"4.0>4.3": FINE}}),
        ),
    ),
    "rows in other batches": (
        "version.rows_in_other_batches",
        judge(
            a_checkpoint(),
            "4.0 to 4.3",
            matrix=seen("stateless/none", "4.0>4.3", there=Outcome.MOVED, back=Outcome.SAME),
        ),
    ),
    "a measured failure": (
        "version.failed",
        judge(
            AGGREGATE,
            "4.0 to 4.3",
            plan=plan_of("window_aggregate"),
            matrix=of_aggregates(there=Outcome.FAILED),
        ),
    ),
    "other rows": (
        "version.other_rows",
        judge(
            AGGREGATE,
            "4.0 to 4.3",
            plan=plan_of("window_aggregate"),
            matrix=of_aggregates(there=Outcome.OTHER),
        ),
    ),
    "a join whose state knows no nulls": (
        "version.needs_conf",
        judge(JOIN, "3.5 to 4.3", schemas=join_schemas(nullable=False)),
    ),
    "the same with the check off": (
        "version.needed_conf_given",
        judge(JOIN, "3.5 to 4.3", schemas=join_schemas(nullable=False), conf=CHECK_OFF),
    ),
    "columns that Spark 4 keeps in another order": (
        "version.deduplication_order",
        judge(
            a_checkpoint(an_operator(None)),
            "3.5 to 4.3",
            schemas=(of_duplicates("s", "date", "cherry", "berry", "apple"),),
        ),
    ),
    "columns in an order of their own": (
        "version.deduplication_order_untold",
        judge(
            a_checkpoint(an_operator("dedupe")),
            "4.0 to 4.3",
            schemas=(of_duplicates("apple", "berry", "cherry", "date", "s"),),
        ),
    ),
    "shapes that fare differently": (
        "version.ambiguous",
        judge(JOIN, "3.5 to 4.3", matrix=a_matrix({"inner_join/hdfs": {"3.5>4.3": JOIN_FAILS}})),
    ),
    "a pair that nobody measured": ("version.not_measured", judge(AGGREGATE, "3.4 to 4.3")),
    "Kafka": (
        "version.source_not_measured",
        judge(a_checkpoint(sources=(a_source(SourceType.KAFKA),)), "3.5 to 4.3"),
    ),
    "a source of its own form": (
        "version.source_unknown",
        judge(a_checkpoint(sources=(a_source(SourceType.CUSTOM),)), "3.5 to 4.3"),
    ),
    "a way back": ("version.can_come_back", judge(AGGREGATE, "3.5 to 4.3")),
    "no way back": (
        "version.no_way_back",
        judge(
            a_checkpoint(),
            "4.0 to 4.3",
            matrix=seen("stateless/none", "4.0>4.3", there=Outcome.SAME, back=Outcome.OTHER),
        ),
    ),
    "a way back that failed": (
        "version.back.failed",
        judge(
            a_checkpoint(),
            "4.0 to 4.3",
            plan=plan_of("stateless"),
            matrix=seen("stateless/none", "4.0>4.3", there=Outcome.SAME, back=Outcome.FAILED),
            back=True,
        ),
    ),
    "a new format that shuts the way back": (
        "version.back.format",
        judge(
            AGGREGATE,
            "4.0 to 4.3",
            conf={STREAMING + "offsetLog.formatVersion": "2"},
            back=True,
        ),
    ),
    "a way back that depends on what it is": (
        "version.back.ambiguous",
        judge(
            a_checkpoint(),
            "4.0 to 4.3",
            matrix=seen("stateless/none", "4.0>4.3", there=Outcome.SAME, back=Outcome.FAILED),
            back=True,
        ),
    ),
    "a way up again in another order": (
        "version.back.deduplication_order",
        judge(
            a_checkpoint(an_operator("dedupe")),
            "4.3 to 4.0",
            schemas=(of_duplicates(*FRUIT),),
            back=True,
        ),
    ),
    "a way back that nobody measured": (
        "version.back.not_measured",
        judge(AGGREGATE, "3.4 to 4.3", back=True),
    ),
    "old settings that stay": ("version.pins_kept", judge(AGGREGATE, "3.5 to 4.3")),
    "new settings that get lost": (
        "version.pins_lost",
        judge(AGGREGATE, "4.3 to 4.0"),
    ),
    "a second way up": (
        "version.down_and_up",
        judge(a_checkpoint(an_operator(), lost_conf={NULLABLE: "true"}), "4.0 to 4.3"),
    ),
    "a checkpoint of an older Spark than is said": (
        "version.written_by_older",
        judge(JOIN, "4.0 to 4.3", written_by="3.5"),
    ),
    "a plan of another query": (
        "version.contradiction",
        judge(JOIN, "3.5 to 4.3", plan=plan_of("window_aggregate")),
    ),
    "a preview": ("version.not_a_release", judge(AGGREGATE, "4.0 to 4.3.0-preview1")),
    "another patch of one release": ("version.same_minor", judge(AGGREGATE, "4.3.0 to 4.3.7")),
    "a setting asked for in vain": (
        "version.conf_overridden",
        judge(
            a_checkpoint(an_operator(), conf={STREAMING + "multipleWatermarkPolicy": "min"}),
            "4.0 to 4.3",
            conf={STREAMING + "multipleWatermarkPolicy": "max"},
        ),
    ),
    "a Spark with a hole": ("version.security", judge(a_checkpoint(), "3.5.9 to 4.0.0")),
    "an outer join of Spark 2": (
        "version.outer_join_of_spark_2",
        judge(JOIN, "2.4 to 4.3", plan=plan_of("left_outer_join")),
    ),
    "state from before Spark 3.3": ("version.strict_distribution", judge(BEFORE_3_3, "3.2 to 4.3")),
    "ANSI mode": ("version.ansi", judge(a_checkpoint(), "3.5 to 4.0.5")),
    "out of ANSI mode": ("version.not_ansi", judge(a_checkpoint(), "4.0 to 3.5.9")),
    "adaptive planning": ("version.adaptive_stateless", judge(a_checkpoint(), "4.0 to 4.3")),
    "no metadata for 4.3": (
        "version.no_metadata_file",
        judge(
            a_checkpoint(problems=(a_problem(FindingCode.METADATA_MISSING, "metadata"),)),
            "4.0 to 4.3",
        ),
    ),
    "no metadata for 4.0": (
        "version.new_query_id",
        judge(
            a_checkpoint(problems=(a_problem(FindingCode.METADATA_MISSING, "metadata"),)),
            "3.5 to 4.0.5",
        ),
    ),
    "nested partition columns": (
        "version.partition_types",
        judge(a_checkpoint(), "4.0 to 4.3", plan=PARTITIONED),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_speaks_where_it_should(name: str) -> None:
    rule, report = CASES[name]
    found = [finding for finding in report.findings if finding.rule == rule]

    assert found
    assert {finding.severity for finding in found} == {rule_named(rule).severity}
    assert all(finding.query == "q" for finding in found)


def test_every_rule_of_the_catalog_can_be_found_and_no_other_is() -> None:
    found = {finding.rule for _, report in CASES.values() for finding in report.findings}

    assert found == {rule.name for rule in RULES}


def test_whatever_forbids_or_costs_something_says_what_to_do_or_where_it_is_known_from() -> None:
    lacking = [
        rule.name
        for rule in RULES
        if not rule.source or (rule.severity is not GateDecision.ALLOWED and not rule.remedy)
    ]

    # Nothing can be done about rows that come in another batch.
    assert lacking == ["version.rows_in_other_batches"]


@pytest.mark.parametrize(
    ("nullable", "decision"),
    [(True, GateDecision.ALLOWED_WITH_CONSEQUENCE), (False, GateDecision.NOT_ALLOWED)],
    ids=["nullable", "never null"],
)
@pytest.mark.parametrize("shape", ["inner_join", "full_outer_join", None])
def test_on_the_way_to_spark_4_the_state_decides_over_a_join_whatever_its_type(
    shape: str | None, nullable: bool, decision: GateDecision
) -> None:
    report = judge(
        JOIN,
        "3.5 to 4.3",
        plan=plan_of(shape) if shape else None,
        schemas=join_schemas(nullable=nullable),
        matrix=a_matrix({"inner_join/hdfs": {"3.5>4.3": JOIN_FAILS}}),
    )

    assert report.decision is decision


def test_between_releases_of_spark_4_the_state_of_a_join_does_not_decide() -> None:
    report = judge(
        a_checkpoint(an_operator("symmetricHashJoin"), spark_at_least="4.0"),
        "4.0 to 4.3",
        schemas=join_schemas(nullable=False),
    )

    assert report.decision is GateDecision.ALLOWED


def test_columns_in_the_same_order_go_whatever_became_of_others() -> None:
    cells = {"deduplicate_wide/hdfs": {"3.5>4.3": Seen(there=Outcome.FAILED, back=Outcome.SAME)}}

    report = judge(
        a_checkpoint(an_operator(None)),
        "3.5 to 4.3",
        schemas=(of_duplicates("s", "n", "v", "id", "k"),),
        matrix=a_matrix(cells),
        conf={"spark.sql.ansi.enabled": "true"},
    )

    assert report.decision is GateDecision.ALLOWED


def test_shapes_that_all_fail_need_no_plan_to_be_refused() -> None:
    fails = {"4.0>4.3": Seen(there=Outcome.FAILED)}
    cells = {f"{shape}/hdfs": fails for shape in ("inner_join", "full_outer_join")}

    report = judge(
        a_checkpoint(an_operator("symmetricHashJoin")), "4.0 to 4.3", matrix=a_matrix(cells)
    )

    assert report.findings[0].rule == "version.failed"


def test_a_way_back_that_is_shut_does_not_forbid_to_go() -> None:
    matrix = seen("stateless/none", "4.0>4.3", there=Outcome.SAME, back=Outcome.FAILED)
    plan = plan_of("stateless")
    there = judge(a_checkpoint(), "4.0 to 4.3", plan=plan, matrix=matrix)
    back = judge(a_checkpoint(), "4.0 to 4.3", plan=plan, matrix=matrix, back=True)

    assert there.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE
    assert back.decision is GateDecision.NOT_ALLOWED


@pytest.mark.parametrize(
    "conf", [{"spark.sql.ansi.enabled": "false"}, {"spark.sql.ansi.enabled": "true"}]
)
def test_who_has_settled_ansi_mode_is_not_told_of_it(conf: dict[str, str]) -> None:
    report = judge(a_checkpoint(), "3.5 to 4.3", conf=conf)

    assert report.decision is GateDecision.ALLOWED


def test_the_check_of_the_metadata_file_can_be_switched_off() -> None:
    checkpoint = a_checkpoint(problems=(a_problem(FindingCode.METADATA_MISSING, "metadata"),))
    conf = {STREAMING + "checkpoint.verifyMetadataExists.enabled": "false"}

    report = judge(checkpoint, "4.0 to 4.3", conf=conf)

    assert report.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE


def test_a_plan_tells_a_source_that_the_checkpoint_cannot() -> None:
    plan = replace(plan_of("stateless"), sources=(SourcePlan(source="delta"),))

    report = judge(a_checkpoint(), "4.0 to 4.3", plan=plan)

    assert report.decision is GateDecision.UNKNOWN


@pytest.mark.parametrize("way", ["3.5 to four", "new to 4.3"])
def test_what_is_no_version_is_refused(way: str) -> None:
    with pytest.raises(SpecError, match="is not a version of Spark"):
        judge(a_checkpoint(), way)


@pytest.mark.parametrize(
    ("release", "is_told"),
    [("3.5.6", True), ("3.5.7", False), ("4.0.0", True), ("4.0.1", False), ("4.3.0", False)],
)
def test_releases_with_a_known_hole_are_told(release: str, is_told: bool) -> None:
    rules = {finding.rule for finding in judge(a_checkpoint(), f"3.5 to {release}").findings}

    assert ("version.security" in rules) is is_told
