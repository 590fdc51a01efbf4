from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.plan.plan import (
    Column,
    OperatorPlan,
    OperatorSort,
    QueryPlan,
    ScriptPlan,
    SinkPlan,
    SourcePlan,
)
from benchmarks.checkpoint_tree import make_checkpoint
from tests.unit.cli.host import Run

COUNTS = QueryPlan(
    query="counts",
    spark="4.3.0",
    output_mode="update",
    sink=SinkPlan(sink="console", schema=(Column(name="k", type="bigint"),)),
    sources=(SourcePlan(source="rate", options={"rowspersecond": "5"}),),
    operators=(
        OperatorPlan(
            sort=OperatorSort.AGGREGATE,
            keys=(Column(name="k", type="bigint"),),
            key_expressions=("k",),
            values=("max(k)",),
            value_types=("bigint",),
            outputs=("k",),
        ),
    ),
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    make_checkpoint(folder, partitions=2, versions=2)
    return folder


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return save(tmp_path / "plan.json", COUNTS)


def save(path: Path, *queries: QueryPlan) -> Path:
    planned = ScriptPlan(application="/app/job.py", spark="4.3.0", queries=queries)
    path.write_bytes(planned.to_bytes())
    return path


def test_a_change_that_is_not_allowed_fails_the_pull_request(
    run: Run, checkpoint: Path, plan: Path, tmp_path: Path
) -> None:
    operator = replace(COUNTS.operators[0], values=("sum(k)",))
    new = save(tmp_path / "new.json", replace(COUNTS, operators=(operator,)))
    report = tmp_path / "report.md"

    code, out, _ = run(
        *("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(new)),
        *("--old-plan", str(plan), "--report", str(report), "--json"),
    )

    told = json.loads(out)
    assert (code, told["decision"]) == (1, "not_allowed")
    assert set(told["findings"][0]) >= {"rule", "severity", "evidence", "remedy"}
    assert any(found["rule"].startswith("aggregation.") for found in told["findings"])
    assert report.read_text().startswith("**Decision: not allowed**")


def test_what_cannot_be_known_has_a_code_of_its_own(run: Run, checkpoint: Path, plan: Path) -> None:
    code, out, _ = run("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))
    assert code in (1, 3)
    assert out.splitlines()[0] in ("NOT ALLOWED", "UNKNOWN: REHEARSE IT")
    code, out, _ = run(
        "gate", "version", "--checkpoint", str(checkpoint), "--from", "3.5", "--to", "9.9"
    )
    assert code == 3
    assert out.startswith("UNKNOWN: REHEARSE IT")


def test_a_query_is_asked_about_alone(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    both = save(tmp_path / "both.json", COUNTS, replace(COUNTS, query="other"))
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(both))
    code, _, err = run(*asked)
    assert code == 2
    assert "Give --query with one of: counts, other." in err
    _, out, _ = run(*asked, "--query", "counts", "--json")
    assert {found["query"] for found in json.loads(out)["findings"]} <= {"", "counts"}
    code, _, err = run(*asked, "--query", "neither")
    assert code == 2
    assert "Its queries are: counts, other." in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(("--script", "new.py"), "Which Spark plans the script?", id="no runtime"),
        pytest.param(("--plan", "/no/such/file"), "is not a plan", id="no such plan"),
        pytest.param(("--plan", "{plan}", "--to", "4.3"), "--from 3.5", id="from nowhere"),
    ],
)
def test_wrong_use_is_told_with_what_to_do(
    run: Run, checkpoint: Path, plan: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    given = [part.format(plan=plan) for part in arguments]
    code, out, err = run("gate", "change", "--checkpoint", str(checkpoint), *given, "--json")
    assert code == 2
    assert sentence in err
    assert sentence in json.loads(out)["error"]


def test_a_stream_of_the_home_needs_a_home_and_has_to_exist(run: Run) -> None:
    code, _, err = run("gate", "version", "--stream", "nobody", "--to", "4.3")
    assert code == 1
    assert "There is no stream 'nobody'" in err


def test_every_decision_has_an_exit_code() -> None:
    from airflow_streaming.cli.gate.verbs import CODES

    assert set(CODES) == set(GateDecision)


def test_what_comes_after_two_dashes_is_the_scripts(run: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "job.py")
    code, _, errors = run("plan", missing, "--runtime", "/nowhere", "--json", "--", "--input", "x")

    assert code != 0
    assert "unrecognized arguments" not in errors
    assert "job.py" in errors or "/nowhere" in errors


def test_the_printed_rules_are_the_page_of_the_manual(run: Run) -> None:
    code, printed, _ = run("gate", "rules")

    assert code == 0
    page = Path(__file__).parents[3] / "docs" / "gate-rules.md"
    assert printed == page.read_text(), "write it anew: airflow-streaming gate rules > docs/..."
