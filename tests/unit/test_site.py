"""The pages make one site: each is in the menu, and each link to a page or a heading leads there."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Final

import pytest
import yaml

from airflow_streaming.cli.parser import build_parser, parsed
from tests.documents import REPOSITORY, pages, text_of

CODE: Final = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
NAMED: Final = re.compile(r"\bdocs/[\w/-]+\.(?:md|yaml)(?:#[\w-]+)?")
ROOMS: Final = ("airflow_streaming", "dags", "demo", "scripts", "benchmarks", "tests")
MADE_BY_THE_BUILD: Final = {
    "index.md",
    "changelog.md",
    "contributing.md",
    "releasing.md",
    "skill.md",
    "vulnerabilities.md",
    "adr/index.md",
}


def slug(heading: str) -> str:
    """Return the anchor that MkDocs gives a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\s-]", "", text.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", text)


@cache
def anchors(page: str) -> frozenset[str]:
    """Return the anchors of a page."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text_of(page)), re.MULTILINE):
        name, count = slug(heading), 0
        while name in found:
            count += 1
            name = f"{slug(heading)}_{count}"
        found.append(name)
    return frozenset(found)


def leaves(node: object) -> set[str]:
    """Return the pages of a part of the menu."""
    if isinstance(node, str):
        return {node}
    several = node.values() if isinstance(node, dict) else node
    assert not isinstance(several, (bytes, int))
    return {leaf for one in several for leaf in leaves(one)}  # type: ignore[attr-defined]


def menu() -> set[str]:
    return leaves(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"])


def test_every_page_is_in_the_menu() -> None:
    written = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/")}

    assert menu() == {one for one in written if not one.startswith("adr/")} | MADE_BY_THE_BUILD


def test_decisions_are_numbered_without_a_gap() -> None:
    files = sorted((REPOSITORY / "docs/adr").glob("*.md"))
    titles = [int(path.read_text().split(".")[0].removeprefix("# ")) for path in files]

    assert [int(path.name[:4]) for path in files] == titles == [*range(1, len(files) + 1)]


def dead(page: str) -> list[str]:
    """Return the links of a page to a heading that does not exist."""
    here = REPOSITORY / page
    found = []
    for target, anchor in LINK.findall(CODE.sub(" ", text_of(page))):
        path = (here.parent / target).resolve() if target else here
        name = path.relative_to(REPOSITORY).as_posix()
        if path.suffix == ".md" and path.exists() and anchor not in anchors(name):
            found.append(f"{name}#{anchor}")
    return found


@pytest.mark.parametrize("page", pages())
def test_a_link_leads_to_a_heading(page: str) -> None:
    assert dead(page) == []


def named_in_code() -> dict[str, str]:
    """Return the pages and headings that messages, comments and files of the repository name."""
    files = [path for room in ROOMS for path in (REPOSITORY / room).rglob("*")]
    named = {}
    for path in files:
        if path.suffix in {".py", ".js", ".toml", ".sh"} and path.name != "test_site.py":
            for one in NAMED.findall(path.read_text(encoding="utf-8")):
                named[one] = path.relative_to(REPOSITORY).as_posix()
    return named


def test_the_pages_that_the_code_names_exist() -> None:
    missing = {}
    for one, place in named_in_code().items():
        page, _, anchor = one.partition("#")
        is_there = (REPOSITORY / page).exists()
        if not is_there or (anchor and anchor not in anchors(page)):
            missing[one] = place

    assert missing == {}


def test_a_dead_link_and_an_anchor_are_found() -> None:
    assert slug("Why not in `Airflow's` own environment?") == "why-not-in-airflows-own-environment"
    assert LINK.findall("[x](a.md#b) [y](#c) [z](https://q#d)") == [("a.md", "b"), ("", "c")]
    assert "no-such-heading" not in anchors("docs/runtimes.md")


def workflows() -> list[object]:
    """Return the workflows of the page for continuous integration."""
    blocks = re.findall(
        r"^```yaml\n(name:.*?)^```", text_of("docs/ci.md"), re.DOTALL | re.MULTILINE
    )
    return [yaml.safe_load(block) for block in blocks]


def test_the_workflows_for_users_have_steps_whose_commands_can_be_given() -> None:
    found = workflows()
    steps = [
        step
        for one in found
        for job in one["jobs"].values()  # type: ignore[index]
        for step in job["steps"]
    ]
    commands = [
        shlex.split(line)[1:]
        for step in steps
        for line in step.get("run", "").splitlines()
        if line.startswith("airflow-streaming ")
    ]

    assert [one["name"] for one in found] == ["lint", "gate", "story"]  # type: ignore[index]
    assert all({"run", "uses"} & set(step) for step in steps)
    assert commands
    for arguments in commands:
        assert parsed(build_parser(), arguments).command


def badly_placed(text: str) -> list[str]:
    """Return the lines that GitHub and MkDocs read in different ways: blocks in lists, lists behind text."""
    found, before, inside = [], "", False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        is_item = re.match(r"(?:[-*]|\d+\.) ", line)
        is_row = line.startswith("|")
        if not inside:
            if re.match(r" {1,3}(?:```|\|)", line):
                found.append(line)
            if is_item and before and not re.match(r"(?:[-*]|\d+\.) |\s", before):
                found.append(line)
            if is_row and before and not before.startswith("|"):
                found.append(line)
        before = line
    return found


@pytest.mark.parametrize("page", [one for one in pages() if not one.startswith("CHANGELOG")])
def test_blocks_and_lists_are_read_alike_everywhere(page: str) -> None:
    assert badly_placed(text_of(page)) == []


def test_a_badly_placed_block_is_found() -> None:
    text = "- a\n\n  ```\n  b\n  ```\ntext\n- c\n- d\ntext\n| e |\n"

    assert badly_placed(text) == ["  ```", "  ```", "- c", "| e |"]


LONG: Final = {
    "blue-green.md",
    "checkpoints.md",
    "launcher-example.md",
    "on-call.md",
    "operations.md",
    "pipelines-security.md",
    "pipelines.md",
    "sizing.md",
    "teams.md",
    "upgrades.md",
}
"""Guides of more than one task."""


def test_a_page_for_one_task_is_short() -> None:
    doors = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]
    [tasks] = [one["How-to"] for one in doors if "How-to" in one]
    found = leaves(tasks) - MADE_BY_THE_BUILD
    words = {page: len(text_of(f"docs/{page}").split()) for page in found}

    assert {page for page, count in words.items() if count > 600} == LONG


PRINTED: Final = {"api.md", "gate-rules.md", "parameters.md", "reference.md"}
"""Pages that a script writes."""
MOST_WORDS: Final = 45_000
"""250 for queues of triggerers, labels of metrics and group acts, 280 for pauses and the scaler after an outage, 400 more than before real-time mode, data loss, campaigns and migrated state, each of which has a page, 300 for the
scaler, 200 for snapshots of Spark 4, 450 for the long run and the table of acts and killed parts, 400 for disaster
drills and maintenances, 120 for migrated state in an upgrade, and 300 for the requests to a store and the counted
rows of each act, and 100 for the refusals of a drill and overlapping maintenances."""


def prose(page: str) -> int:
    """Return the number of words of a page in lines of at least four, without blocks."""
    lines = re.sub(r"^ *```.*?^ *```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return sum(len(line.split()) for line in lines.splitlines() if len(line.split()) >= 4)


def test_the_pages_can_be_read_in_an_afternoon() -> None:
    written = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - PRINTED
    words = {page: prose(f"docs/{page}") for page in written}

    assert sum(words.values()) + prose("README.md") <= MOST_WORDS, sorted(
        words, key=words.__getitem__
    )


def test_the_build_counts_warnings_as_errors() -> None:
    [line] = [
        one for one in (REPOSITORY / "Makefile").read_text().splitlines() if "mkdocs build" in one
    ]

    assert "--strict" in line
    assert "--quiet" not in line, "mkdocs --quiet hides the warnings that --strict counts"
