"""
Real kills beside the cuts: a driver that dies by SIGKILL at a named write, and the same query continued.

``python -m tests.system.kills.sigkill [--only 4.3] [--sinks file,topic] [--kills sink,commit]`` runs a query in a
driver of its own, kills the whole process group as soon as the named part of the batch lies on the disk,
and looks at what does. A kill that came too early or too late is made again, so that the driver died between
exactly these two writes. Another driver then continues the query. Its answer stands beside the one that the
cuts have (``matrix.expected_result``), and the process ends with 1 where the two differ, or a repair did not
lead to the exact output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.conftest import find_runtimes
from tests.system.kills.cutting import Folders, add_file, keys, part_of
from tests.system.kills.matrix import (
    STORES,
    VERSIONS,
    Case,
    Kill,
    Part,
    Result,
    expected_result,
    kills_of,
    result_of,
    sinks_of,
    stores_of,
    written,
)
from tests.system.kills.repairing import repair
from tests.system.kills.running import PROGRAM, Outcome
from tests.system.live_session import Session

BATCH: Final = 2
"""The batch that is killed."""
SAMPLE: Final = ("RocksDB with changelog, format 1", "RocksDB with changelog, format 2")
"""One state store for each checkpoint format; a stateless query has the default one."""
KILLS: Final = (Kill.STATE, Kill.SINK)
TASKS: Final = {"file": 2, "topic": 2}
"""Files that the tasks of a batch write into the output; others write one."""
TRIES: Final = 12
"""A kill between two writes that are a millisecond apart may miss."""
PATIENCE: Final = 120.0
"""Seconds until the named write is there."""
_POLL: Final = 0.0003


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """
    A case by the cuts and by a real kill.

    :param kills: How many drivers were killed until one died between the two writes.
    :param real: ``None`` where none of the tries did.
    """

    version: str
    case: Case
    kills: int
    real: Outcome | None

    @property
    def cut(self) -> Result:
        """Return what the cuts have found."""
        return expected_result(self.case, self.version)

    @property
    def agrees(self) -> bool:
        """Tell whether the results are one, and a repair led to the exact output."""
        if self.real is None or self.real.repaired not in (None, Result.EXACT):
            return False
        return self.real.result is self.cut


class Driver:
    """A driver in a process group of its own, which a kill ends at once."""

    def __init__(self, runtime: Path, folder: Path) -> None:
        self.session = Session(
            runtime, folder, program=[str(PROGRAM), str(folder / "lake"), ""], apart=True
        )

    def kill(self) -> None:
        """Kill Python and Java as a host that loses its power does."""
        os.killpg(self.session.pid, signal.SIGKILL)
        self.session.await_end()


class RealKills:
    """
    Real kills of the queries of one Spark.

    :param folder: Where everything is written.
    """

    def __init__(self, runtime: Path, folder: Path) -> None:
        self._runtime, self._folder = runtime, folder
        self._driver = Driver(runtime, folder)
        self._number = 0

    def close(self) -> None:
        """End the last driver."""
        self._driver.kill()

    def kill(self, case: Case) -> tuple[int, Outcome | None]:
        """Kill drivers until one has died at the case's write; return how many, and what became of the query."""
        for number in range(1, TRIES + 1):
            found = self._try(case)
            if found is not None:
                return number, found
        return TRIES, None

    def _try(self, case: Case) -> Outcome | None:
        self._number += 1
        table = f"r{self._number}"
        home = self._folder / table
        folders = Folders(home / "work", home / "before", home / "after")
        order = {
            "sink": case.sink,
            "conf": dict(STORES[case.store]),
            "table": table,
            "input": str(home / "input"),
            "checkpoint": str(folders.checkpoint),
            "output": str(folders.output),
        }
        for batch in range(case.batch):
            add_file(home / "input", batch)
        answer = self._ask(order)
        if answer.get("keys") != keys(case.batch):
            raise RuntimeError(f"{case} was not begun: {answer}")
        folders.keep(folders.before)
        add_file(home / "input", case.batch)
        self._driver.session.order(**order)
        wanted, tasks = written(case.kill) & parts_of(case), TASKS.get(case.sink, 1)
        self._await(folders, wanted, tasks)
        self._driver.kill()
        left = parts_between(folders.before, folders.root, tasks)
        self._driver = Driver(self._runtime, self._folder)
        if left != wanted:
            return None
        folders.keep(folders.after)
        add_file(home / "input", case.batch + 1)
        return self._go_on(case, order, folders)

    def _await(self, folders: Folders, wanted: frozenset[Part], tasks: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while not wanted <= parts_between(folders.before, folders.root, tasks):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{sorted(wanted)} did not come in {folders.root}.")
            time.sleep(_POLL)

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self._driver.session.order(**order)
        return self._driver.session.answer()

    def _go_on(self, case: Case, order: dict[str, Any], folders: Folders) -> Outcome:
        expected = keys(case.batch + 2)
        answer = self._ask(order)
        outcome = Outcome(
            case=case,
            result=result_of(expected, answer.get("keys")),
            error=answer.get("error", ""),
        )
        if outcome.result is not Result.DEAD:
            return outcome
        shutil.rmtree(folders.root)
        shutil.copytree(folders.after, folders.root)
        if not repair(case, folders):
            return outcome
        again = self._ask(order)
        return replace(outcome, repaired=result_of(expected, again.get("keys")))


def parts_of(case: Case) -> frozenset[Part]:
    """Return the parts that a batch of the case leaves on the disk."""
    without = {
        "file": frozenset[Part](),
        "file without state": {Part.FIRST_STATE, Part.OTHER_STATE},
        "memory": {Part.DATA, Part.SINK},
    }
    # The file of a function or a topic is its sink.
    return frozenset(Part) - without.get(case.sink, {Part.SINK})


def parts_between(before: Path, now: Path, tasks: int) -> frozenset[Part]:
    """
    Return the parts of a batch that lie whole on the disk.

    :param before: Copy of what lay there before the batch.
    :param tasks: How many files its tasks write into the output.
    """
    found: dict[Part, set[str]] = {}
    for folder, _, names in os.walk(now):
        for name in names:
            path = Path(folder, name).relative_to(now).as_posix()
            # A hidden file is a checksum, or is not renamed yet.
            if "/." not in f"/{path}" and not (before / path).exists():
                found.setdefault(part_of(path), set()).add(path)
    return frozenset(
        part for part, files in found.items() if part is not Part.DATA or len(files) >= tasks
    )


def cases_of(version: str, kills: Collection[Kill], sinks: Collection[str]) -> Iterator[Case]:
    """
    Yield the sample of one release: each sink with a state store of each checkpoint format.

    :param sinks: Names; all when empty.
    """
    for sink in sinks_of(version, with_iceberg=False):
        for store in stores_of(sink, version):
            is_sampled = store in SAMPLE or sink == "file without state"
            if not is_sampled or (sinks and sink not in sinks):
                continue
            for kill in kills_of(sink):
                if kill in kills and is_real(sink, kill):
                    yield Case(store=store, sink=sink, kill=kill, batch=BATCH)


def is_real(sink: str, kill: Kill) -> bool:
    """
    Tell whether a driver can die at a write so that the disk shows it.

    A memory sink leaves nothing on the disk. The tasks of all others write state and rows together.
    """
    if sink == "memory":
        return kill is not Kill.SINK
    return kill is not Kill.STATE or sink.startswith("foreachBatch")


def line_of(one: Compared) -> str:
    """Return a row of the table."""
    real, case = one.real, one.case
    found = "never hit" if real is None else real.result.value
    if real is not None and real.repaired is not None:
        found += f", repaired: {real.repaired.value}"
    cells = [
        one.version,
        case.sink,
        case.store,
        case.kill.value,
        one.cut.value,
        found,
        str(one.kills),
    ]
    return f"| {' | '.join([*cells, '' if one.agrees else 'DIFFERS'])} |\n"


HEAD: Final = (
    "| Spark | sink | state | killed after | cut | SIGKILL | drivers killed | |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def measure(version: str, runtime: Path, cases: Iterable[Case]) -> Iterator[Compared]:
    """Yield the comparison of each case on one release."""
    with tempfile.TemporaryDirectory() as scratch:
        real = RealKills(runtime, Path(scratch))
        try:
            for case in cases:
                kills, outcome = real.kill(case)
                yield Compared(version=version, case=case, kills=kills, real=outcome)
        finally:
            real.close()


def main(arguments: list[str]) -> int:
    """Compare, and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=VERSIONS, help="one release; default: all that there are")
    parser.add_argument("--sinks", default="", help="names, with commas between them; default: all")
    parser.add_argument(
        "--kills", default="", help="writes, with commas between them; default: a sample"
    )
    parser.add_argument("--format", choices=("1", "2"), help="of the state; default: both")
    asked = parser.parse_args(arguments)
    kills = [Kill(name) for name in asked.kills.split(",") if name] or KILLS
    sinks = [name for name in asked.sinks.split(",") if name]
    runtimes, found = find_runtimes(), list[Compared]()
    sys.stdout.write(HEAD)
    for version in VERSIONS:
        runtime = runtimes.get(f"spark-{version}")
        if runtime is not None and asked.only in (None, version):
            cases = [
                case
                for case in cases_of(version, kills, sinks)
                if asked.format in (None, "2" if case.is_format_2 else "1")
            ]
            for one in measure(version, runtime, cases):
                found.append(one)
                sys.stdout.write(line_of(one))
                sys.stdout.flush()
    differ = sum(not one.agrees for one in found)
    sys.stdout.write(f"{len(found)} cases, {differ} differ.\n")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
