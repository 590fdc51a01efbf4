"""The comparison around its Spark, which is a shell script here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.cli.main import main
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    Bound,
    CompareReport,
    CompareResult,
    GroupDiffers,
    SideFound,
)
from airflow_streaming.spark_jobs.compare import Outputs, compare, compare_all
from tests.unit.supervision.builders import NOW, a_deployment

TERMS: Final = CompareTerms(stream="orders")
SAME: Final = CompareReport(
    stream="orders",
    result=CompareResult.SAME,
    reason="4 rows are the same.",
    at=NOW,
    blue=SideFound(uri="/blue", rows=4),
    green=SideFound(uri="/green", rows=4),
)
WRONG: Final = replace(
    SAME,
    result=CompareResult.DIFFERS,
    reason="1 of 2 buckets and keys differ.",
    differences=(GroupDiffers(bucket="", key={"k": "a"}, what="rows", blue="3", green="2"),),
)


def reporting(*reports: CompareReport, then: str = "") -> str:
    """A Spark that reports something and goes on; its working folder is the scratch."""
    text = "".join(report.to_bytes().decode() for report in reports)
    return f"cat > reports.jsonl <<'END'\n{text}END\n{then}\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def runtime(tmp_path: Path) -> Callable[[str], Runtime]:
    def runtime(submit: str) -> Runtime:
        program = tmp_path / "spark" / "bin" / "spark-submit"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{submit}")
        program.chmod(0o755)
        return Runtime(
            name="spark-4.3",
            spark_home=tmp_path / "spark",
            python=Path("/usr/bin/python3"),
            java_home=None,
            spark_version="4.3.0",
        )

    return runtime


Runtimes = Callable[[str], Runtime]


def test_what_spark_reports_is_what_was_compared(runtime: Runtimes, scratch: Path) -> None:
    seen: list[ProgressNow] = []

    found = compare(
        *(TERMS, a_deployment(), a_deployment(output="/green"), runtime(reporting(WRONG))),
        scratch=scratch,
        progress=seen.append,
    )

    assert found == WRONG
    assert {now.phase for now in seen} <= {Phase.COMPARE}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("green", ["/data/blue", "/data/blue/", "file:///data/blue"])
def test_an_output_compared_with_itself_starts_no_spark(
    runtime: Runtimes, scratch: Path, green: str
) -> None:
    is_uri = green.startswith("file")
    blue, place = ("file:/data/blue", green) if is_uri else ("/data/blue", "/data/blue")

    found = compare(TERMS, blue, green, runtime("exit 1"), scratch=scratch)

    assert (found.result, found.refused) == (CompareResult.INCONCLUSIVE, True)
    assert found.reason == (
        f"Both lanes' output is {place}, and a comparison of it with itself proves nothing. Name "
        "an output for each lane: with {stream} and {deployment} in CompareTerms.topic, or in the script's arguments."
    )


def test_spark_is_told_where_both_outputs_are(
    runtime: Runtimes, scratch: Path, tmp_path: Path
) -> None:
    blue, green = a_deployment(output="/data/blue"), a_deployment(output="/data/green")
    submit = f"cp order.json spark.properties {tmp_path}\n{reporting(SAME)}"

    compare(TERMS, blue, green, runtime(submit), scratch=scratch)

    (asked,) = json.loads((tmp_path / "order.json").read_text())["asked"]
    assert (asked["blue"], asked["green"]) == ("/data/blue", "/data/green")
    # Plain files of this host need no jars, and nothing that the stream's own Spark is set to.
    assert "spark.jars" not in (tmp_path / "spark.properties").read_text()


def test_a_comparison_has_the_time_to_wait_for_rows_in_flight(
    runtime: Runtimes, scratch: Path, tmp_path: Path
) -> None:
    submit = f"cp order.json {tmp_path}\n{reporting(SAME)}"
    asked = [
        Outputs(TERMS, "/blue", "/green", Bound(in_flight=timedelta(minutes=minutes)))
        for minutes in (20, 30)
    ]

    compare_all(asked, runtime(submit), scratch=scratch, timeout=timedelta(minutes=5))

    assert json.loads((tmp_path / "order.json").read_text())["seconds"] == 55 * 60


@pytest.mark.parametrize(
    ("submit", "says"),
    [
        pytest.param(
            "echo 'java.lang.OutOfMemoryError: heap'; exit 52",
            "ended with code 52: java.lang.OutOfMemoryError: heap",
            id="spark-dies",
        ),
        pytest.param("exec sleep 60", "was ended after 1 s", id="too-slow"),
        pytest.param("echo '{\"half' > reports.jsonl", "ended with code 0", id="half-a-report"),
    ],
)
def test_what_could_not_be_measured_proves_nothing(
    runtime: Runtimes, scratch: Path, submit: str, says: str
) -> None:
    found = compare(
        *(TERMS, "/blue", "/green", runtime(submit)),
        scratch=scratch,
        timeout=timedelta(seconds=1) if "sleep" in submit else timedelta(minutes=1),
    )

    assert found.result is CompareResult.INCONCLUSIVE
    assert says in found.error


def test_a_spark_that_cannot_be_started_proves_nothing(runtime: Runtimes, scratch: Path) -> None:
    broken = runtime("")
    broken.spark_submit.unlink()

    found = compare(TERMS, "/blue", "/green", broken, scratch=scratch)

    assert (found.result, "could not be started" in found.error) == (
        CompareResult.INCONCLUSIVE,
        True,
    )


def test_of_several_those_that_were_made_count(runtime: Runtimes, scratch: Path) -> None:
    asked = [Outputs(TERMS, "/blue", "/green"), Outputs(TERMS, "/blue2", "/green2")]

    found = compare_all(asked, runtime(reporting(SAME, then="exit 1")), scratch=scratch)

    assert [one.result for one in found] == [CompareResult.SAME, CompareResult.INCONCLUSIVE]
    assert found[1].blue.uri == "/blue2"


def test_nothing_to_compare_starts_nothing(runtime: Runtimes) -> None:
    assert compare_all([], runtime("exit 1")) == []


GIVEN: Final = ("compare", "--blue", "/blue", "--green", "/green", "--runtime", "r")


@pytest.mark.parametrize(
    ("submit", "code", "says"),
    [
        pytest.param(reporting(SAME), 0, "Result: SAME 4 rows are the same.", id="same"),
        pytest.param(reporting(WRONG), 1, "- a rows 3 2", id="differs"),
        pytest.param(
            "exit 7", 3, "Result: INCONCLUSIVE The Spark of the comparison", id="inconclusive"
        ),
    ],
)
def test_the_exit_code_says_whether_outputs_are_the_same(
    runtime: Runtimes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    submit: str,
    code: int,
    says: str,
) -> None:
    made = runtime(submit)
    monkeypatch.setattr("airflow_streaming.cli.spark.runtime.runtime_named", lambda _: made)

    assert main(GIVEN) == code
    assert says in " ".join(capsys.readouterr().out.split())


def test_terms_that_do_not_fit_are_wrong_use(
    runtime: Runtimes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = replace(SAME, error="Neither output has a column 'x'.", refused=True)
    made = runtime(reporting(refused))
    monkeypatch.setattr("airflow_streaming.cli.spark.runtime.runtime_named", lambda _: made)

    assert main([*GIVEN, "--sum", "x"]) == 2
    assert "column 'x'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("--since", "yesterday"), id="no-time"),
        pytest.param(("--tolerance", "1.5"), id="no-share"),
        pytest.param(("--bucket", "-1"), id="no-length"),
        pytest.param(("--option", "key"), id="no-pair"),
    ],
)
def test_arguments_that_cannot_be_are_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*GIVEN, *wrong])

    assert left.value.code == 2
