"""Every command of ``airflow-streaming`` that a text names is a command."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from airflow_streaming.cli.parser import build_parser

ROOT = Path(__file__).parents[3]
NAMED = re.compile(
    r"(?:[`':]\s*|\n)airflow-streaming(?: --home \S+)? ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?",
    re.MULTILINE,
)


def verbs() -> dict[str, set[str]]:
    """Return the verbs of each command; none of a command that has no verbs."""
    found: dict[str, set[str]] = {}
    for name, parser in choices(build_parser()).items():
        fill = getattr(parser, "fill", None)
        if fill is not None:
            fill(parser)
        found[name] = set(choices(parser))
    return found


def choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text that a user may read, with the file that has it."""
    for path in sorted((ROOT / "airflow_streaming").rglob("*.py")):
        source = path.read_text()
        if "airflow-streaming " not in source:
            continue
        for one in ast.walk(ast.parse(source)):
            if isinstance(one, ast.JoinedStr):
                parts = (
                    str(part.value) if isinstance(part, ast.Constant) else "X"
                    for part in one.values
                )
                yield str(path.relative_to(ROOT)), "".join(parts)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield str(path.relative_to(ROOT)), one.value
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*pages, *(ROOT / "airflow_streaming/plugins/static").glob("*.js")]:
        yield str(path.relative_to(ROOT)), path.read_text()


def test_every_command_that_a_text_names_is_a_command() -> None:
    known, wrong = verbs(), []
    for file, text in texts():
        for name, verb in NAMED.findall(text):
            if name not in known or (known[name] and verb and verb not in known[name]):
                wrong.append(f"{file}: airflow-streaming {name} {verb}".rstrip())

    assert sorted(set(wrong)) == []
