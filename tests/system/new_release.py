"""
What another Spark does otherwise: keys and defaults of its configuration, formats of its logs, plans that it refuses.

    python -m tests.system.new_release .runtimes/spark-4.3 .runtimes/spark-4.4

starts both Sparks once, for about half a minute each, and prints the differences under the part of this package that
each of them belongs to. CONTRIBUTING.md has the whole day of a new release.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.gates.change.settings import meaning_of
from airflow_streaming.model.spark.releases import FORMATS, PINS, FormatKind
from tests.corpus.spark_defaults import session_of
from tests.corpus.spark_keys import keys_of
from tests.quick_java import spark_environment

PROBE: Final = Path(__file__).with_name("new_release_side.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """
    One installed Spark.

    :param keys: Keys of the configuration of its SQL.
    :param defaults: Their defaults.
    :param pins: What it writes into the plan of a batch.
    :param formats: Numbers of the file formats in its checkpoints.
    :param plans: What became of each plan: ``runs``, or Spark's name of the refusal.
    """

    spark: str
    keys: frozenset[str]
    defaults: Mapping[str, str]
    pins: Mapping[str, str]
    formats: frozenset[tuple[FormatKind, int]]
    plans: Mapping[str, str]


def differences(old: ReleaseFacts, new: ReleaseFacts) -> Iterator[tuple[str, str]]:
    """Yield the part of this package that has to change, and what differs."""
    yield from (("gates/settings.toml", what) for what in _keys(old, new))
    yield from (("gates/spark_defaults.toml", what) for what in _defaults(old, new))
    yield from (("model/spark/releases.py", what) for what in _logs(old, new))
    yield from (("gates/change", what) for what in _plans(old, new))


def _keys(old: ReleaseFacts, new: ReleaseFacts) -> Iterator[str]:
    added = sorted(new.keys - old.keys)
    yield from (f"{key} is new and has no class" for key in added if meaning_of(key) is None)
    yield from (f"{key} is gone" for key in sorted(old.keys - new.keys))


def _defaults(old: ReleaseFacts, new: ReleaseFacts) -> Iterator[str]:
    for key in sorted(old.defaults.keys() & new.defaults.keys()):
        if old.defaults[key] != new.defaults[key]:
            yield f"{key}: {old.defaults[key]} -> {new.defaults[key]}"


def _logs(old: ReleaseFacts, new: ReleaseFacts) -> Iterator[str]:
    for key in sorted(new.pins.keys() - old.pins.keys()):
        yield f"a plan pins {key} = {new.pins[key]}" + _unless(key in PINS)
    yield from (f"a plan no longer pins {key}" for key in sorted(old.pins.keys() - new.pins.keys()))
    for kind, number in sorted(new.formats - old.formats):
        yield f"{kind} {number} is written" + _unless((kind, number) in FORMATS)


def _unless(is_known: bool) -> str:
    return "" if is_known else ", which no row has"


def _plans(old: ReleaseFacts, new: ReleaseFacts) -> Iterator[str]:
    for name in sorted(old.plans.keys() | new.plans.keys()):
        was, now = old.plans.get(name, "not tried"), new.plans.get(name, "not tried")
        if was != now:
            yield f"plan {name!r}: {was} -> {now}"


def facts_of(runtime: Path) -> ReleaseFacts:
    """Start the Spark of a runtime and read what it writes."""
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        told = _probe(runtime, folder)
        read = [inspect(str(Path(folder, name))) for name in told["checkpoints"]]
    session = session_of(runtime)
    formats = {(FormatKind.OFFSET_LOG, one.offset_log_version) for one in read}
    formats |= {(FormatKind.COMMIT_LOG, one.commit_log_version) for one in read}
    for one in read:
        for operator in one.operators:
            formats.add((FormatKind.STATE_SCHEMA, operator.schema_version))
    return ReleaseFacts(
        spark=session["spark"],
        keys=frozenset(keys_of(runtime)),
        defaults=session["defaults"],
        pins={key: value for one in read for key, value in one.conf.items()},
        formats=frozenset((kind, number) for kind, number in formats if number is not None),
        plans=told["plans"],
    )


def _probe(runtime: Path, folder: str) -> dict[str, Any]:
    command = [str(runtime / "bin" / "python"), str(PROBE), folder]
    environment = spark_environment(runtime)
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("FOUND"))
    told: dict[str, Any] = json.loads(line.removeprefix("FOUND"))
    return told


def main() -> None:
    """Print the differences of two installed Sparks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args()
    old, new = facts_of(args.old.absolute()), facts_of(args.new.absolute())
    found = list(differences(old, new))
    print(f"{old.spark} -> {new.spark}: {len(found)} differences")
    for part in sorted({part for part, _ in found}):
        print(f"\n{part}")
        print(*(f"  {what}" for where, what in found if where == part), sep="\n")


if __name__ == "__main__":
    main()
