"""What every command has: exit codes, and who acts."""

from __future__ import annotations

import argparse
import getpass
import os
from dataclasses import dataclass
from typing import Final

OK: Final = 0
PROBLEM: Final = 1
WRONG_USE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who acts, and why."""

    name: str
    reason: str


def person_of(arguments: argparse.Namespace) -> Person:
    """Return who acts by the arguments of a command that acts."""
    return Person(name=arguments.by or _user(), reason=arguments.reason)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container often runs under a number that has no name.
        return f"user {os.getuid()}"
