"""
Run a short story with each pair of an Airflow and a Python, and print a row with the date for each.

    .venv/bin/python scripts/matrix.py                      # the oldest and the newest corner
    .venv/bin/python scripts/matrix.py --pairs 3.3.1:3.12   # any pair that the package index and uv have

Each pair gets an environment of its own in ``.runtimes/matrix``. The oldest corner resolves every dependency at its
lower bound (``lowest-direct``). The story is the contract with Airflow: the provider's registration, the hooks, and an
operator with its trigger from launch to restart. docs/versions.md keeps the rows.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".runtimes/matrix"
UV: Final = str(ROOT / ".venv/bin/uv")
STORY: Final = (
    "tests/unit/test_provider.py",
    "tests/unit/hooks/test_spark_submit.py",
    "tests/unit/operators/test_stream.py",
    "tests/unit/operators/test_stream_ownership.py",
    "tests/unit/triggers",
)
TOOLS: Final = ("pytest>=8.3", "pytest-asyncio>=0.26", "hypothesis>=6.100", "s3fs>=2025.3")
LOWEST: Final = "lowest-direct"
CORNERS: Final = (f"3.3.0:3.11:{LOWEST}", "3.3.2:3.13")
HEAD: Final = (
    "| Airflow | Python | other dependencies | tests | outcome | date |\n|---|---|---|---|---|---|"
)
RUN_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    Environment to try.

    :param resolution: ``lowest-direct``, or ``highest``.
    """

    airflow: str
    python: str
    resolution: str = "highest"

    @property
    def folder(self) -> Path:
        """Return the folder of its environment."""
        return FOLDER / f"{self.airflow}-{self.python}-{self.resolution}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a pair: the last line of the story, or the reason why it did not run."""

    pair: Pair
    passed: int
    reason: str = ""


def pair_of(text: str) -> Pair:
    """
    Parse ``AIRFLOW:PYTHON`` or ``AIRFLOW:PYTHON:lowest-direct``.

    :raises ValueError: the text has another form.
    """
    found = re.fullmatch(rf"(\d+\.\d+\.\d+):(3\.\d+)(?::({LOWEST}|highest))?", text)
    if found is None:
        raise ValueError(f"{text!r} is no pair; write it as 3.3.2:3.13 or 3.3.0:3.11:{LOWEST}.")
    return Pair(airflow=found[1], python=found[2], resolution=found[3] or "highest")


def install(pair: Pair) -> str:
    """Make the environment of a pair; return why it cannot be made, or nothing."""
    python = pair.folder / "bin/python"
    wanted = (f"apache-airflow=={pair.airflow}", *TOOLS)
    for command in (
        (UV, "venv", "--quiet", "--clear", "--python", pair.python, str(pair.folder)),
        (
            *(UV, "pip", "install", "--quiet", "--python", str(python)),
            *("--resolution", pair.resolution, *wanted, "--editable", str(ROOT)),
        ),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
    return ""


def outcome_of(pair: Pair, code: int, output: str) -> Outcome:
    """Return the outcome of a story by pytest's exit code and its last line."""
    last = (output.strip().splitlines() or ["no output"])[-1]
    counted = re.search(r"(\d+) passed", last)
    passed = int(counted[1]) if counted else 0
    return Outcome(pair=pair, passed=passed, reason="" if code == 0 and passed else last[:200])


def run(pair: Pair) -> Outcome:
    """Install a pair and run the story."""
    if reason := install(pair):
        return Outcome(pair=pair, passed=0, reason=f"not installed: {reason}")
    command = [str(pair.folder / "bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    home = {**os.environ, "AIRFLOW_HOME": str(pair.folder / "airflow")}
    done = subprocess.run(
        [*command, *STORY],
        cwd=ROOT,
        env=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    (pair.folder / "story.log").write_text(done.stdout + done.stderr)
    return outcome_of(pair, done.returncode, done.stdout)


def row(outcome: Outcome, date: str) -> str:
    """Return the row of the table in docs/versions.md."""
    pair = outcome.pair
    others = "lower bounds" if pair.resolution == LOWEST else "newest"
    said = outcome.reason or "passed"
    return f"| {pair.airflow} | {pair.python} | {others} | {outcome.passed} | {said} | {date} |"


def main() -> int:
    """Run the pairs; return 1 when one did not pass."""
    parser = argparse.ArgumentParser(prog="scripts/matrix.py", description=__doc__)
    parser.add_argument("--pairs", default=",".join(CORNERS), help="AIRFLOW:PYTHON,...")
    pairs = [pair_of(text) for text in parser.parse_args().pairs.split(",")]
    print(HEAD)
    outcomes = [run(pair) for pair in pairs]
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    print("\n".join(row(one, date) for one in outcomes), flush=True)
    return 1 if any(one.reason for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
