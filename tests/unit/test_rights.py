"""Each refusal in the table of rights names a test or a program that tries it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.conftest import REPOSITORY

_PAGE = (REPOSITORY / "docs/security.md").read_text()
_RIGHTS = _PAGE.partition("\n## Rights\n")[2].partition("\n## ")[0]
_LETTERS = re.compile(r"\(([a-z](?:, [a-z])*)\)")
_ROLES = 12


def rows() -> list[list[str]]:
    """Return the cells of each row of both tables."""
    lines = [line for line in _RIGHTS.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ROLES = [row for row in rows() if len(row) > 3][1:]
TRIES = {letter: row for row in rows() if len(row) == 3 for letter in row[0].split(", ") if row[0]}
CELLS = [
    pytest.param(cell, id=f"{role}-{number}")
    for role, *cells in ROLES
    for number, cell in enumerate(cells)
]


def test_the_table_has_its_roles() -> None:
    assert len(ROLES) == _ROLES
    assert {len(row) for row in ROLES} == {8}


@pytest.mark.parametrize("cell", CELLS)
def test_a_refusal_says_what_tries_it(cell: str) -> None:
    letters = [one for found in _LETTERS.findall(cell) for one in found.split(", ")]

    assert letters or not cell.lstrip("*").startswith("no")
    assert set(letters) <= TRIES.keys()


@pytest.mark.parametrize("letter", sorted(TRIES))
def test_what_tries_it_exists(letter: str) -> None:
    _, tried_by, outcome = TRIES[letter]
    named = re.findall(r"`([^`]+)`", tried_by)

    assert named
    assert outcome
    for name in named:
        if name.startswith("test_"):
            assert any(f"def {name}(" in text for text in _tests()), name
        else:
            path = name.removeprefix("python -m ")
            path = path if path.endswith(".py") else f"{path.replace('.', '/')}.py"
            assert (REPOSITORY / path).exists(), name


@cache
def _tests() -> list[str]:
    return [path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")]
