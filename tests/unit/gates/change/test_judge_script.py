"""Queries that come, go and move; and how a script is deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.judge import judge_change, judge_script
from airflow_streaming.gates.findings import GateDecision, Pattern
from airflow_streaming.model.spark.plan import QueryPlan, RefusedSource, SourcePlan
from tests.unit.gates.change import builders as b

ONE = b.a_stateless()
TWO = replace(b.a_stateless(), query="r")
AGG = b.an_aggregation()
CHOSEN = replace(ONE, checkpoint="/ck/here")
STATELESS = b.a_checkpoint(operators=(), is_stateful=False)


def rules(old: Sequence[QueryPlan], new: Sequence[QueryPlan], **given: object) -> set[str]:
    return {f.rule for f in judge_script(old, new, {}, **given).findings}  # type: ignore[arg-type]


def test_a_query_more_begins_anew() -> None:
    assert rules([ONE], [ONE, TWO]) == {"query.added"}


def test_a_query_less_is_told() -> None:
    assert rules([ONE, TWO], [ONE]) == {"query.removed"}


def test_a_query_less_is_told_by_its_checkpoint() -> None:
    found = judge_script([], [TWO], {"q": STATELESS})
    assert [f.query for f in found.findings if f.rule == "query.removed"] == ["q"]


def test_a_query_that_chose_its_checkpoint_may_be_renamed() -> None:
    assert rules([CHOSEN], [replace(CHOSEN, query="r")]) == {"query.renamed"}


def test_a_query_that_is_found_by_name_must_keep_it() -> None:
    assert rules([ONE], [TWO]) == {
        "query.added",
        "query.removed",
        "query.renamed_without_checkpoint",
    }


ELSEWHERE = b.with_sink(b.with_source(TWO, paths=("/elsewhere",)), target="/there")
CHANGED = b.with_steps(TWO, ("filter", "(v > 9)", 0))
MOVES = {
    "renamed": (TWO, "query.renamed_without_checkpoint", GateDecision.NOT_ALLOWED),
    "renamed and filtered": (CHANGED, "query.renamed_without_checkpoint", GateDecision.NOT_ALLOWED),
    "renamed, with other sources": (
        b.with_source(TWO, paths=("/elsewhere",)),
        "query.replaced",
        GateDecision.NOT_ALLOWED,
    ),
    "renamed, with state": (replace(AGG, query="r"), "query.replaced", GateDecision.NOT_ALLOWED),
    "perhaps another": (ELSEWHERE, "query.perhaps_renamed", GateDecision.UNKNOWN),
}


@pytest.mark.parametrize(("new", "rule", "decision"), MOVES.values(), ids=MOVES.keys())
def test_a_query_that_comes_where_one_goes_is_judged_no_milder_for_being_changed_as_well(
    new: QueryPlan, rule: str, decision: GateDecision
) -> None:
    found = judge_script([ONE], [new], {"q": STATELESS})

    assert rule in {f.rule for f in found.findings}
    assert found.decision is decision
    assert found.pattern in (None, Pattern.CARRIED_OVER, Pattern.BLUE_GREEN)


@pytest.mark.parametrize("old", [[ONE], []], ids=["old plan", "none"])
def test_checkpoints_of_other_queries_prove_nothing(old: Sequence[QueryPlan]) -> None:
    found = judge_script(old, [ONE], {"a": STATELESS, "b": STATELESS})

    (told,) = (f for f in found.findings if f.rule == "checkpoint.not_given")
    assert "Those are of: a, b." in told.message
    assert found.decision is GateDecision.UNKNOWN


def test_a_query_beside_those_that_go_on_is_new() -> None:
    found = judge_script([], [ONE, TWO], {"q": STATELESS})
    assert "checkpoint.not_given" not in {f.rule for f in found.findings}


def test_an_old_script_that_came_to_no_end_is_unknown() -> None:
    assert "script.old_problem" in rules([ONE], [ONE], old_problem="NameError: x.")


def test_a_refusal_that_has_to_be_mended_first_has_no_pattern() -> None:
    found = judge_script([CHOSEN], [CHOSEN, replace(CHOSEN, query="r")], {})
    assert (found.decision, found.pattern) == (GateDecision.NOT_ALLOWED, None)


@pytest.mark.parametrize(
    ("old", "new", "checkpoint", "problem"),
    [
        pytest.param([ONE], [ONE], None, "", id="begins anew"),
        pytest.param([], [], STATELESS, "SystemExit: 3.", id="the script came to no end"),
        pytest.param([AGG], [], STATELESS, "SystemExit: 3.", id="the same, with the old plan"),
        pytest.param([ONE], [], STATELESS, "", id="starts none"),
    ],
)
def test_where_no_query_goes_on_from_a_checkpoint_there_is_no_pattern(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    checkpoint: Checkpoint | None,
    problem: str,
) -> None:
    assert judge_script(old, new, {"q": checkpoint}, problem=problem).pattern is None


def test_a_watermark_has_no_effect_in_complete_mode() -> None:
    old = replace(AGG, output_mode="complete", sink=b.a_sink("foreachbatch"))
    assert "watermark.no_effect" in rules([old], [replace(old, watermarks=())])


@pytest.mark.parametrize("new", [ONE, replace(CHOSEN, checkpoint="/ck/there")])
def test_a_query_that_leaves_its_checkpoint_is_refused(new: QueryPlan) -> None:
    assert "query.checkpoint_moved" in rules([CHOSEN], [new])


def test_two_queries_must_not_share_a_checkpoint() -> None:
    assert "query.shared_checkpoint" in rules([], [CHOSEN, replace(CHOSEN, query="r")])


def test_a_script_without_queries_is_refused() -> None:
    assert "script.no_query" in rules([ONE], [])


def test_a_script_that_came_to_no_end_is_unknown() -> None:
    assert "script.problem" in rules([ONE], [], problem="NameError: x.")


def test_a_checkpoint_that_is_not_there_is_told() -> None:
    found = judge_script([ONE], [ONE], {"q": None})
    assert [f.rule for f in found.findings] == ["checkpoint.absent"]


def test_a_renamed_query_is_held_against_its_checkpoint() -> None:
    found = judge_script(
        [replace(AGG, checkpoint="/ck/here")],
        [replace(AGG, checkpoint="/ck/here", query="r")],
        {"q": b.a_checkpoint(conf={})},
        schemas={"q": (b.a_store_schema(value="max bigint"),)},
    )
    assert "checkpoint.contradiction" in {f.rule for f in found.findings}


MORE_SOURCES = replace(ONE, sources=ONE.sources * 2)
OTHER_PATH = b.with_sink(ONE, target="/x")
PATTERNS: Mapping[str, tuple[QueryPlan, QueryPlan, Pattern]] = {
    "equal plans may be other code": (ONE, ONE, Pattern.RESTART_IN_PLACE),
    "allowed": (ONE, replace(ONE, processing_trigger="1 second"), Pattern.RESTART_IN_PLACE),
    "refused without state": (ONE, OTHER_PATH, Pattern.CARRIED_OVER),
    "state for the first time": (ONE, replace(AGG, sink=ONE.sink), Pattern.CARRIED_OVER),
    "refused with state": (AGG, b.with_sink(AGG, target="/x"), Pattern.BLUE_GREEN),
    "other sources": (ONE, MORE_SOURCES, Pattern.BLUE_GREEN),
}


@pytest.mark.parametrize(("old", "new", "pattern"), PATTERNS.values(), ids=PATTERNS.keys())
def test_the_decision_names_the_pattern(old: QueryPlan, new: QueryPlan, pattern: Pattern) -> None:
    assert judge_script([old], [new], {}).pattern is pattern


def test_the_same_script_needs_nothing() -> None:
    assert judge_script([ONE], [ONE], {}, same_code=True).pattern is Pattern.NOTHING_TO_DO


def test_the_same_script_with_other_settings_is_a_rolling_restart() -> None:
    new = b.with_conf(ONE, {b.PARTITIONS: "9"})
    assert judge_script([ONE], [new], {}, same_code=True).pattern is Pattern.ROLLING_RESTART


def test_state_in_the_checkpoint_counts_where_no_plan_tells() -> None:
    found = judge_script([], [ONE], {"q": b.a_checkpoint()})
    assert found.pattern is Pattern.BLUE_GREEN


def test_the_worst_query_decides() -> None:
    found = judge_script([ONE, TWO], [ONE, replace(OTHER_PATH, query="r")], {})
    assert found.decision is GateDecision.NOT_ALLOWED
    assert found.findings[0].query == "r"


def test_a_checkpoint_of_another_query_is_left_alone() -> None:
    checkpoints: Mapping[str, Checkpoint | None] = {"q": STATELESS, "other": STATELESS}
    assert judge_script([ONE], [ONE], checkpoints).findings == ()


KAFKA_OPTIONS = {"kafka.bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({**KAFKA_OPTIONS, "endingoffsets": "latest"}, ["spark.refuses"]),
        ({**KAFKA_OPTIONS, "kafka.auto.offset.reset": "latest"}, ["spark.refuses"]),
        (KAFKA_OPTIONS, ["script.problem"]),
    ],
    ids=["endingOffsets", "auto.offset.reset", "something of this host"],
)
def test_a_source_that_spark_never_opens_is_refused_and_not_unknown(
    options: dict[str, str], rules: list[str]
) -> None:
    source = SourcePlan(source="kafka", paths=("subscribe a",), options=options)
    refused = RefusedSource(source=source, why="Spark does not open it.")

    report = judge_script(
        [b.an_aggregation()], [], {}, problem="It failed.", refused=[refused], spark="4.3.0"
    )

    assert [finding.rule for finding in report.findings] == rules
    assert report.pattern is None


def test_a_plan_recorded_as_text_is_unknown_and_says_so() -> None:
    told = b.an_aggregation().to_dict()
    told["capture"] = 3
    told["steps"] = [{"step": "project", "text": "k, total, lines", "below": 0}]
    told["operators"] = [
        {
            **told["operators"][0],
            "key_expressions": ["window(ts, 20 seconds)", "k"],
            "values": ["sum(v)", "count(1)"],
            "outputs": ["total", "lines"],
            "condition": "",
            "gap": "",
        }
    ]

    found = judge_change(QueryPlan.from_dict(told), b.an_aggregation(), b.a_checkpoint())

    assert {(f.rule, f.severity) for f in found} == {("plan.capture", GateDecision.UNKNOWN)}
