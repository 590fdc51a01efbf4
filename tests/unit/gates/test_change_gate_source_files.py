"""A path of a file source that lists the same files as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.gates.change.judge import judge_script
from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan
from tests.unit.gates.change import builders as b


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    for name in ("1.json", "2.json"):
        (made / name).touch()
    return made


def reading(*paths: object) -> QueryPlan:
    return b.with_source(b.a_stateless(), paths=tuple(map(str, paths)))


def rules(old: QueryPlan, new: QueryPlan) -> set[str]:
    script = ScriptPlan(application="job.py", spark="4.3.0", queries=(new,))
    return {finding.rule for finding in gate_change({}, [old], script).findings}


@pytest.mark.parametrize("pattern", ["*", "*.json", "?.json", "[12].json"])
def test_a_pattern_of_all_files_of_the_folder_is_a_consequence(folder: Path, pattern: str) -> None:
    # Hadoop reads brackets in its own way, so these are not taken for the same.
    expected = "source.paths" if "[" in pattern else "source.same_files"

    assert rules(reading(folder), reading(folder / pattern)) == {expected}
    assert rules(reading(f"file:{folder}/{pattern}"), reading(folder)) == {expected}


def test_the_answer_names_the_path_and_what_to_check() -> None:
    paths = (("/in",), ("/in/*",))
    found = judge_script([reading("/in")], [reading("/in/*")], {}, same_files=frozenset({paths}))

    assert found.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE
    (finding,) = found.findings
    assert (finding.about, bool(finding.remedy)) == (("sources[0].paths",), True)


@pytest.mark.parametrize(
    ("made", "pattern"),
    [
        pytest.param("3.csv", "*.json", id="a file that only the folder lists"),
        pytest.param(".4.json", "*", id="a file that only the pattern lists"),
        pytest.param("day=1/5.json", "*", id="a folder below"),
        pytest.param("_spark_metadata/0", "*.json", id="the log of a file sink"),
    ],
)
def test_what_the_paths_list_differently_is_another_path(
    folder: Path, made: str, pattern: str
) -> None:
    (folder / made).parent.mkdir(exist_ok=True)
    (folder / made).touch()

    assert rules(reading(folder), reading(folder / pattern)) == {"source.paths"}


def test_what_cannot_be_listed_or_is_empty_is_another_path(folder: Path, tmp_path: Path) -> None:
    assert rules(reading(tmp_path / "none"), reading(tmp_path / "none/*")) == {"source.paths"}
    assert rules(reading(folder), reading(folder, folder)) == {"source.paths"}
    for path in folder.iterdir():
        path.unlink()
    assert rules(reading(folder), reading(folder / "*")) == {"source.paths"}
