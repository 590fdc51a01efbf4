"""The manual names everything that a user can write or read, says what it is, and names nothing else."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from airflow_streaming.checkpoints.read.report import FindingCode
from airflow_streaming.cli.parser import COMMANDS, build_parser, parsed
from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, PREFIX, SINK_FIGURES, Kind
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.state_partitions import POSSIBLE, Refusal
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.size_change import SizeCode
from airflow_streaming.model.records.upgrade_table import WarmUp
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.documents import REPOSITORY, pages, text_of
from tests.unit.cli.commands import leaves

REFERENCE: Final[dict[str, Any]] = runpy.run_path(str(REPOSITORY / "scripts" / "reference.py"))
REMARKS: Final = {FindingCode.UNKNOWN_FILE, FindingCode.STATE_UNKNOWN, FindingCode.ASYNC_PROGRESS}


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_a_printed_page_is_what_is_printed(page: str) -> None:
    printed = REFERENCE["PAGES"][page]()

    assert printed == text_of(f"docs/{page}"), "write it anew: python scripts/reference.py"


def test_every_parameter_has_an_effect() -> None:
    rows = [line for line in text_of("docs/parameters.md").splitlines() if line.startswith("| `")]

    assert len(rows) > 300
    assert [row for row in rows if row.endswith("|  |")] == []


def test_everything_in_the_reference_says_what_it_is() -> None:
    rows = [line for line in text_of("docs/reference.md").splitlines() if line.startswith("| `")]

    assert len(rows) > 200
    assert [row for row in rows if not row.split(" | ")[1].strip(" |")] == []


def test_every_command_has_a_page_that_names_it() -> None:
    rows = re.findall(
        r"^\| `([a-z -]+)` \|.*\| \[[^]]*\]\(([\w.-]+)", text_of("docs/reference.md"), re.MULTILINE
    )
    unnamed = [
        (command, page)
        for command, page in rows
        if not all(
            re.search(rf"(?<![\w-]){word}(?![\w-])", text_of(f"docs/{page}"))
            for word in command.split()
        )
    ]

    assert {tuple(command.split()) for command, _ in rows} == {*leaves(build_parser())}
    assert unnamed == []


def codes_of(page: str) -> Iterator[set[str]]:
    """Yield the codes in the first column of each table of a page."""
    for table in re.findall(r"(?:^\|.*\n)+", text_of(page), re.MULTILINE):
        first = (line.split("|")[1] for line in table.splitlines()[2:])
        yield {code for cell in first for code in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("page", "codes"),
    [
        ("docs/health.md", VerdictState),
        ("docs/failures.md", FailureKind),
        ("docs/gates.md", GateDecision),
        ("docs/sizing.md", SizeCode),
        ("docs/upgrades.md", WarmUp),
        ("docs/rehearsals.md", Answer),
        ("docs/rescale.md", {*Refusal, POSSIBLE.name}),
        ("docs/defects.md", {*FindingCode} - REMARKS),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_a_table_of_codes_is_complete_and_has_no_other(page: str, codes: Iterable[str]) -> None:
    wanted = {str(one) for one in codes}

    nearest = max(codes_of(page), key=lambda found: len(found & wanted) - len(found - wanted))

    assert nearest == wanted


def test_the_exported_metrics_are_those_of_the_manual() -> None:
    exported = {
        f"{PREFIX}_{one.full_name}{'_total' if one.kind is Kind.COUNTER else ''}"
        for one in (*BATCH_FIGURES, *SINK_FIGURES)
    }

    assert max(codes_of("docs/metrics.md"), key=len) == {*exported, f"{PREFIX}_query_info"}


def commands_in(text: str) -> list[list[str]]:
    """Return the arguments of the commands that a page shows, without forms such as ``[--reason TEXT]``."""
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in block.replace("\\\n", " ").splitlines())
    shown = (line.removeprefix("$ ") for line in lines if not re.search(r"[\[|]", line))
    given = (re.split(r" > ", line)[0] for line in shown if line.startswith("airflow-streaming "))
    return [shlex.split(line, comments=True)[1:] for line in given]


@pytest.mark.parametrize("page", [one for one in pages() if commands_in(text_of(one))])
def test_a_command_that_a_page_shows_can_be_given(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_STREAMING_HOME", "/data/streams")

    for arguments in commands_in(text_of(page)):
        assert parsed(build_parser(), arguments).command


def test_a_command_that_cannot_be_given_is_found() -> None:
    page = "```\n$ airflow-streaming top # live\nairflow-streaming stop a \\\n  --resaon b\n```\n"
    top, stop = commands_in(page)

    assert (top, stop) == (["top"], ["stop", "a", "--resaon", "b"])
    with pytest.raises(SystemExit):
        parsed(build_parser(), stop)


@pytest.mark.parametrize("page", [one for one in pages() if "`airflow-streaming " in text_of(one)])
def test_a_page_names_no_command_that_does_not_exist(page: str) -> None:
    known = {one.name for _, several in COMMANDS for one in several} | {"COMMAND"}

    assert {*re.findall(r"`airflow-streaming\s+(\w[\w-]*)", text_of(page))} <= known
