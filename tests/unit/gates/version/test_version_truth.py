"""
What the version gate says of every measured pair, beside what Spark did.

The checkpoints are real: each was written by the first Spark of its pair. The gate is asked with
the query's plan, as of a stream that we launched, and by the checkpoint alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.gates.version.judge import can_come_back, judge_version
from airflow_streaming.gates.version.matrix import Outcome, Seen, VersionQuestion
from airflow_streaming.gates.version_gate import load_matrix
from tests.unit.gates.version.measured import Measured, measured_checkpoints

SCHEMA_CHECK_OFF = {"spark.sql.streaming.stateStore.stateSchemaCheck": "false"}
MOST_REFUSED = 0.02
NEXT = "4.4"
GO = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)

KNOWS = pytest.mark.parametrize("has_plan", [True, False], ids=["with its plan", "alone"])


class Asked(NamedTuple):
    name: str
    said: GateReport
    truth: Outcome


def seen_pairs() -> Iterator[tuple[Measured, str, Seen]]:
    matrix = load_matrix()
    for measured in measured_checkpoints():
        for pair, seen in matrix.cells.get(measured.cell, {}).items():
            start, _, target = pair.partition(">")
            if start == measured.version:
                yield measured, target, seen


def ask(measured: Measured, target: str, *, has_plan: bool, conf: dict[str, str]) -> GateReport:
    return judge_version(
        VersionQuestion(from_version=measured.version, to_version=target, conf=conf),
        measured.checkpoint,
        measured.plan if has_plan else None,
        load_matrix(),
        schemas=measured.schemas,
    )


@cache
def ways_there(*, has_plan: bool) -> list[Asked]:
    return list(_ways_there(has_plan=has_plan))


@cache
def ways_back(*, has_plan: bool) -> list[Asked]:
    return list(_ways_back(has_plan=has_plan))


def _ways_there(*, has_plan: bool) -> Iterator[Asked]:
    for measured, target, seen in seen_pairs():
        name = f"{measured.name} to {target}"
        yield Asked(name, ask(measured, target, has_plan=has_plan, conf={}), seen.there)
        if seen.unchecked:
            said = ask(measured, target, has_plan=has_plan, conf=SCHEMA_CHECK_OFF)
            yield Asked(f"{name} without the check", said, seen.unchecked)


def _ways_back(*, has_plan: bool) -> Iterator[Asked]:
    for measured, target, seen in seen_pairs():
        outcome = seen.unchecked_back if seen.unchecked.is_fine else seen.back
        if seen.there is Outcome.FAILED and not seen.unchecked.is_fine:
            # There is nothing to come back from.
            continue
        if outcome:
            said = can_come_back(
                VersionQuestion(from_version=measured.version, to_version=target),
                measured.checkpoint,
                measured.plan if has_plan else None,
                load_matrix(),
                schemas=measured.schemas,
            )
            yield Asked(f"{measured.name} and back from {target}", said, outcome)


@KNOWS
def test_nothing_may_go_that_spark_did_not_go_on_with(has_plan: bool) -> None:
    asked = ways_there(has_plan=has_plan)

    assert [a.name for a in asked if a.said.decision in GO and not a.truth.is_fine] == []


@KNOWS
def test_hardly_anything_is_refused_that_spark_went_on_with(has_plan: bool) -> None:
    fine = [asked for asked in ways_there(has_plan=has_plan) if asked.truth.is_fine]
    refused = [asked for asked in fine if asked.said.decision is GateDecision.NOT_ALLOWED]

    assert len(refused) <= MOST_REFUSED * len(fine), [asked.name for asked in refused]


def test_with_its_plan_every_measured_pair_is_decided_but_those_of_a_source_of_the_users() -> None:
    undecided = {
        asked.name.partition("/")[0]
        for asked in ways_there(has_plan=True)
        if asked.said.decision is GateDecision.UNKNOWN
    }

    # What another Spark makes of the offsets of a source in Python only its author knows.
    assert undecided <= {"python_source"}


@KNOWS
def test_no_way_back_is_promised_that_was_not_there(has_plan: bool) -> None:
    asked = ways_back(has_plan=has_plan)

    assert [a.name for a in asked if a.said.decision in GO and not a.truth.is_fine] == []


@KNOWS
def test_hardly_any_way_back_is_denied_that_was_there(has_plan: bool) -> None:
    fine = [asked for asked in ways_back(has_plan=has_plan) if asked.truth.is_fine]
    denied = [asked for asked in fine if asked.said.decision is GateDecision.NOT_ALLOWED]

    assert len(denied) <= MOST_REFUSED * len(fine), [asked.name for asked in denied]


@KNOWS
def test_the_next_release_of_spark_is_unknown_until_it_was_measured(has_plan: bool) -> None:
    ways = [ask(measured, NEXT, has_plan=has_plan, conf={}) for measured in measured_checkpoints()]

    assert Counter(said.decision in GO for said in ways) == {False: len(ways)}
    assert Counter(said.decision for said in ways)[GateDecision.UNKNOWN] > 0.9 * len(ways)


def test_every_verdict_of_a_measurement_cites_it() -> None:
    for asked in ways_there(has_plan=True):
        cited = [f.evidence for f in asked.said.findings if f.rule.startswith("version.measured")]
        assert all("measured on" in evidence for evidence in cited), asked.name


def test_the_matrix_has_the_shapes_and_releases_that_it_should() -> None:
    matrix = load_matrix()
    shapes = {name.partition("/")[0] for name in matrix.cells}

    assert len(shapes) >= 12
    assert set(matrix.releases) == {"3.5", "4.0", "4.1", "4.2", "4.3"}
