"""
Any one thing of a recorded plan, changed at random, and what the change gate says of it.

``python -m tests.unit.gates.change.random_changes --changes 100000 --seed 1`` counts the answers. It
exits with 1 where a difference was let pass that no finding names. It knows none of the gate's rules.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_streaming.gates.change.diff import differences, is_explained
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.spark.plan import QueryPlan
from tests.system.edits.plans import Plans

DECIDED_ELSEWHERE = frozenset({"query", "checkpoint", "spark", "kind", "version", "writes"})
"""Which query it is, which Spark runs it, and where its function was seen to write; others ask that."""
DERIVED = frozenset({"real_path", "topics"})
"""The gate compares their origins: the path that the script names, and the step that computes the column ``topic``."""
LENIENT = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)


class Judged(NamedTuple):
    """
    One change and its answer.

    :param at: What was changed, as a path into the plan's record.
    :param where: Places at which the plans differ then.
    :param unnamed: Those of them that no finding names, where the answer lets the change pass.
    :param is_spelling: The plans do not differ, and what was changed may be spelled in other ways.
    """

    at: tuple[Any, ...]
    decision: GateDecision
    where: tuple[str, ...]
    unnamed: tuple[str, ...]
    is_spelling: bool

    @property
    def is_let_pass(self) -> bool:
        """Tell whether a change that nothing explains was let pass."""
        if self.decision not in LENIENT:
            return False
        return bool(self.unnamed) if self.where else not self.is_spelling


def recorded() -> list[QueryPlan]:
    """Return every plan that was recorded of the known and of the random edits."""
    plans = Plans.of("4.3.0")
    return [query for plan in plans._plans.values() for query in plan.queries]


def random_changes(number: int, chance: random.Random) -> Iterator[Judged]:
    """Yield as many judged changes."""
    plans, judged = recorded(), 0
    told = [plan.to_dict() for plan in plans]
    places = [[*places_in(one)] for one in told]
    while judged < number:
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
        yield judge(plans[which], new, at)


def judge(old: QueryPlan, new: QueryPlan, at: tuple[Any, ...]) -> Judged:
    """Ask the gate about one change."""
    found = judge_change(old, new, None)
    about = {one for finding in found for one in finding.about}
    where = tuple(at for at, *_ in differences(Pair(old=old, new=new)))
    return Judged(
        at=at,
        decision=worst(finding.severity for finding in found),
        where=where,
        unnamed=tuple(one for one in where if not is_explained(one, about)),
        is_spelling=not where and is_only_spelling(at),
    )


def places_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every leaf, every key of a mapping, and every element of a list that could go."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in DERIVED and (at or key not in DECIDED_ELSEWHERE):
                yield from places_in(inner, (*at, key))
    elif isinstance(value, list):
        yield (*at, "less")
        yield (*at, "more")
        for place, inner in enumerate(value):
            yield from places_in(inner, (*at, place))
    else:
        yield at


def changed(plan: dict[str, Any], at: tuple[Any, ...], chance: random.Random) -> dict[str, Any]:
    """Return a plan's record with another value at one place."""
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
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((1, 1000, -1))
    place = chance.randrange(len(value) + 1)
    return value[:place] + chance.choice("abcxyz019_@('") + value[place:]


def is_only_spelling(at: tuple[Any, ...]) -> bool:
    """Tell what has several spellings of one meaning, and what only tells of the old plan."""
    return "paths" in at or at[0] in ("capture", "refusal", "notes") or at[-1] in ("target", "type")


def main() -> int:
    """Count the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    begun, answers, passed = time.monotonic(), Counter[str](), 0
    for one in random_changes(args.changes, random.Random(args.seed)):
        answers[one.decision.value] += 1
        if one.is_let_pass:
            passed += 1
            print("LET PASS", one.at, one.decision.value, one.unnamed, flush=True)
    shown = ", ".join(f"{name} {answers[name]:,}" for name in GateDecision)
    seconds = time.monotonic() - begun
    print(
        f"{args.changes:,} changes of {len(recorded())} plans, seed {args.seed}: {shown}; ", end=""
    )
    print(f"{passed} let pass without a rule that names them; {seconds:.0f} s")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
