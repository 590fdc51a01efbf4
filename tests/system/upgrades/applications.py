"""Applications that are bad in four ways, each made of the good one by changing some words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.stage import APPLICATION

_IMPORT: Final = ("import argparse\n", "import argparse\nimport os\nimport time\n")
_ARGUMENTS: Final = "    arguments = parse_arguments()\n"
_AWAIT: Final = "    query.awaitTermination()\n"

# Whoever only asks what it would start is given an answer.
_FAIL_AT_ONCE: Final = """\
    if not os.environ.get("AIRFLOW_STREAMING_PLAN"):
        raise RuntimeError("The price list cannot be reached.")
"""
# A rehearsal's query has ended when ``start`` returns, after as many batches as the machine left it
# to read; only one that goes on is counted.
_FAIL_AFTER_3: Final = """\
    if not os.environ.get("AIRFLOW_STREAMING_PLAN"):
        while query.isActive and len(query.recentProgress) < 3:
            time.sleep(0.1)
        if query.isActive:
            raise RuntimeError("The third batch was one too many.")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """
    One bad application.

    :param edits: What is replaced in the good one, and by what.
    :param says: A part of what the stages of the change have to say in the end.
    :param soak_minutes: The most that the soak may take; who falls behind has all of it.
    """

    edits: tuple[tuple[str, str], ...]
    says: str
    soak_minutes: float = 10


BAD: Final[Mapping[str, Bad]] = {
    "fails_at_once": Bad(
        edits=(_IMPORT, (_ARGUMENTS, _FAIL_AT_ONCE + _ARGUMENTS)),
        says="The price list cannot be reached",
    ),
    "fails_after_3_batches": Bad(
        edits=(_IMPORT, (_AWAIT, _FAIL_AFTER_3 + _AWAIT)),
        says="The third batch was one too many",
    ),
    "falls_behind": Bad(
        edits=(
            ('"maxFilesPerTrigger", arguments.files_per_batch', '"maxFilesPerTrigger", 1'),
            ('f"{arguments.trigger_seconds} seconds"', '"8 seconds"'),
        ),
        says="falls behind",
        soak_minutes=4,
    ),
    "wrong_rows": Bad(
        edits=(('F.col("Country").alias("country")', 'F.upper("Country").alias("country")'),),
        says="There is no country",
    ),
}


def write(folder: Path) -> dict[str, Path]:
    """Write the bad applications into a folder and return them by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    good = APPLICATION.read_text(encoding="utf-8")
    return {name: _written(folder / f"{name}.py", good, bad) for name, bad in BAD.items()}


def _written(path: Path, text: str, bad: Bad) -> Path:
    for old, new in bad.edits:
        if old not in text:
            raise RuntimeError(f"The good application has no {old!r} any more.")
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path
