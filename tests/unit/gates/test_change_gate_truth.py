"""
The gate and the truth: edits that were tried on a real Spark, predicted from what was recorded.

``tests/system/edits`` tried them: the old code's checkpoint went on with the new code, beside the
new code run from the first batch on. Some were written down by hand, with what a careful colleague
would say of them; the others were made at random, by generators that know none of the rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.migration.migration_file import migration_toml, read_migration
from airflow_streaming.gates.migration.migrations import migrations_in
from airflow_streaming.model.jobs.migration import StateMigration
from tests.system.edits.catalogue import EDITS
from tests.system.edits.edit import Truth
from tests.system.edits.migrated import declared
from tests.system.edits.predicted import FINE, REFUSING, Prediction, predictions, unpacked
from tests.system.edits.recorded import Truths
from tests.system.edits.rehearsed import held_back, rehearsals

SPARK = "4.3.0"
STRICTER = {
    "frames.frames_in_another_way": "Code that does the same in another way is another code.",
}
"""Edits that the gate refuses although Spark gets them right, and why it cannot know."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edits")
    unpacked(folder)
    return folder


@pytest.fixture(scope="module")
def launched_by_us(checkpoints: Path) -> list[Prediction]:
    return list(predictions(checkpoints, SPARK, knows_past=True))


@pytest.fixture(scope="module")
def never_launched(checkpoints: Path) -> list[Prediction]:
    return list(predictions(checkpoints, SPARK, knows_past=False))


@pytest.fixture(scope="module", params=[True, False], ids=["with the old plan", "without"])
def random_edits(request: pytest.FixtureRequest, checkpoints: Path) -> list[Prediction]:
    edits = Truths.of(SPARK).random_edits()
    return list(predictions(checkpoints, SPARK, knows_past=request.param, edits=edits))


@pytest.fixture(scope="module")
def tried() -> dict[str, Truth]:
    truths = Truths.of(SPARK)
    return {edit.name: truths[edit.name].truth for edit in EDITS if edit.name in truths}


def test_the_edits_that_were_tried_show_both_sides(tried: dict[str, Truth]) -> None:
    sides = Counter(truth in FINE for truth in tried.values())

    assert sides[True] >= 30
    assert sides[False] >= 30


def test_an_unchanged_script_gave_the_same_rows(tried: dict[str, Truth]) -> None:
    unchanged = {edit.name for edit in EDITS if edit.theme == "nothing"} & tried.keys()

    assert {tried[name] for name in unchanged} == {Truth.SAME}


def test_every_edit_has_a_plan(launched_by_us: list[Prediction]) -> None:
    assert {one.edit.name for one in launched_by_us} == {edit.name for edit in EDITS}


def test_nothing_that_spark_gets_wrong_is_let_through(launched_by_us: list[Prediction]) -> None:
    assert shown(one for one in launched_by_us if one.is_too_lenient) == []


def test_nothing_that_spark_gets_wrong_is_let_through_without_the_old_plans(
    never_launched: list[Prediction],
) -> None:
    assert shown(one for one in never_launched if one.is_too_lenient) == []


def test_the_gate_says_what_a_careful_colleague_would_say(
    launched_by_us: list[Prediction],
) -> None:
    other = [one for one in launched_by_us if one.report.decision is not one.edit.says]

    assert shown(one for one in other if one.edit.name not in STRICTER) == []
    assert {one.edit.name for one in other if one.report.decision in REFUSING} == {*STRICTER}


def test_what_is_not_simply_allowed_has_a_finding_with_a_rule_and_its_evidence(
    launched_by_us: list[Prediction],
) -> None:
    silent = (
        one
        for one in launched_by_us
        if one.report.decision is not GateDecision.ALLOWED
        and not all(f.rule and f.message and f.evidence for f in one.report.findings)
    )

    assert shown(silent) == []


def test_every_edit_made_at_random_was_tried_and_planned(random_edits: list[Prediction]) -> None:
    assert {one.edit.name for one in random_edits} == {
        edit.name for edit in Truths.of(SPARK).random_edits()
    }
    assert len(random_edits) + len(EDITS) >= 500
    assert Counter(one.tried.truth in FINE for one in random_edits if one.tried)[False] >= 100


def test_no_edit_made_at_random_is_let_through_that_spark_gets_wrong(
    random_edits: list[Prediction],
) -> None:
    assert shown(one for one in random_edits if one.is_too_lenient) == []


def test_the_input_of_a_rehearsal_is_newer_than_what_the_checkpoints_have_seen(
    checkpoints: Path,
) -> None:
    for run in checkpoints.iterdir():
        held_back(run)
        arrived = min(path.stat().st_mtime for path in run.glob("input/*/*"))
        logs = [path.read_text() for path in run.glob("checkpoint/**/sources/*/*")]
        seen = re.findall(r'"timestamp":([0-9]+)', "".join(logs))
        assert seen, run
        assert arrived > max(map(int, seen)) / 1000, run


def test_a_rehearsal_decides_most_of_the_unknown_and_lets_no_wrong_one_through() -> None:
    truths, found = Truths.of(SPARK), rehearsals()
    lenient = [name for name, one in found.items() if one.is_too_lenient(truths[name].truth)]

    assert lenient == []
    assert sum(one.is_decided for one in found.values()) > len(found) / 2


def shown(predicted: Iterator[Prediction]) -> list[str]:
    """Return predictions as sentences, so that a failure can be read."""
    return [one.shown for one in predicted]


def test_refused_edits_of_state_have_a_migration(launched_by_us: list[Prediction]) -> None:
    refused = [one for one in launched_by_us if one.report.decision is GateDecision.NOT_ALLOWED]
    planned = [one for one in refused if migrations_in(one.report)]

    assert len(planned) >= 40
    for one in planned:
        (migration,) = migrations_in(one.report)
        explained = [f for f in one.report.findings if f.migration]
        assert {f.migration for f in explained} <= {migration.consequences}, one.shown
        assert not any(f.no_migration for f in one.report.findings), one.shown
        if any(migration.undeclared()):
            migration = declared(migration)
        assert read_migration(migration_toml(migration).encode(), "m.toml") == migration


def test_no_migration_is_planned_for_what_needs_none(launched_by_us: list[Prediction]) -> None:
    others = [one for one in launched_by_us if one.report.decision is not GateDecision.NOT_ALLOWED]

    assert [one.shown for one in others if migrations_in(one.report)] == []


def test_a_wrong_migration_of_an_edit_is_refused(launched_by_us: list[Prediction]) -> None:
    wrong = [
        (one.edit.name, text)
        for one in launched_by_us
        for migration in migrations_in(one.report)
        for text in spoiled(migration)
    ]

    assert len(wrong) >= 150
    assert [name for name, text in wrong if is_read(text)] == []


def is_read(text: str) -> bool:
    try:
        read_migration(text.encode(), "m.toml")
    except SpecError:
        return False
    return True


def spoiled(migration: StateMigration) -> Iterator[str]:
    """Yield the file of a migration with exchanged columns, wrong initial values or another operator map."""
    lines = migration_toml(migration).splitlines()
    for place, line in enumerate(lines):
        field, _, value = line.partition(" = ")
        other = {
            "source": str(int(value) + 1) if value.isdecimal() else "0",
            "operator": str(int(value) + 1) if value.isdecimal() else "0",
            "carry": '"empty"' if value != '"empty"' else '"whole"',
            "initial": '"no literal"',
            "dropped": "[7]",
            "move": '"rename"',
            "merge": '"max"',
            "type": '"binary"',
        }.get(field)
        if other is not None:
            yield "\n".join([*lines[:place], f"{field} = {other}", *lines[place + 1 :]])
