"""Any report, in Markdown and on a terminal: what it holds is shown, and is never markup."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console

from airflow_streaming.reports.escape import visible
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.report import (
    Block,
    Code,
    Facts,
    Finding,
    Heading,
    Items,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
    code,
    joined,
    report_of,
    strong,
    table,
    value,
)
from airflow_streaming.reports.terminal import plain, rendered

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = st.one_of(st.text("`*_~[]()<>|#&!\\-+=.:/ \n\t1ab;", max_size=30), st.text(max_size=20))


def report_on(text: str) -> Report:
    """Return a report with every block, a text in every place that a value can have."""
    every: tuple[Words, ...] = (value(text), code(text), text, ("a ", value(text), code(text), "."))
    return report_of(
        [
            Heading(("On ", value(text)), 2),
            Verdict(subject=("Of ", value(text)), word="bad", tone=Tone.BAD, reason=("r ", text)),
            *(
                Paragraph(("p ", *(words if isinstance(words, tuple) else (words,))))
                for words in every
            ),
            Items(items=tuple(("i ", *joined([words])) for words in every)),
            Items(items=(("again ", value(text)),)),
            Items(items=("one", ("two ", code(text))), is_numbered=True),
            Facts((("name", value(text)), (("n ", code(text)), "v"))),
            table(
                ("x", "number", "y"), [(value(text), "1", text), (code(text), "2", "z")], "number"
            ),
            Finding(
                label="bad",
                tone=Tone.BAD,
                rule=f"r{text}",
                subject=("in ", value(text)),
                message=("m ", text),
                details=(("now", code(text)), ("evidence", text)),
            ),
            Finding(label="good", tone=Tone.GOOD, message="fine"),
            Paragraph((strong("Last"), ": end.")),
        ]
    )


def test_findings_are_indented_below_their_decision_and_nowhere_else() -> None:
    finding = Finding(label="bad", tone=Tone.BAD, rule="r", message="m", details=(("now", "x"),))
    report = report_of(
        [
            Verdict(subject="Decision", word="bad", tone=Tone.BAD),
            finding,
            Paragraph("Then."),
            Heading("Apart"),
            finding,
        ]
    )

    told = ["  bad  r", "      m", "      now: x"]
    apart = [one.removeprefix("  ") for one in told]
    assert plain(report).splitlines() == [
        *("Decision: BAD", "", *told, "", "Then.", "", "Apart", *apart)
    ]
    printed = io.StringIO()
    Console(file=printed, width=80).print(*rendered(report), sep="\n")
    assert [one.rstrip() for one in printed.getvalue().splitlines()][2:4] == told[:2]


def structure(page: str) -> list[str]:
    return [f"{token.type} {token.tag}" for token in PARSER.parse(page)]


def inlines(page: str) -> Iterator[list[Token]]:
    return (token.children or [] for token in PARSER.parse(page) if token.type == "inline")


HARMLESS_STRUCTURE = structure(markdown(report_on("x")))
HARMLESS_LINES = len(plain(report_on("x")).split("\n"))


@given(HOSTILE)
@example("x` <b>out</b> `")
@example("a|b\\|c")
@example("- item\n# title\n1. one")
@example("![x](http://y)")
@example("*")
@example("")
def test_a_report_has_one_structure_whatever_its_values_hold(text: str) -> None:
    assert structure(markdown(report_on(text))) == HARMLESS_STRUCTURE


@given(HOSTILE)
@example("x` <b>out</b> `")
@example("&lt;&#35;")
def test_no_value_becomes_a_link_html_or_an_emphasis(text: str) -> None:
    lines = list(inlines(markdown(report_on(text))))
    allowed = {"text", "code_inline", "strong_open", "strong_close"}

    assert {child.type for line in lines for child in line} <= allowed
    assert strong_of(lines) == ["bad", "bad", "good", "Last"]


def strong_of(lines: Iterable[list[Token]]) -> list[str]:
    """Return what stands out in some lines."""
    return [
        after.content
        for line in lines
        for child, after in pairwise(line)
        if child.type == "strong_open"
    ]


@given(HOSTILE)
def test_a_value_is_shown_as_it_is(text: str) -> None:
    seen = " ".join(visible(text).split())
    shown = markdown(report_of([table(("a", "b"), [(value(text), code(text))])]))
    cells = ["".join(child.content for child in line) for line in inlines(shown)]

    assert cells == ["a", "b", seen or "—", seen or "—"]


@given(st.text())
def test_code_stays_in_its_fence(text: str) -> None:
    tokens = PARSER.parse(markdown(report_of([Code(f"a{text}"), Paragraph("b")])))

    assert [token.type for token in tokens][:2] == ["fence", "paragraph_open"]


@given(HOSTILE)
@example("\x1b[31m\u202e")
def test_neither_form_of_the_terminal_is_steered(text: str) -> None:
    for shown in (plain(report_on(text)), on_terminal(report_on(text), color=False)):
        assert all(char.isprintable() or char == "\n" for char in shown)


@given(HOSTILE)
def test_the_plain_form_has_a_line_for_each_row_however_long_its_values(text: str) -> None:
    for told in (text, text * 50):
        assert len(plain(report_on(told)).split("\n")) == HARMLESS_LINES


def on_terminal(report: Report, *, color: bool = True, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    for part in rendered(report):
        console.print(part)
    return out.getvalue()


CASES: list[Any] = [
    pytest.param(Heading("A title", 2), "## A title", "A title", id="heading"),
    pytest.param(Paragraph(("A ", code("b"), " c.")), "A `b` c.", "A b c.", id="paragraph"),
    pytest.param(
        Paragraph((strong("Now"), ": see `x`.")), "**Now**: see `x`.", "Now: see `x`.", id="strong"
    ),
    pytest.param(
        Verdict(subject=value("orders"), word="healthy", tone=Tone.GOOD, reason="All run."),
        "orders: **healthy**\n\nAll run.",
        "orders: HEALTHY\n  All run.",
        id="verdict",
    ),
    pytest.param(Items(items=("a", "b")), "- a\n- b", "  a\n  b", id="items"),
    pytest.param(
        Items(items=("a", "b"), is_numbered=True), "1. a\n2. b", "1. a\n2. b", id="numbered items"
    ),
    pytest.param(
        Facts((("lane", "blue"), ("deployment", ""))),
        "| | |\n| --- | --- |\n| lane | blue |\n| deployment | — |",
        "lane         blue\ndeployment   -",
        id="facts",
    ),
    pytest.param(
        table(("name", "rows"), [("a", "1,200"), ("bb", "")], "rows"),
        "| name | rows |\n| --- | ---: |\n| a | 1,200 |\n| bb | — |",
        "name   rows\na     1,200\nbb        -",
        id="table",
    ),
    pytest.param(
        Finding(
            label="not allowed",
            tone=Tone.BAD,
            rule="sink.path",
            subject=("in query ", value("q")),
            message="It moves.",
            details=(("now", code("/a")), ("what to do", "Keep it.")),
        ),
        "- **not allowed** in query q: It moves. (`sink.path`)\n    - now: `/a`\n"
        "    - what to do: Keep it.",
        "not allowed  sink.path  in query q\n    It moves.\n    now: /a\n    what to do: Keep it.",
        id="finding",
    ),
    pytest.param(
        Code("a\n```\nb"), "````text\na\n```\nb\n````", "    a\n    ```\n    b", id="code"
    ),
]


@pytest.mark.parametrize(("block", "in_markdown", "in_plain"), CASES)
def test_a_block_in_both_forms(block: Block, in_markdown: str, in_plain: str) -> None:
    assert markdown(report_of([block])) == f"{in_markdown}\n"
    assert plain(report_of([block])) == in_plain


def test_a_terminal_gets_colors_by_gravity_and_its_own_width() -> None:
    verdict = Verdict(word="differs", tone=Tone.BAD)
    wide = report_of([verdict, Paragraph("word " * 60), table(("a",), [("x" * 300,)])])

    shown = on_terminal(wide, width=60)

    assert "\x1b[1;31mDIFFERS" in shown
    assert max(len(line) for line in on_terminal(wide, color=False, width=60).splitlines()) <= 60
    assert shown.count("x") >= 300


def test_brackets_in_a_value_are_not_markup_of_the_terminal() -> None:
    page = report_of([Paragraph(value("[red]a[/red]")), Facts((("b", value("[/]")),))])

    assert "[red]a[/red]" in on_terminal(page, color=False)
    assert "[/]" in on_terminal(page, color=False)


def test_a_report_within_a_report_has_lower_headings() -> None:
    inner = report_of([Heading("a", 2), Heading("b", 6), Paragraph("c")])

    assert [block.level for block in inner.deeper().blocks if isinstance(block, Heading)] == [3, 6]


def test_two_lists_in_a_row_stay_two() -> None:
    page = markdown(report_of([Items(items=("a",)), Items(items=("b",)), Items(items=("c",))]))

    assert structure(page).count("bullet_list_open ul") == 3


def test_findings_in_a_row_are_one_list() -> None:
    one = Finding(label="bad", tone=Tone.BAD, message="m")

    assert structure(markdown(report_of([one, one]))).count("bullet_list_open ul") == 1


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 1"):
        table(("a",), [("x", "y")])
