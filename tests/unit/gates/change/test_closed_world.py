"""Nothing is allowed that no rule explains: any one thing of a recorded plan is changed at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.gates.change.closed_world import differences, is_explained
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.setting_classes import all_classes, meaning_of
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.spark.plan import OPAQUE, QueryPlan
from tests.system.edits.plans import Plans
from tests.unit.gates.change import builders as b

CHANGES = 700
DECIDED_ELSEWHERE = frozenset({"query", "checkpoint", "spark", "kind", "version"})
"""Which query it is and which Spark runs it; ``judge_script`` and the version gate ask that."""
LENIENT = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)


def recorded() -> list[QueryPlan]:
    plans = Plans.of("4.3.0")
    return [query for plan in plans._plans.values() for query in plan.queries]


def places_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every leaf, every key of a mapping, and every element of a list that could be left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if at or key not in DECIDED_ELSEWHERE:
                yield from places_in(inner, (*at, key))
    elif isinstance(value, list):
        yield (*at, "less")
        yield (*at, "more")
        for place, inner in enumerate(value):
            yield from places_in(inner, (*at, place))
    else:
        yield at


def changed(plan: dict[str, Any], at: tuple[Any, ...], chance: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(plan))
    owner: Any = made
    for part in at[:-1]:
        owner = owner[part]
    last = at[-1]
    if last == "less":
        owner[:] = owner[1:]
    elif last == "more":
        owner.append(owner[chance.randrange(len(owner))] if owner else "more")
    else:
        owner[last] = other_than(owner[last], chance)
    return made


def other_than(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((1, 1000, -1))
    place = chance.randrange(len(value) + 1)
    return value[:place] + chance.choice("abcxyz019_@('") + value[place:]


def differing(old: QueryPlan, new: QueryPlan) -> list[str]:
    return [at for at, *_ in differences(Pair(old=old, new=new))]


@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_one_thing_is_allowed_without_a_rule_that_names_it(seed: int) -> None:
    chance, plans, judged = random.Random(seed), recorded(), 0
    told = [plan.to_dict() for plan in plans]
    places = [[*places_in(one)] for one in told]
    while judged < CHANGES:
        which = chance.randrange(len(plans))
        at = chance.choice(places[which])
        try:
            made = changed(told[which], at, chance)
            new = QueryPlan.from_dict(made)
        except Exception:  # noqa: BLE001, S112 - it is no plan any more
            continue
        if made == told[which]:
            continue
        judged += 1
        where = differing(plans[which], new)
        found = judge_change(plans[which], new, None)
        decision = worst(finding.severity for finding in found)
        if decision in LENIENT and where:
            about = {one for finding in found for one in finding.about}
            assert all(is_explained(one, about) for one in where), (at, where, decision)
        if decision in LENIENT and not where:
            assert is_only_spelling(at), at


def is_only_spelling(at: tuple[Any, ...]) -> bool:
    """What has several spellings of one meaning, and what only tells of the old plan."""
    return "paths" in at or at[0] in ("capture", "refusal", "notes") or at[-1] in ("target", "type")


def test_a_difference_that_no_rule_looks_for_is_shown_and_makes_the_answer_unknown() -> None:
    old = b.an_aggregation()
    new = b.with_operator(old, ends=False)

    (finding,) = judge_change(old, new, None)

    assert finding.rule == "plan.unexplained"
    assert finding.severity is GateDecision.UNKNOWN
    assert (finding.about, finding.old, finding.new) == (("operators[0].ends",), "True", "False")


def test_what_could_not_be_looked_into_is_the_same_in_the_same_script_alone() -> None:
    plan = b.with_operator(b.an_aggregation(), values=(f"sum(f(v)['func={OPAQUE} Broadcast'])",))

    assert b.decision_of(plan, plan) is GateDecision.UNKNOWN
    assert b.decision_of(plan, plan, same_code=True) is GateDecision.ALLOWED


def test_a_projection_that_feeds_another_step_before_state_is_not_taken_for_unused() -> None:
    old = b.with_steps(
        b.an_aggregation(), ("map", "f(w)", 1), ("project", "k, v, ts, (v + 1) AS w", 1)
    )
    new = b.with_steps(
        b.an_aggregation(), ("map", "f(w)", 1), ("project", "k, v, ts, (v + 2) AS w", 1)
    )

    assert b.decision_of(old, new) is GateDecision.UNKNOWN


def test_a_setting_is_classified_by_its_longest_known_beginning() -> None:
    values, nothing = meaning_of("spark.sql.legacy.new"), meaning_of("spark.sql.ui.new")

    assert values is not None
    assert values.decides_values
    assert nothing is not None
    assert not nothing.decides_values
    assert meaning_of("spark.sql.unheard") is None
    assert all(known.source for known in all_classes().values())


def test_plans_of_two_sparks_are_unknown_where_their_nodes_differ_unless_the_script_is_the_same() -> (
    None
):
    old = replace(b.a_stateless(), spark="4.1.0")
    new = replace(b.a_stateless(), nodes=(b.a_node(),))

    assert b.decision_of(old, new) is GateDecision.UNKNOWN
    assert b.decision_of(old, new, same_code=True) is GateDecision.ALLOWED
