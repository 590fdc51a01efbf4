"""The kill program on one Spark: runs each query once, and then once more from every cut of its last batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.system.kills.cutting import Folders, add_file, keys
from tests.system.kills.matrix import STORES, Case, Kill, Result, kills_of, result_of, written
from tests.system.live_session import Session

PROGRAM: Final = Path(__file__).with_name("queries.py")
BATCHES: Final = (0, 2)
"""Numbers of the batches that are killed: the first, which no commit precedes, and a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What became of a case.

    :param error: Spark's own words where it failed.
    :param repaired: What became of it after the repair, where there was one.
    """

    case: Case
    result: Result
    error: str = ""
    repaired: Result | None = None


Repair = Callable[[Case, Folders], bool]
"""Repairs what a kill has left; tells whether there was something to repair."""


class Killing:
    """
    Kills queries of one Spark.

    :param session: Of ``queries.py``.
    :param folder: Where everything is written; its ``lake`` is the warehouse.
    """

    def __init__(self, session: Session, folder: Path) -> None:
        self._session, self._folder = session, folder
        self._number = 0

    def kill(
        self, sink: str, store: str, batch: int, kills: Collection[Kill], repair: Repair | None
    ) -> Iterator[Outcome]:
        """Run one query up to a batch, and continue it from every cut of that batch."""
        self._number += 1
        table = f"q{self._number}"
        home = self._folder / table
        root = home / "work"
        folders = Folders(root, home / "before", home / "after")
        order = {
            "sink": sink,
            "conf": dict(STORES[store]),
            "table": table,
            "input": str(home / "input"),
            "checkpoint": str(folders.checkpoint),
            "output": str(self._output(sink, table, folders)),
        }
        for number in range(batch):
            add_file(home / "input", number)
        if batch:
            self._run(order)
        folders.keep(folders.before)
        add_file(home / "input", batch)
        self._run(order)
        folders.keep(folders.after)
        add_file(home / "input", batch + 1)
        for kill in kills_of(sink):
            if kill in kills:
                case = Case(store=store, sink=sink, kill=kill, batch=batch)
                folders.cut(written(kill))
                yield self._go_on(case, order, folders, repair)

    def _output(self, sink: str, table: str, folders: Folders) -> Path:
        if sink != "iceberg":
            return folders.output
        # A table's folder is found by its name: a link leads into the folder that is cut.
        link = self._folder / "lake" / "db" / table
        link.parent.mkdir(parents=True, exist_ok=True)
        (folders.root / "lake").mkdir(parents=True)
        link.symlink_to(folders.root / "lake")
        return link

    def _run(self, order: dict[str, Any]) -> list[int]:
        self._session.order(**order)
        answer = self._session.answer()
        if "error" in answer:
            raise RuntimeError(f"{order}: {answer['error']}")
        found: list[int] = answer["keys"]
        return found

    def _go_on(
        self, case: Case, order: dict[str, Any], folders: Folders, repair: Repair | None
    ) -> Outcome:
        expected = keys(case.batch + 2)
        self._session.order(**order)
        answer = self._session.answer()
        outcome = Outcome(
            case=case,
            result=result_of(expected, answer.get("keys")),
            error=answer.get("error", ""),
        )
        if repair is None or outcome.result is not Result.DEAD:
            return outcome
        folders.cut(written(case.kill))
        if not repair(case, folders):
            return outcome
        self._session.order(**order)
        again = self._session.answer()
        return Outcome(
            case=case,
            result=outcome.result,
            error=outcome.error,
            repaired=result_of(expected, again.get("keys")),
        )
