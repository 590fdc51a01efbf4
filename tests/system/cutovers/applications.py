"""The applications of the cutovers, good and bad, each made of one by changing some words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GOOD: Final = Path(__file__).parent / "jobs" / "counts.py"

_OTHER_AGGREGATION: Final = (
    (
        'F.sum("amount").alias("total"),\n',
        'F.sum("amount").alias("total"),\n            F.max("amount").alias("most"),\n',
    ),
    ('            "total",\n', '            "total",\n            "most",\n'),
)
"""Another column in the state: the gate refuses it on the old checkpoint."""

_OTHER_PROJECTION: Final = (
    (
        '            "total",\n',
        '            "total",\n            (F.col("total") / F.col("n")).alias("mean"),\n',
    ),
    (
        '        F.col("amount").alias("total"),\n',
        '        F.col("amount").alias("total"),\n        F.upper("shop").alias("place"),\n',
    ),
)
"""Other columns behind the state: an old checkpoint can be gone on from."""

_IS_REAL: Final = 'not os.environ.get("AIRFLOW_STREAMING_PLAN")'
_PARSED: Final = "    arguments = parse_arguments()\n"
_AWAIT: Final = "    spark.streams.awaitAnyTermination()\n"

POISON: Final = "poison"
"""Name of a file beside the input; an application that ``fails_later`` fails once it is there."""

_FAIL_AT_ONCE: Final = f"""\
    if {_IS_REAL}:
        raise RuntimeError("The price list cannot be reached.")
"""
_FAIL_LATER: Final = f"""\
    if {_IS_REAL}:
        while spark.streams.active and not (Path(arguments.input).parent / "{POISON}").exists():
            spark.streams.awaitAnyTermination(1)
        if spark.streams.active:
            raise RuntimeError("The poison was one too many.")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """
    One bad application.

    :param edits: What is replaced in the new one, and by what.
    :param says: Parts of sentences; the steps of the cutover have to say one of them in the end.
    """

    edits: tuple[tuple[str, str], ...]
    says: tuple[str, ...]


BAD: Final[Mapping[str, Bad]] = {
    "fails_at_once": Bad(
        edits=((_PARSED, _FAIL_AT_ONCE + _PARSED),), says=("The price list cannot be reached",)
    ),
    "fails_later": Bad(
        edits=((_AWAIT, _FAIL_LATER + _AWAIT),), says=("The poison was one too many",)
    ),
    "slow": Bad(
        edits=(("FILES = 200", "FILES = 1"), ('TRIGGER = "1 second"', 'TRIGGER = "5 seconds"')),
        says=("has lasted",),
    ),
    "wrong_rows": Bad(
        edits=(
            (
                'F.sum("amount").alias("total"),',
                (
                    'F.sum(F.col("amount") + F.when(F.col("shop") == "east", 1).otherwise(0))'
                    '.alias("total"),'
                ),
            ),
        ),
        says=("east",),
    ),
    "no_rows": Bad(
        edits=(
            (
                'lines.withWatermark("at", DELAY)',
                'lines.where("id < 0").withWatermark("at", DELAY)',
            ),
        ),
        says=("written no row",),
    ),
    "schema_drift": Bad(
        edits=(
            (
                '            "total",\n',
                '            F.col("total").cast("string").alias("total"),\n',
            ),
        ),
        says=("total",),
    ),
    "state_too_big": Bad(
        edits=(
            (
                'lines.withWatermark("at", DELAY)',
                'lines.dropDuplicates(["id"]).withWatermark("at", DELAY)',
            ),
        ),
        says=("has lasted", "rows of state"),
    ),
}


def write(folder: Path) -> dict[str, Path]:
    """Write the good applications and the bad ones into a folder; return them by name."""
    folder.mkdir(parents=True, exist_ok=True)
    old = GOOD.read_text(encoding="utf-8")
    new = _edited(old, _OTHER_AGGREGATION)
    texts = {"old": old, "new": new, "newer": _edited(old, _OTHER_PROJECTION)}
    texts |= {name: _edited(new, bad.edits) for name, bad in BAD.items()}
    paths = {name: folder / f"{name}.py" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, encoding="utf-8")
    return paths


def _edited(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    for old, new in edits:
        if old not in text:
            raise RuntimeError(f"The good application has no {old!r} any more.")
        text = text.replace(old, new)
    return text
