"""What the browser gets is what the sources give, and its pure parts count right."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path

import pytest

from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.report import Paragraph, report_of, table, value

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "airflow_streaming/plugins/static"
MODULES = sorted(STATIC.glob("*.js"))
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed; modules are not run.")


@needs_node
@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_can_be_parsed(module: Path) -> None:
    subprocess.run(
        ["node", "--check", "--input-type=module"], input=module.read_bytes(), check=True
    )


@needs_node
@pytest.mark.nightly("It fetches npm packages.")
def test_the_libraries_are_those_of_their_packages(tmp_path: Path) -> None:
    subprocess.run([str(ROOT / "scripts/page.sh"), "--check", str(tmp_path)], check=True)
    fetched = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in (STATIC / "vendor").iterdir()}
    assert {**shipped, **fetched} == shipped


def test_what_is_shipped_is_what_the_sources_give() -> None:
    told = (STATIC / "vendor/SOURCES.txt").read_text()
    named = dict(re.findall(r"^(\S+) +\S+ +([0-9a-f]{64})$", told, re.MULTILINE))
    shipped = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").iterdir()
        if path.name != "SOURCES.txt"
    }
    assert shipped == named
    assert re.search(r"^npm package uplot@[\d.]+ sha512-\S{88}$", told, re.MULTILINE)
    assert "MIT" in (STATIC / "vendor/uPlot.LICENSE.txt").read_text()


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_imports_nothing_but_what_is_shipped(module: Path) -> None:
    found = re.findall(r"""(?:\bfrom\s+|\bimport\s*\(?\s*)"([^"]+)\"""", module.read_text())
    assert all(one.startswith("./") and (STATIC / one).is_file() for one in found), found


@pytest.mark.parametrize(("kind", "states"), [("upgrade", Stage), ("cutover", CutoverState)])
def test_every_state_of_a_change_is_explained(kind: str, states: type[StrEnum]) -> None:
    told = (STATIC / "panels.js").read_text()
    block = re.search(rf"^  {kind}: \{{\n(.*?)^  \}}", told, re.DOTALL | re.MULTILINE)
    assert block
    assert {*re.findall(r"^    (\w+): ", block[1], re.MULTILINE)} == {*states}


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


LEVELS = ("down", "bad", "warn", "busy", "well", "off")
PAIRS = [
    *((ink, back, 4.5) for ink in ("ink", "soft", "accent") for back in ("bg", "card", "hover")),
    *((level, f"{level}-bg", 4.5) for level in LEVELS),
    *((level, "card", 4.5) for level in LEVELS),
    *((f"c{number}", "card", 3.0) for number in range(1, 9)),
]
"""Text or line, what is behind it, and the ratio that WCAG 2 asks for (AA; 3 for lines)."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "back", "least"), PAIRS)
def test_every_pair_of_colors_can_be_told_apart(
    theme: str, ink: str, back: str, least: float
) -> None:
    style = (STATIC / "style.css").read_text()
    head = ":root {" if theme == "light" else '[data-theme="dark"] {'
    block = style.split(head, 1)[1].split("}", 1)[0]
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    assert contrast(colors[ink], colors[back]) >= least


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_module_makes_html_of_text(module: Path) -> None:
    text = module.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text


CASES = [
    ("count", [0], "0"),
    ("count", [1234], "1.23 k"),
    ("count", [999999999], "1 G"),
    ("count", [None], "\u2013"),
    ("bytes", [1536], "1.5 KiB"),
    ("seconds", [0.25], "250 ms"),
    ("seconds", [200], "3 min 20 s"),
    ("seconds", [10560], "2 h 56 min"),
    ("seconds", [-3], "-3 s"),
    ("share", [0.456], "45.6 %"),
    ("exactShare", [0.99871], "99.871 %"),
    ("exactShare", [1], "100 %"),
    ("exactShare", [None], "\u2013"),
    ("ago", ["2026-01-01T00:00:00Z", 1767225660000], "1 min ago"),
    ("ago", ["2036-01-01T00:00:00Z", 1767225660000], "in 3652 d"),
    ("ago", ["soon", 0], "\u2013"),
    ("words", ["gave_up"], "gave up"),
    ("files", [1], "1 file"),
    ("files", [2000], "2 k files"),
]


@needs_node
def test_figures_are_read_as_people_read_them() -> None:
    calls = json.dumps([[name, arguments] for name, arguments, _ in CASES])
    program = f"""
      import * as format from {json.dumps((STATIC / "format.js").as_uri())};
      const told = {calls}.map(([name, parts]) => format[name](...parts));
      console.log(JSON.stringify(told));
    """
    found = subprocess.run(
        ["node", "--input-type=module"], input=program.encode(), check=True, capture_output=True
    )
    assert json.loads(found.stdout) == [text for _, _, text in CASES]


HOSTILE_REPORTS = {
    "asterisks": "*" * 200_000,
    "bars": "|" * 100_000,
    "bars_and_spaces": ("|" + " " * 400) * 400,
    "rows": "|a|a\n" * 40_000,
    "items": "- a\n" * 50_000,
    "code": "`a` " * 50_000,
    "paragraphs": "a\n\n" * 66_000,
    "ticks": "`" * 200_000,
    "lists_in_lists": "".join(f"{' ' * depth}- a\n" for depth in range(600)),
}


@needs_node
@pytest.mark.parametrize("text", HOSTILE_REPORTS.values(), ids=HOSTILE_REPORTS)
def test_a_hostile_report_takes_a_bounded_number_of_elements(text: str) -> None:
    found, count = rendered(text)

    assert count <= 45_000
    assert found["tag"] == "article"


@needs_node
def test_a_report_is_read_as_markdown() -> None:
    found, _ = rendered(
        "# Now\n\n|a|b|\n|--|:-:|\n|1|`x`|\n\n- **bold** and `code`\n\nA \\* star.\n"
    )

    assert found == node(
        "article",
        node("h1", "Now"),
        node(
            "table",
            node(
                "tbody",
                node("tr", node("th", "a"), node("th", "b")),
                node("tr", node("td", "1"), node("td", node("code", "x"))),
            ),
        ),
        node("ul", node("li", node("b", "bold"), " and ", node("code", "code"))),
        node("p", "A * star."),
    )


@needs_node
def test_details_of_a_finding_are_a_list_below_it_and_steps_keep_their_numbers() -> None:
    found, _ = rendered("- **bad** one\n    - now: a\n    - after: b\n- two\n\n1. stop\n2. start\n")

    details = node("ul", node("li", "now: a"), node("li", "after: b"))
    assert found == node(
        "article",
        node("ul", node("li", node("b", "bad"), " one", details), node("li", "two")),
        node("ol", node("li", "stop"), node("li", "start")),
    )


@needs_node
def test_what_a_report_escapes_the_page_shows_as_it_was() -> None:
    every = "a[0](b) [c] \\ * _d_ ~e~ <f> g|h #i &amp; j.k"
    report = report_of([Paragraph(value(every)), table(("name",), [(value(every),)])])

    found, _ = rendered(markdown(report))

    rows = node("tbody", node("tr", node("th", "name")), node("tr", node("td", every)))
    assert found == node("article", node("p", every), node("table", rows))


def node(tag: str, *children: object) -> dict[str, object]:
    return {"tag": tag, "children": [*children]}


def rendered(text: str) -> tuple[dict[str, object], int]:
    """Return a report as the page makes it, and how many elements it has."""
    program = f"""
      let count = 0;
      globalThis.Node = class {{
        constructor(tag) {{ this.tag = tag; this.children = []; count++; }}
        setAttribute() {{}}
        append(...more) {{ this.children.push(...more); }}
      }};
      globalThis.document = {{
        createElement: (tag) => new Node(tag),
        createTextNode: (text) => Object.assign(new Node(""), {{ toJSON: () => text }}),
      }};
      const {{ markdown }} = await import({json.dumps((STATIC / "markdown.js").as_uri())});
      const root = markdown({json.dumps(text)});
      console.log(JSON.stringify([count > 200 ? {{ tag: root.tag }} : root, count]));
    """
    found = subprocess.run(
        ["node", "--input-type=module"],
        input=program.encode(),
        check=True,
        capture_output=True,
        timeout=20,
    )
    told, count = json.loads(found.stdout)
    return told, count
