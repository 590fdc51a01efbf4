"""What every verb prints with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from airflow_streaming.cli.person import Person
from airflow_streaming.cli.table import printable


def print_json(value: Any) -> None:
    """Print one JSON object."""
    print(json.dumps(value, indent=2, sort_keys=False))


def print_lines(lines: Sequence[str]) -> None:
    """Print lines, with nothing in them that would steer the terminal."""
    print("\n".join(printable(line) for line in lines))


def name_of(person: Person | None) -> str:
    """Return the name of whoever acts."""
    return person.name if person else "unknown"
