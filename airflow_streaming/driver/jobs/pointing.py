"""
The driver that moves a view or an external table: an ordinary Spark application on this host.

It is started by ``changes.pointers.spark`` with one argument, the file of its order. It writes the
word first, as properties, and then the view's query or the table's location: each is one change in
the metastore, so consumers see the one or the other. ``CREATE OR REPLACE VIEW`` would not do: Spark
drops the view and makes it anew, and who comes in between finds none.

Metastores know no condition on a change. So the word is read again after each change of the body,
and when it is another one, the body is made to follow that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.jobs.drill import answer_to_file
from airflow_streaming.exceptions import PointerRefused, RecordError
from airflow_streaming.model.jobs.pointing import (
    CatalogAnswer,
    CatalogOrder,
    Entry,
    Mark,
    refuse_foreign,
    should_write,
)

TRIES: Final = 5
"""Words that others may put in between before this one gives up."""
_MARGIN: Final = 10.0
"""Seconds after which this process ends itself, when it was not ended before."""


def run(arguments: Sequence[str]) -> int:
    """Execute the order and write the answer."""
    log_to_stderr()
    order = CatalogOrder.from_bytes(Path(arguments[0]).read_bytes())
    return answer_to_file(order, lambda: answer_to(order), "Moving the pointer", margin=_MARGIN)


def answer_to(order: CatalogOrder) -> CatalogAnswer:
    from pyspark.sql import SparkSession

    try:
        _move(SparkSession.builder.getOrCreate(), order)
    except PointerRefused as err:
        return CatalogAnswer(refused=str(err))
    except Exception as err:  # noqa: BLE001 - whatever went wrong is the answer
        logger.exception("The %s was not moved.", order.entry)
        first = next(iter(str(err).splitlines()), "")
        return CatalogAnswer(failed=f"{type(err).__name__}: {first}")
    return CatalogAnswer()


def _move(session: Any, order: CatalogOrder) -> None:
    what = f"the {order.entry} {order.name}"
    shown = _shown(session, order, what)
    is_new = should_write(shown, order.wanted, what)
    if shown is None:
        session.sql(
            f"CREATE VIEW {order.name} TBLPROPERTIES ({_properties(order.wanted)}) "
            f"AS {order.bodies[order.wanted.output]}"
        )
        return
    if is_new:
        properties = _properties(order.wanted)
        session.sql(f"ALTER {order.entry} {order.name} SET TBLPROPERTIES ({properties})")
    # Also under a word that is there already: the task that wrote it may have died before the body.
    stands = _lead(session, order, what)
    if stands != order.wanted:
        raise RuntimeError("another task moved it at the same time, and the later word stands.")


def _lead(session: Any, order: CatalogOrder, what: str) -> Mark | None:
    """Make the body follow the word until the word stays the same; return the word."""
    word: Mark | None = order.wanted
    for _ in range(TRIES):
        body = None if word is None else order.bodies.get(word.output)
        if body is None:
            return word  # the word of another cutover, which also writes the body
        if order.entry is Entry.VIEW:
            session.sql(f"ALTER VIEW {order.name} AS {body}")
        else:
            session.sql(f"ALTER TABLE {order.name} SET LOCATION '{_literal(body)}'")
        found = _shown(session, order, what)
        if found == word:
            return word
        word = found
    raise RuntimeError(f"it was moved by others {TRIES} times meanwhile.")


def _shown(session: Any, order: CatalogOrder, what: str) -> Mark | None:
    if not session.catalog.tableExists(order.name):
        if order.entry is Entry.TABLE:
            raise PointerRefused(
                f"Table {order.name} does not exist. Create it as an external table over the "
                "output of the live lane, with the property 'airflow_streaming.stream' set "
                "to the stream."
            )
        return None
    _check_sort(session, order, what)
    rows = session.sql(f"SHOW TBLPROPERTIES {order.name}").collect()
    try:
        return Mark.from_properties({row[0]: row[1] for row in rows})
    except RecordError as err:
        raise refuse_foreign(what, str(err)) from err


def _check_sort(session: Any, order: CatalogOrder, what: str) -> None:
    sort = session.catalog.getTable(order.name).tableType
    wanted = "VIEW" if order.entry is Entry.VIEW else "EXTERNAL"
    if sort != wanted:
        raise refuse_foreign(what, f"in the catalog it is {sort}, not {wanted}.")
    columns = session.catalog.listColumns(order.name) if order.entry is Entry.TABLE else []
    if any(column.isPartition for column in columns):
        raise PointerRefused(
            f"The table {order.name} is partitioned: each of its partitions has a location of its "
            "own, so it cannot be moved at once. Lead consumers by a view."
        )


def _properties(mark: Mark) -> str:
    pairs = mark.properties().items()
    return ", ".join(f"'{_literal(key)}' = '{_literal(value)}'" for key, value in pairs)


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
