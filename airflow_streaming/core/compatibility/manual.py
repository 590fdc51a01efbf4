"""The manual of the gates: every rule with its sentence, source and remedy, by theme."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from airflow_streaming.core.compatibility.change.catalogue import CHANGE_RULES
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.rules import RULES as VERSION_RULES
from airflow_streaming.core.cutover.ways.rules import WAY_RULES

ALL_RULES: Final = (*CHANGE_RULES, *VERSION_RULES, *WAY_RULES)
"""Every rule of the change gate, of the version gate, and of the ways of a cutover."""


def manual() -> str:
    """Return the manual as Markdown: a table for each theme."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The rules of the gates"
    yield ""
    yield (
        "Printed by `airflow-streaming gate rules`. A rule has one severity: where the same edit is "
        "harmless in one place and harmful in another, there are two. [gates.md](gates.md) says how "
        "they are asked."
    )
    for theme, rules in groupby(sorted(ALL_RULES, key=lambda rule: rule.name), key=_theme):
        yield from ("", f"## {theme.replace('_', ' ')}", "")
        yield "| rule | decides | says | known from | what to do |"
        yield "|---|---|---|---|---|"
        for rule in rules:
            decides = rule.severity.value.replace("_", " ")
            cells = (f"`{rule.name}`", decides, rule.sentence, rule.source, rule.remedy)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _theme(rule: Rule) -> str:
    return rule.name.partition(".")[0]
