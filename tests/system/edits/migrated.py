"""
Runs the migrations of refused edits on a real Spark, beside an oracle from the first batch on.

``python -m tests.system.edits.migrated --runtime .runtimes/spark-4.3 [--only totals]``: the old code's checkpoint is
migrated by the plan that the gate gives, and the new code continues from it. Its rows must be those of the oracle:
the new code from scratch, in which an aggregate or operator that starts anew leaves out the rows of the first phase.
Exit code 1 where a row differs.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from airflow_streaming.gates.migration.migrations import migrations_in
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.migration import (
    Carry,
    MigrationAnswer,
    MigrationOrder,
    Move,
    OperatorMigration,
    StateMigration,
)
from airflow_streaming.spark_jobs import migration as migrating
from tests.system.edits.edit import Changes, Edit, replaced
from tests.system.edits.input import arrivals
from tests.system.edits.predicted import predictions, unpacked
from tests.system.edits.trial import Spark, SparkFailed, Trials, moved

_SINCE: Final = "split_part(input_file_name(), '/', -1) >= '004.{}'"
LATE: Final = _SINCE.format("json")
EARLY: Final = f"NOT ({LATE})"


def late(value: str) -> str:
    """Return the code of a column that is null in the rows of the first phase."""
    return f'F.expr("CASE WHEN late THEN {value} END")'


def marked(kind: str = "json") -> str:
    """Return the code of the column that ``late`` needs; an aggregate itself may not name the file."""
    return f'.withColumn("late", F.expr("{_SINCE.format(kind)}"))'


def of_totals(old: str, new: str) -> Changes:
    return (("events.groupBy", f"events{marked()}.groupBy"), (old, new))


_OF_CLICKS: Final = ("events.where", f'events.where("{LATE}").where')
_MARKED: Final = 'events.withWatermark("ts", "10 seconds")'
ORACLES: Final[dict[str, Changes]] = {
    # The old code has no watermark, so that of the new code begins with the rows after the migration.
    "clicks.aggregated": (_OF_CLICKS,),
    "clicks.deduplicated": (_OF_CLICKS,),
    "revenue.total_added": (
        ("lines.with", f"lines{marked('csv')}.with"),
        ('F.max("Quantity")', f"F.max({late('Quantity')})"),
    ),
    "revenue.other_amount": (
        ("lines.with", f"lines{marked('csv')}.with"),
        ('F.abs("Quantity")', f"F.abs({late('Quantity')})"),
    ),
    "totals.sum_to_max": of_totals('F.max("amount")', f"F.max({late('amount')})"),
    "totals.other_amount": of_totals('F.col("amount") * 2', f"{late('amount')} * 2"),
    "totals.sum_to_avg": of_totals('F.avg("amount")', f"F.avg({late('amount')})"),
    "totals.long_to_double": of_totals('F.sum("price")', f"F.sum({late('price')})"),
    "totals.count_of_column": of_totals('F.count("kind")', f"F.count({late('kind')})"),
    "totals.total_added": of_totals('F.min("amount")', f"F.min({late('amount')})"),
    "totals.key_added": of_totals(
        'groupBy("user", "kind", "shop")',
        """withColumn("shop", F.expr("CASE WHEN late THEN shop ELSE 'old' END"))"""
        '.groupBy("user", "kind", "shop")',
    ),
    "totals_rocksdb.sum_to_max": of_totals('F.max("amount")', f"F.max({late('amount')})"),
    "totals_rocksdb.total_added": of_totals('F.min("amount")', f"F.min({late('amount')})"),
    "windows_quoted.maximum": (
        ("events.withColumn", f"events{marked()}.withColumn"),
        ('F.max("amount")', f"F.max({late('amount')})"),
    ),
    "totals.to_deduplication": (
        ("events.dropDuplicates", f'events.where("{LATE}").dropDuplicates'),
    ),
    "totals.deduplicated_below": (
        (
            'events.dropDuplicates(["id"]).groupBy',
            f'events.where("{EARLY}").union(events.where("{LATE}").dropDuplicates(["id"])).groupBy',
        ),
    ),
    "sessions.session_to_window": ((".groupBy(F.window", f'.where("{LATE}").groupBy(F.window'),),
    "chained.deduplication_removed": (
        (
            _MARKED,
            (
                f'{_MARKED}.where("{EARLY}").dropDuplicates(["id", "ts"])'
                f'.union({_MARKED}.where("{LATE}"))'
            ),
        ),
    ),
    "first_seen.within_watermark": (
        (".dropDuplicatesWithin", f'.where("{LATE}").dropDuplicatesWithin'),
    ),
    "first_seen.to_aggregation": (('.groupBy("id"', f'.where("{LATE}").groupBy("id"'),),
}
"""What becomes of the edited script for the oracle; the other edits lose nothing that a later row shows."""
DECLARED: Final = "'old'"
"""The value of a new key for the groups so far."""
WITHOUT_ORACLE: Final = "hidden."
"""Aggregates of Python functions, whose input cannot be filtered by a change of the script alone."""


class Outcome(NamedTuple):
    """
    What came of a migration.

    :param differ: Rows without a counterpart in both later phases; ``None`` without an oracle.
    :param problem: Why it did not come to rows.
    """

    differ: int | None = None
    rows: int = 0
    problem: str = ""

    @property
    def is_right(self) -> bool:
        return not self.problem and not self.differ


class Migrations(Trials):
    """Trials of migrations."""

    def migrated(self, edit: Edit, migration: StateMigration, runtime: Runtime) -> Outcome:
        """Migrate the old code's checkpoint, and let the new code continue beside the oracle."""
        folder = moved(self.old(edit.base), self._folder / "on" / edit.name)
        fresh = self._folder / "oracle" / edit.name
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            self._migrate(edit, migration, runtime, folder)
            rows = [self._phase(edit.base, edit.source, folder, phase) for phase in (1, 2)]
            if edit.name.startswith(WITHOUT_ORACLE) and not starts_anew(migration):
                return Outcome(rows=sum(each.total() for each in rows))
            oracle = replaced(edit.source, ORACLES.get(edit.name, ()), edit.name)
            late = edit.name not in ORACLES and starts_anew(migration)
            expected = [
                self._phase(edit.base, oracle, fresh, phase, late=late) for phase in range(3)
            ][1:]
        except (SparkFailed, migrating.CheckpointRefused, migrating.LaunchError) as err:
            return Outcome(problem=str(err)[:600])
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
        differ = sum(((a - b) + (b - a)).total() for a, b in zip(rows, expected, strict=True))
        return Outcome(differ, sum(each.total() for each in rows))

    def _migrate(self, edit: Edit, migration: StateMigration, runtime: Runtime, run: Path) -> None:
        # Without a location in its script, a query has a folder of its name in that of the settings.
        [metadata] = [p for p in run.glob("checkpoint/**/metadata") if p.parent.name != "_metadata"]
        checkpoint = metadata.parent

        def ask(_: object, order: MigrationOrder, *__: object, **___: object) -> MigrationAnswer:
            answer = self._spark.migrate(edit.base, order, run)
            return MigrationAnswer.from_dict(answer)

        target = run / "migrated"
        with patch.object(migrating, "ask", ask):
            migrating.migrate_checkpoint(str(checkpoint), str(target), migration, runtime)
        checkpoint.rename(run / "before")
        target.rename(checkpoint)


def starts_anew(migration: StateMigration) -> bool:
    """Tell whether no operator continues, so that an oracle reads only the rows of the later phases."""
    return all(one.carry is Carry.EMPTY for one in migration.operators)


def planned(spark: str, only: tuple[str, ...]) -> Iterator[tuple[Edit, StateMigration]]:
    """Yield every edit that the gate refuses and has a migration for."""
    with tempfile.TemporaryDirectory(prefix="edits-") as name:
        unpacked(Path(name))
        for found in predictions(Path(name), spark, knows_past=True):
            migrations = migrations_in(found.report)
            if migrations and found.edit.name.startswith(only):
                yield found.edit, declared(migrations[0])


def declared(migration: StateMigration) -> StateMigration:
    """Return a migration with the value of a new key."""

    def given(operator: OperatorMigration) -> OperatorMigration:
        keys = (
            replace(key, initial=DECLARED) if key.move is Move.ADD and key.initial is None else key
            for key in operator.key
        )
        return replace(operator, key=tuple(keys))

    return replace(migration, operators=tuple(map(given, migration.operators)))


def main() -> int:
    """Run the migrations and print what came of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, required=True, help="an absolute path")
    parser.add_argument("--only", nargs="*", default=[""], help="edits whose name begins so")
    parser.add_argument("--folder", type=Path, help="where the runs are; quickest in memory")
    args = parser.parse_args()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="edits-") as scratch, Spark(args.runtime) as spark:
        runtime = Runtime(
            name="spark",
            spark_home=args.runtime,
            python=args.runtime / "bin/python",
            java_home=None,
            spark_version=spark.version,
        )
        trials = Migrations(spark, arrivals(), args.folder or Path(scratch))
        for edit, migration in planned("4.3.0", tuple(args.only)):
            started = time.monotonic()
            found = trials.migrated(replace(edit), migration, runtime)
            word = "right" if found.is_right else "WRONG"
            word = f"{word} (no oracle)" if found.is_right and found.differ is None else word
            outcomes[word] += 1
            took = time.monotonic() - started
            print(f"{edit.name}: {word} {tuple(found)} {took:.1f} s", flush=True)
    print(", ".join(f"{number} {word}" for word, number in sorted(outcomes.items())))
    return int(any(word == "WRONG" for word in outcomes))


if __name__ == "__main__":
    sys.exit(main())
