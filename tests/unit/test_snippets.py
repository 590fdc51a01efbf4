"""The Python of the pages is Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest

REPOSITORY = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SNIPPETS = [
    pytest.param(dedent(found[1]), id=f"{page.name}-{number}")
    for page in (REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md")))
    for number, found in enumerate(_BLOCK.finditer(page.read_text(encoding="utf-8")), 1)
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_of_a_page_can_be_parsed(snippet: str) -> None:
    ast.parse(snippet)


def test_a_snippet_with_a_place_left_open_is_found() -> None:
    assert len(SNIPPETS) > 20
    with pytest.raises(SyntaxError):
        ast.parse('StreamSpec(name="orders", ...)')
