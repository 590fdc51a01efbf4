"""What code reads beside its text: one content is the same, another is named, and the same script excuses only the unread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.plan import OPAQUE
from tests.unit.gates.change import builders as b

UNREAD = {"environment": f"{OPAQUE} read by a computed name"}


def test_the_finding_names_the_piece_and_both_contents() -> None:
    old, new = (
        replace(b.a_stateless(), reads={"package numpy": version}) for version in ("1", "2")
    )

    (finding,) = judge_change(old, new, None)

    assert finding.message.startswith("package numpy: ")
    assert (finding.old, finding.new, finding.about) == ("1", "2", ("reads.package numpy",))


def test_a_piece_that_one_version_does_not_read_is_a_difference() -> None:
    plan = b.a_stateless()
    (finding,) = judge_change(plan, replace(plan, reads={"file a": "1"}), None)
    assert finding.old == "not read"


@pytest.mark.parametrize("plan", [b.a_stateless(), b.an_aggregation()])
def test_what_could_not_be_read_is_the_same_in_the_same_script_alone(plan: object) -> None:
    unread = replace(plan, reads=UNREAD)  # type: ignore[type-var]

    assert b.decision_of(unread, unread) is not GateDecision.ALLOWED
    assert b.decision_of(unread, unread, same_code=True) is GateDecision.ALLOWED


def test_the_same_script_does_not_excuse_another_content() -> None:
    old, new = (replace(b.a_stateless(), reads={"file a": digest}) for digest in ("1", "2"))
    assert b.rules_of(old, new, same_code=True) == {"code.reads"}


def test_the_same_script_does_not_excuse_another_module_behind_its_function() -> None:
    sink = b.a_sink("foreachbatch", options={"function": "write"}, code="1")
    old = replace(b.a_stateless(), sink=sink)
    new = replace(b.a_stateless(), sink=replace(sink, code="2"))
    unread = replace(b.a_stateless(), sink=replace(sink, code=f"{OPAQUE} Broadcast"))
    state, other = (b.with_operator(b.a_stateful_function(), code=code) for code in ("1", "2"))

    assert b.rules_of(old, new, same_code=True) == {"sink.function_body"}
    assert b.rules_of(state, other, same_code=True) == {"user_state.function"}
    assert b.rules_of(unread, unread, same_code=True) == set()
    assert b.rules_of(unread, unread) == {"sink.function_body"}
    assert b.rules_of(replace(old, spark="3.5.9"), new, same_code=True) == set(), "another Python"
