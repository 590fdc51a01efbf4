"""Two expressions that differ in one part are named by this part."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.change.diff import differing_part
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.model.plan.text import text_of
from tests.trees import tree
from tests.unit.gates.change import builders as b


@pytest.mark.parametrize(
    ("old", "new", "path", "was", "now"),
    [
        ("((a = 1) AND (v > 2))", "((a = 1) AND (v > 3))", "AND[1].>[1]", "2", "3"),
        ("((a = 1) AND (v > 2))", "((a = 2) AND (v > 3))", "", "((a = 1) AND (v > 2))", None),
        ("sum(v)", "max(v)", "", "sum(v)", "max(v)"),
        ("f(a, b)", "f(a)", "", "f(a, b)", "f(a)"),
        ("v AS w", "v AS x", "", "v AS w", "v AS x"),
        ("f(g(a))", "f(g(b))", "f[0].g[0]", "a", "b"),
    ],
)
def test_the_differing_part_of_two_expressions(
    old: str, new: str, path: str, was: str, now: str | None
) -> None:
    part = differing_part(tree(old), tree(new))

    assert (part.path, text_of(part.old), text_of(part.new)) == (path, was, now or new)


def test_a_finding_names_the_part_of_a_step() -> None:
    old, new = (
        b.with_steps(b.a_stateless(), ("filter", f"((k = 'a') AND (v > {n}))", 0)) for n in (1, 2)
    )

    [finding] = [one for one in judge_change(old, new, None) if one.rule == "step.filter"]

    assert finding.evidence.startswith("steps[0].filter at Filter[0].AND[1].>[1] in ")
