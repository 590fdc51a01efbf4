"""The catalog is the manual: every rule that is emitted is in it, and every one can be emitted."""

from __future__ import annotations

from airflow_streaming.gates.change.judge import CHANGE_RULES, judge_change
from tests.unit.gates.change.checkpoint_cases import CASES
from tests.unit.gates.change.edits import EDITS

CATALOG = {rule.name: rule for rule in CHANGE_RULES}

BY_CHECKPOINT = {rule for *_, rule in CASES.values()} | {
    "checkpoint.contradiction",
    "checkpoint.unsound",
    "sink.name_left",
    "sink.name_moves",
    "sink.name_needed",
    "sink.name_refused",
    "sink.name_returns",
    "sink.name_reused",
    "sink.skips_state",
    "source.could_be_named",
    "step.except_kept",
    "step.except_refused",
    "trigger.real_time_state",
    "unseen.aggregation",
    "unseen.deduplication",
    "unseen.join",
    "unseen.operator",
    "unseen.output_mode",
    "unseen.sink",
    "unseen.sources",
    "unseen.spark",
    "unseen.state",
    "unseen.state_columns",
    "unseen.steps",
    "unseen.user_state",
}
BY_SCRIPT = {
    "checkpoint.absent",
    "plan.capture",
    "checkpoint.not_given",
    "query.added",
    "query.checkpoint_moved",
    "query.perhaps_renamed",
    "query.removed",
    "query.renamed",
    "query.renamed_without_checkpoint",
    "query.replaced",
    "query.shared_checkpoint",
    "script.no_query",
    "script.old_problem",
    "script.problem",
    "source.same_files",
}
BY_TOPICS = {"source.partitions_fixed"}
BY_FAULTY_RECORDS = {"step.json_text_field_added", "source.faulty_records"}


def test_every_rule_is_emitted_by_a_test_of_this_folder() -> None:
    by_edit = {f.rule for edit in EDITS for f in judge_change(edit.old, edit.new, None)}
    assert by_edit | BY_CHECKPOINT | BY_SCRIPT | BY_TOPICS | BY_FAULTY_RECORDS == set(CATALOG)


def test_every_finding_is_of_a_rule_in_the_catalog() -> None:
    for edit in EDITS:
        for finding in judge_change(edit.old, edit.new, None):
            assert CATALOG[finding.rule].severity is finding.severity


def test_a_rule_says_why_and_what_to_do() -> None:
    for rule in CHANGE_RULES:
        assert rule.sentence.endswith("."), rule.name
        assert rule.source, rule.name
        assert rule.remedy.endswith("."), rule.name


def test_two_rules_must_not_have_one_name() -> None:
    assert len(CATALOG) == len(CHANGE_RULES)
