"""Whatever a value holds, a page shows it, and is still the page that was written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from airflow_streaming.reports import escape

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = st.one_of(st.text("`*_~[]()<>|#&!\\-+=.:/ \n\t1ab;", max_size=30), st.text(max_size=20))


def shown(value: str) -> str:
    """Return what a reader should see of a value."""
    return " ".join(escape.visible(value).split())


def letters(line: str) -> str:
    """Return a line without backticks and spaces: inline code is shown without those at its ends."""
    return "".join(line.replace("`", "").split())


def blocks(page: str) -> list[str]:
    return [token.type for token in PARSER.parse(page)]


def inlines(page: str) -> list[list[Token]]:
    return [token.children or [] for token in PARSER.parse(page) if token.type == "inline"]


def read(children: list[Token]) -> str:
    """Return the text of a line that holds text and inline code alone."""
    assert {child.type for child in children} <= {"text", "code_inline"}, children
    return "".join(child.content for child in children)


@given(HOSTILE)
@example("- item")
@example("1. item")
@example("===")
@example("&lt;")
@example("![x](http://y)")
def test_a_value_as_text_is_one_paragraph_of_text(value: str) -> None:
    page = f"{escape.text(value)}\n"

    assert blocks(page) == (["paragraph_open", "inline", "paragraph_close"] if shown(value) else [])
    assert "".join(map(read, inlines(page))) == shown(value)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("sources[0]", "sources[0]"),
        ("sources[0].user_state", "sources[0].user_state"),
        ("a[0](http://x)", "a\\[0\\](http://x)"),
        ("[0]", "\\[0\\]"),
        ("a[x]", "a\\[x\\]"),
        ("_a_ b_ _c", "\\_a\\_ b\\_ \\_c"),
        ("manual__2026-11-28", "manual__2026-11-28"),
        ("__a__ b", "\\_\\_a\\_\\_ b"),
    ],
)
def test_a_sign_is_escaped_only_where_it_could_be_markup(told: str, shown: str) -> None:
    assert (escape.text(told), escape.cell(told)) == (shown, shown)


@given(HOSTILE, st.sampled_from([escape.text, escape.code, escape.prose]))
@example("x` <b>out</b> `", escape.code)
def test_a_value_in_a_list_stays_in_its_item(value: str, of: Callable[[str], str]) -> None:
    page = f"- a {of(value)} b\n- c\n"

    assert blocks(page) == blocks("- a b\n- c\n")
    first, second = map(read, inlines(page))
    assert (letters(first), second) == (letters(f"a {shown(value)} b"), "c")


@given(HOSTILE, HOSTILE)
@example("x` | <b>out</b> | `", "")
@example("a\\|b", "a\\")
def test_a_value_in_a_table_stays_in_its_cell(one: str, other: str) -> None:
    row = f"| {escape.code_cell(one, '-')} | {escape.cell(other, '-')} | c |"

    found = [read(children) for children in inlines(f"| 1 | 2 | 3 |\n|---|---|---|\n{row}\n")]

    assert found == ["1", "2", "3", shown(one) or "-", shown(other) or "-", "c"]


@given(HOSTILE)
def test_a_value_as_code_is_read_as_it_is(value: str) -> None:
    (children,) = inlines(f"a {escape.code(value, 'none')}")

    assert read(children) == f"a {shown(value) or 'none'}"


@given(HOSTILE)
@example("a `b|c` d")
@example("`a\\|b` c")
@example("` 1 `")
def test_a_sentence_in_a_table_stays_in_its_cell(sentence: str) -> None:
    row = f"| {escape.prose_cell(sentence) or '-'} | b |"

    first, last = map(read, inlines(f"| 1 | 2 |\n|---|---|\n{row}\n")[2:])

    assert (letters(first), last) == (letters(shown(sentence) or "-"), "b")
