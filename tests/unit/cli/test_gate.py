from __future__ import annotations

import argparse
import hashlib
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.findings import report_of as gate_report_of
from airflow_streaming.gates.migration.migration_file import read_migration
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.home.home import open_home
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    ScriptPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.spark_jobs.runner import Program
from benchmarks.checkpoint_tree import make_checkpoint
from tests.system.edits.plans import CHECKPOINTS, Plans
from tests.trees import a_step, trees
from tests.unit.cli.host import Run
from tests.unit.supervision.builders import a_deployment

COUNTS = QueryPlan(
    query="counts",
    spark="4.3.0",
    output_mode="update",
    sink=SinkPlan(sink="console", schema=(Column(name="k", type="bigint"),)),
    sources=(SourcePlan(source="rate", options={"rowspersecond": "5"}),),
    operators=(
        OperatorPlan(
            sort=OperatorKind.AGGREGATE,
            keys=(Column(name="k", type="bigint"),),
            key_expressions=trees("k"),
            values=trees("max(k)"),
            value_types=("bigint",),
            output_names=(("k",),),
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
    operator = replace(COUNTS.operators[0], values=trees("sum(k)"))
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
    assert report.read_text().startswith("Decision: **not allowed**")


def test_what_cannot_be_known_has_a_code_of_its_own(run: Run, checkpoint: Path, plan: Path) -> None:
    code, out, _ = run("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))
    assert code in (1, 3)
    assert out.splitlines()[0] in ("Decision: NOT ALLOWED", "Decision: UNKNOWN: REHEARSE IT")
    code, out, _ = run(
        "gate", "version", "--checkpoint", str(checkpoint), "--from", "3.5", "--to", "9.9"
    )
    assert code == 3
    assert out.startswith("Decision: UNKNOWN: REHEARSE IT")


_NO_PLAN = "/no/such/file cannot be read: No such file or directory. Make a plan with `plan --json`"


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
        pytest.param(("--plan", "/no/such/file"), _NO_PLAN, id="no such plan"),
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
    assert "Stream 'nobody' does not exist" in err


def test_a_plan_that_a_script_came_to_no_end_of_says_nothing_of_its_deployment(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    failed = ScriptPlan(application="bad.py", spark="4.3.0", problem="SystemExit: 3.")
    new = tmp_path / "bad.json"
    new.write_bytes(failed.to_bytes())

    code, out, _ = run(
        "gate", "change", "--checkpoint", str(checkpoint), "--plan", str(new), "--json"
    )

    told = json.loads(out)
    assert (code, told["decision"], told["pattern"]) == (3, "unknown", None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["--to", "soon"], "'soon' is not a version of Spark; write it as", id="to"),
        pytest.param(["--from", "3", "--to", "4.3"], "'3' is not a version of Spark;", id="from"),
        pytest.param(
            ["--to", "4.3", "--conf", "nonsense"],
            "'nonsense' has no value; write nonsense=VALUE",
            id="no value",
        ),
        pytest.param(["--to", "4.3", "--conf", "=x"], "'=x' has no key;", id="no key"),
    ],
)
def test_an_argument_that_cannot_be_is_told_as_a_sentence(
    run: Run,
    checkpoint: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    with pytest.raises(SystemExit) as raised:
        run("gate", "version", "--checkpoint", str(checkpoint), *arguments, "--json")

    told = capsys.readouterr()
    assert raised.value.code == 2
    assert sentence in told.err
    assert told.err.startswith("usage: airflow-streaming gate version ")
    assert sentence in json.loads(told.out)["error"]


@pytest.mark.parametrize(
    ("runtime", "sentence"),
    [
        pytest.param("spark-9", "There is no runtime 'spark-9'. Give --runtime the", id="name"),
        pytest.param("/no/spark", "There is no folder /no/spark. Give --runtime the", id="folder"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "compare"])
def test_an_unknown_runtime_is_told_in_words_of_the_command_line(
    run: Run, tmp_path: Path, command: str, runtime: str, sentence: str
) -> None:
    script = tmp_path / "job.py"
    script.write_text("")
    more = [str(script)] if command == "plan" else ["--blue", "/b", "--green", "/g"]

    code, _, err = run(command, *more, "--runtime", runtime)

    assert code == 2
    assert sentence in err
    assert "AIRFLOW__STREAMING__RUNTIMES" in err


def test_a_script_is_looked_for_from_the_folder_one_is_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    code, _, err = run("plan", "job.py", "--runtime", "/no/spark")

    assert code == 2
    assert f"No script at {tmp_path}/job.py. Give its path, absolute or relative to the" in err


def test_every_decision_has_an_exit_code() -> None:
    from airflow_streaming.cli.spark.gate import CODES

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


def test_a_page_that_cannot_be_written_costs_the_exit_code_and_not_the_verdict(
    run: Run, checkpoint: Path, plan: Path, tmp_path: Path
) -> None:
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))

    code, out, err = run(*asked, "--old-plan", str(plan), "--report", "/dev/full", "--json")

    assert code == 2
    assert json.loads(out)["decision"]
    assert err.strip() == (
        "airflow-streaming: The report cannot be written to /dev/full: No space left on device."
    )

    for page in (tmp_path, tmp_path / "no" / "page.md"):
        with pytest.raises(SystemExit) as left:
            run(*asked, "--old-plan", str(plan), "--report", str(page))
        assert left.value.code == 2, "before the work whose report it is"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(("--conf", "spark.foo=1"), "tells nothing of spark.foo", id="unknown key"),
        pytest.param(("--runtime", "spark-4.3"), "--runtime would have no effect", id="runtime"),
        pytest.param(("--", "--input", "x"), "arguments after --", id="arguments"),
    ],
)
def test_what_would_be_ignored_is_refused(
    run: Run, checkpoint: Path, plan: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))
    code, _, err = run(*asked, "--old-plan", str(plan), *arguments)
    assert code == 2
    assert sentence in err


def test_a_setting_of_the_new_version_is_held_against_the_old_plan(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    key = "spark.sql.session.timeZone"
    plan = save(tmp_path / "plan.json", replace(COUNTS, conf={key: "UTC"}))
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))

    code, out, _ = run(*asked, "--old-plan", str(plan), "--conf", f"{key}=Asia/Tokyo", "--json")

    assert code == 1
    assert "conf.time_zone" in {found["rule"] for found in json.loads(out)["findings"]}


def test_an_old_plan_that_came_to_no_end_is_no_whole_one(
    run: Run, checkpoint: Path, plan: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    broken = ScriptPlan(
        application="/app/job.py", spark="4.3.0", queries=(COUNTS,), problem="NameError: x."
    )
    old.write_bytes(broken.to_bytes())
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))

    _, out, _ = run(*asked, "--old-plan", str(old), "--json")

    assert "script.old_problem" in {found["rule"] for found in json.loads(out)["findings"]}


def test_the_spark_that_wrote_the_checkpoint_counts_without_the_one_that_reads_it(
    run: Run, checkpoint: Path, plan: Path
) -> None:
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(plan))
    _, out, _ = run(*asked, "--old-plan", str(plan), "--from", "4.1", "--json")
    assert any(found["rule"].startswith("version.") for found in json.loads(out)["findings"])


def test_a_version_is_asked_about_for_one_of_several_queries(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    both = save(tmp_path / "both.json", COUNTS, replace(COUNTS, query="other"))
    asked = ("gate", "version", "--checkpoint", str(checkpoint), "--from", "3.5", "--to", "4.3")
    code, _, err = run(*asked, "--plan", str(both))
    assert (code, "Give --query with one of: counts, other." in err) == (2, True)
    _, out, _ = run(*asked, "--plan", str(both), "--query", "other", "--json")
    assert {found["query"] for found in json.loads(out)["findings"]} == {"other"}


def test_secrets_of_a_plan_from_elsewhere_are_shown_nowhere(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    def leaking(secret: str) -> QueryPlan:
        return replace(
            COUNTS,
            sources=(
                SourcePlan(source="x", options={"sfpassword": secret, "y": f"a://u:{secret}@h"}),
            ),
            sink=SinkPlan(sink="table", target=f"jdbc://u:{secret}@host/{secret[-1]}"),
            steps=(a_step("filter", f"(api_token = '{secret}')"),),
        )

    old = save(tmp_path / "old.json", leaking("hunter2"))
    new = save(tmp_path / "new.json", leaking("hunter3"))
    page = tmp_path / "page.md"
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(new))

    for shown in ((), ("--json",)):
        _, out, err = run(*asked, "--old-plan", str(old), "--report", str(page), *shown)
        assert "hunter" not in out + err + page.read_text()
        # The literal that changes is seen all the same.
        assert "step." in out


def test_what_is_no_plan_is_said_in_whole_sentences(run: Run, checkpoint: Path) -> None:
    _, _, err = run("gate", "change", "--checkpoint", str(checkpoint), "--plan", "/dev/null")
    assert ".." not in err


@pytest.mark.parametrize(
    ("queries", "code", "told"),
    [
        pytest.param((COUNTS,), 0, "on Spark 4.3.0: 1 query", id="one"),
        pytest.param((), 1, "The script starts no query.", id="none"),
    ],
)
def test_a_plan_says_how_many_queries_the_script_starts(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    queries: tuple[QueryPlan, ...],
    code: int,
    told: str,
) -> None:
    planned = ScriptPlan(application="/app/job.py", spark="4.3.0", queries=queries)
    monkeypatch.setattr("airflow_streaming.cli.spark.gate.planned_script", lambda *_: planned)
    found, out, _ = run("plan", "job.py", "--runtime", "spark-4.3")
    assert (found, told in out) == (code, True)


def test_a_state_file_that_spark_cannot_load_is_never_allowed(run: Run, checkpoint: Path) -> None:
    newest = max(checkpoint.rglob("*.delta"), key=lambda file: int(file.stem))
    newest.write_bytes(newest.read_bytes()[:10])

    asked = ("--checkpoint", str(checkpoint), "--from", "4.3", "--to", "4.3", "--json")
    code, out, _ = run("gate", "version", *asked)

    assert code == 1
    assert "version.damaged" in {found["rule"] for found in json.loads(out)["findings"]}


def test_a_pipe_is_no_plan_and_is_not_waited_for(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")

    code, _, err = run(
        "gate", "change", "--checkpoint", str(checkpoint), "--plan", str(tmp_path / "pipe")
    )

    assert code == 2
    assert str(tmp_path / "pipe") in err


def test_a_file_that_is_too_large_for_a_plan_is_not_read(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    with (tmp_path / "plan.json").open("wb") as file:
        file.truncate(1 << 40)

    plan = str(tmp_path / "plan.json")
    code, _, err = run("gate", "change", "--checkpoint", str(checkpoint), "--plan", plan)

    assert code == 2
    assert plan in err


@pytest.mark.parametrize(
    ("changes", "text", "arguments", "same"),
    [
        pytest.param({}, "print(1)", ["--of", "orders"], True, id="the script that runs"),
        pytest.param({}, "print(2)", ["--of", "orders"], False, id="another script"),
        pytest.param({}, "print(1)", ["--of", "sales"], False, id="other arguments"),
        pytest.param({"jars": ("/a.jar",)}, "print(1)", ["--of", "orders"], False, id="a jar"),
    ],
)
def test_the_script_that_a_stream_runs_is_known_by_content_and_arguments(
    tmp_path: Path, changes: dict[str, Any], text: str, arguments: list[str], same: bool
) -> None:
    from airflow_streaming.cli.spark.gate import _is_deployed

    source, uri = b"print(1)", str(tmp_path / "home")
    fields = dict.fromkeys(("py_files", "jars", "packages", "files"), ())
    home = open_home(uri).stream("orders")
    deployment = a_deployment(
        **{**fields, **changes},
        number=1,
        application_args=("--of", "{stream}"),
        application_sha256=hashlib.sha256(source).hexdigest(),
    )
    home.create_deployment(deployment, source)
    script = tmp_path / "job.py"
    script.write_text(text)
    given = argparse.Namespace(
        script=str(script), old_script=None, old_plan=None, arguments=arguments, conf={}, home=uri
    )

    assert _is_deployed(given, home) is same
    assert not _is_deployed(given, None)


@pytest.fixture
def deployed(tmp_path: Path) -> str:
    """The home of a stream whose deployment ships a file of each kind; the script beside it is new."""
    uri = str(tmp_path / "home")
    shipped = {}
    for what, name in {"py_files": "lib.py", "jars": "a.jar", "files": "table.csv"}.items():
        (tmp_path / name).touch()
        shipped[what] = (str(tmp_path / name),)
    (tmp_path / "new.py").write_text("print(2)")
    deployment = a_deployment(
        **shipped,
        number=1,
        application_args=("--of", "{stream}", "--to", "{output}"),
        application_sha256=hashlib.sha256(b"print(1)").hexdigest(),
        conf={"spark.x": "1", "spark.y": "2", "spark.hidden.password": REDACTED},
    )
    open_home(uri).stream("orders").create_deployment(deployment, b"print(1)")
    return uri


class Known(SpecError):
    """It is known what was run."""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """What each command would have run."""
    found: list[Program] = []

    def plan(program: Program, *_: object, **__: object) -> None:
        found.append(program)
        raise Known("Enough.")

    def rehearse(_: object, program: Program, *__: object, **___: object) -> None:
        plan(program)

    def compare(_: object, old: Any, new: Any, **__: object) -> None:
        found.append(old.program)
        plan(new.program)

    runtime = "airflow_streaming.cli.spark.runtime.runtime_named"
    monkeypatch.setattr("airflow_streaming.cli.spark.gate.plan_script", plan)
    monkeypatch.setattr("airflow_streaming.cli.spark.gate.runtime_named", lambda _: None)
    monkeypatch.setattr("airflow_streaming.spark_jobs.rehearsal.rehearse", rehearse)
    monkeypatch.setattr("airflow_streaming.spark_jobs.rehearsal_compare.compare_versions", compare)
    monkeypatch.setattr(runtime, lambda _: None)
    # The stream has no checkpoint to be copied.
    monkeypatch.setattr("airflow_streaming.cli.spark.rehearse._subject", lambda *_: None)
    return found


OUTPUT = {"gate": "/data/streams/orders/output/000003", "rehearse": SCRATCH_OUTPUT}
AS_DEPLOYED = {"spark.x": "1", "spark.y": "2"}


@pytest.mark.parametrize("command", [("gate", "change"), ("rehearse",)], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("given", "arguments", "conf"),
    [
        ([], ("--of", "orders", "--to", "{place}"), AS_DEPLOYED),
        (
            ["--conf", "spark.y=3"],
            ("--of", "orders", "--to", "{place}"),
            {**AS_DEPLOYED, "spark.y": "3"},
        ),
        (["--", "--of", "sales"], ("--of", "sales"), AS_DEPLOYED),
    ],
    ids=["as it is", "conf", "arguments"],
)
def test_a_script_of_a_stream_runs_as_its_deployment_does(
    run: Run,
    deployed: str,
    programs: list[Program],
    tmp_path: Path,
    command: tuple[str, ...],
    given: list[str],
    arguments: tuple[str, ...],
    conf: dict[str, str],
) -> None:
    script = tmp_path / "new.py"
    asked = (*command, "--stream", "orders", "--script", str(script), "--runtime", "r", *given)

    run("--home", deployed, *asked)

    [program] = programs
    assert program.source == b"print(2)"
    assert program.arguments == tuple(a.format(place=OUTPUT[command[0]]) for a in arguments)
    assert program.conf == conf
    assert program.left_out == ("spark.hidden.password",)
    assert program.py_files == (str(tmp_path / "lib.py"),)
    assert program.jars == (str(tmp_path / "a.jar"),)
    assert program.packages == ("org.example:a:1.0",)
    assert program.files == (str(tmp_path / "table.csv"),)


@pytest.mark.parametrize("old", [(), ("--old-script", "{script}")], ids=["deployed", "given"])
def test_both_versions_of_a_comparison_run_as_deployed(
    run: Run, deployed: str, programs: list[Program], tmp_path: Path, old: tuple[str, ...]
) -> None:
    script = str(tmp_path / "new.py")
    told = [part.format(script=script) for part in old]

    run(
        *("--home", deployed, "rehearse", "--stream", "orders", "--script", script),
        *("--runtime", "r", "--compare", *told),
    )

    assert len(programs) == 2
    assert {program.jars for program in programs} == {(str(tmp_path / "a.jar"),)}
    assert {program.arguments[-1] for program in programs} == {SCRATCH_OUTPUT}


def test_a_file_of_the_deployment_that_this_host_lacks_is_named(
    run: Run, deployed: str, programs: list[Program], tmp_path: Path
) -> None:
    (tmp_path / "a.jar").unlink()
    script = str(tmp_path / "new.py")
    asked = ("--stream", "orders", "--script", script, "--runtime", "r")

    code, _, err = run("--home", deployed, "gate", "change", *asked)

    assert (code, programs) == (2, [])
    assert f"Deployment 1 of stream 'orders' ships {tmp_path}/a.jar" in err


def test_a_script_that_fails_before_its_first_query_removes_none(
    run: Run, checkpoint: Path, plan: Path, tmp_path: Path
) -> None:
    failed = ScriptPlan(application="bad.py", spark="4.3.0", problem="ClassNotFoundException: x.")
    new = tmp_path / "bad.json"
    new.write_bytes(failed.to_bytes())
    asked = ("gate", "change", "--checkpoint", str(checkpoint), "--plan", str(new))

    code, out, _ = run(*asked, "--old-plan", str(plan), "--json")

    assert [found["rule"] for found in json.loads(out)["findings"]] == ["script.problem"]
    assert code == 3


class Played:
    """Plan mode and rehearsal without a Spark; hold what each was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, rehearsal: GateDecision) -> None:
        self.sparks: list[Any] = []
        self.arguments: list[tuple[str, ...]] = []
        self._rehearsal = rehearsal
        gate = "airflow_streaming.cli.spark.gate"
        patch.setattr(f"{gate}.plan_script", self._plan)
        patch.setattr(f"{gate}.rehearse", self._rehearse)
        patch.setattr(f"{gate}.runtime_named", lambda _: None)
        unknown = GateFinding(
            rule="plan.unexplained", severity=GateDecision.UNKNOWN, message="It differs."
        )
        patch.setattr(f"{gate}.gate_change", lambda *_, **__: gate_report_of([unknown]))

    def _plan(self, program: Any, *_: Any, spark: Any, **__: Any) -> ScriptPlan:
        self.sparks.append(spark)
        self.arguments.append(tuple(program.arguments))
        return ScriptPlan(application="new.py", spark="4.3.0", queries=(COUNTS,))

    def _rehearse(self, _: Any, program: Any, *__: Any, spark: Any, **___: Any) -> Rehearsed:
        self.sparks.append(spark)
        self.arguments.append(tuple(program.arguments))
        finding = GateFinding(
            rule="rehearsal.query_failed", severity=self._rehearsal, message="So it went."
        )
        return Rehearsed(
            application="new.py",
            spark="4.3.0",
            subject="a copy",
            seconds=1.0,
            findings=() if self._rehearsal is GateDecision.ALLOWED else (finding,),
        )


@pytest.mark.parametrize(
    ("rehearsal", "code"), [(GateDecision.ALLOWED, 0), (GateDecision.NOT_ALLOWED, 1)]
)
def test_a_rehearsal_in_the_same_spark_decides_what_the_gate_does_not_know(
    run: Run,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rehearsal: GateDecision,
    code: int,
) -> None:
    played = Played(monkeypatch, rehearsal)
    (tmp_path / "new.py").write_text("print(1)")
    command = ["gate", "change", "--json", "--checkpoint", str(checkpoint)]
    given = ["--script", str(tmp_path / "new.py"), "--runtime", "r"]

    alone, shown, _ = run(*command, *given)
    both, shown_too, _ = run(*command, *given, "--rehearse")

    assert (alone, both) == (3, code)
    told = json.loads(shown_too)
    assert (told["decision"], told["rehearsal"]["decision"]) == (rehearsal.value,) * 2
    assert played.sparks[1] is played.sparks[2]
    assert "rehearsal" not in json.loads(shown)


def test_a_rehearsal_of_a_deployed_stream_does_not_know_the_live_output(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(monkeypatch, GateDecision.ALLOWED)
    (tmp_path / "new.py").write_text("print(2)")
    uri = str(tmp_path / "home")
    deployment = a_deployment(
        number=1,
        **dict.fromkeys(("py_files", "jars", "packages", "files"), ()),
        application_args=("{output}",),
        application_sha256=hashlib.sha256(b"print(1)").hexdigest(),
        checkpoint=str(tmp_path / "checkpoints"),
    )
    (tmp_path / "checkpoints" / "counts").mkdir(parents=True)
    make_checkpoint(tmp_path / "checkpoints" / "counts", partitions=2, versions=2)
    open_home(uri).stream("orders").create_deployment(deployment, b"print(1)")
    script = ["--script", str(tmp_path / "new.py"), "--runtime", "r"]

    run("--home", uri, "gate", "change", "--stream", "orders", *script, "--rehearse", "always")

    planned, rehearsed = played.arguments
    assert planned == tuple(deployment.arguments(uri))
    assert rehearsed == (SCRATCH_OUTPUT,)


def test_a_plan_cannot_be_rehearsed(run: Run, checkpoint: Path, plan: Path) -> None:
    subject = ["gate", "change", "--checkpoint", str(checkpoint)]
    code, _, error = run(*subject, "--plan", str(plan), "--rehearse")
    assert code == 2
    assert "Give --script and --runtime with --rehearse" in error


@pytest.fixture
def totals(tmp_path: Path) -> Path:
    """Return the checkpoint of recorded totals, with the plans of two versions beside it."""
    with tarfile.open(CHECKPOINTS) as archive:
        members = [one for one in archive if one.name.startswith("totals/checkpoint")]
        archive.extractall(tmp_path, members, filter="data")
    plans = Plans.of("4.3.0")
    for name, edit in (
        ("old", "totals"),
        ("new", "totals.total_added"),
        ("mode", "totals.update_to_complete"),
    ):
        (tmp_path / "totals" / f"{name}.json").write_bytes(plans[edit].to_bytes())
    return tmp_path / "totals"


def gate_of_totals(run: Run, totals: Path, new: str, file: Path) -> tuple[int, str, str]:
    return run(
        *("gate", "change", "--checkpoint", str(totals / "checkpoint"), "--query", "totals"),
        *("--plan", str(totals / f"{new}.json"), "--old-plan", str(totals / "old.json")),
        *("--write-migration", str(file)),
    )


def test_the_migration_that_lifts_a_refusal_is_written(
    run: Run, totals: Path, tmp_path: Path
) -> None:
    file = tmp_path / "totals.toml"

    code, out, _ = gate_of_totals(run, totals, "new", file)

    assert code == 1
    assert "not allowed as it is; can be migrated" in out
    migration = read_migration(file.read_bytes(), str(file))
    assert [column.name for column in migration.operators[0].value] == ["sum", "count", "min"]


def test_a_migration_does_not_replace_a_file(run: Run, totals: Path, tmp_path: Path) -> None:
    file = tmp_path / "totals.toml"
    file.write_text("mine")

    code, _, err = gate_of_totals(run, totals, "new", file)

    assert code == 2
    assert "Name a new file" in err
    assert file.read_text() == "mine"


def test_a_refusal_without_a_migration_says_why(run: Run, totals: Path, tmp_path: Path) -> None:
    file = tmp_path / "totals.toml"

    code, out, err = gate_of_totals(run, totals, "mode", file)

    assert code == 1
    assert "a migration of state changes no written rows" in out
    assert "No migration was written" in err
    assert not file.exists()
