"""A pointer that is moved by SQL, through whatever hook an Airflow connection has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.changes.pointers.port import OF_A_LANE, back_to, filled, mark_of
from airflow_streaming.exceptions import PointerFailed, SpecError, StreamingError
from airflow_streaming.model.arguments.fields import check_values, named_fields, refuse_blank
from airflow_streaming.model.arguments.placeholders import (
    LITERALLY,
    OF_STATEMENTS,
    check_placeholders,
    placeholders_in,
)
from airflow_streaming.model.jobs.pointing import Mark, should_write
from airflow_streaming.model.products.live_output import LiveOutput

TABLE: Final = "airflow_streaming_pointers"
"""Where a database remembers the newest word about each of its pointers."""
_COLUMNS: Final = ("stream", "lane", "deployment_number", "written_to", "word", "is_undone")


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPointer:
    """
    Leads consumers by statements in a database: a view, a synonym, a row of a table of yours.

    Our table ``airflow_streaming_pointers`` has a row for each pointer with its newest record. The
    row and your statements are written in one transaction, and the row only over an older one. So
    where definitions are part of transactions (PostgreSQL, SQLite, SQL Server, Redshift, Snowflake
    for rows) the move is atomic for every reader, runs once, and is never made by a late task.
    Databases that commit each definition separately (MySQL, Oracle, Trino, Hive) are not atomic
    when ``sql`` has more than one statement, or a definition: set ``is_atomic=False``. Then the row
    is written first and the statements run whenever the task is repeated, so they must be
    repeatable. A task that slept between the two would run them late. Tried with SQLite.

    Your statements are your responsibility: this class cannot know whether they write another
    team's view. It refuses a pointer of this name that belongs to another stream.

    :param conn_id: An Airflow connection whose hook has ``get_conn``, as the hooks of all SQL
        databases do.
    :param sql: A statement or several, e.g. ``CREATE OR REPLACE VIEW orders AS SELECT * FROM
        read_parquet('{output}/*.parquet')`` or ``UPDATE feeds SET folder = '{output}' WHERE feed =
        '{stream}'``. ``{stream}``, ``{lane}``, ``{color}``, ``{deployment}``, ``{number}`` and
        ``{output}`` are filled with the new live output.
    :param undo_sql: Statements that lead back; there the placeholders are filled with the earlier
        live output. By default the statements of ``sql``.
    :param name: By default the id of the connection. Of two pointers in one database one needs
        another.
    :param is_atomic: A consumer sees the state before or after, and nothing between.
    """

    conn_id: str
    sql: str | Sequence[str]
    undo_sql: str | Sequence[str] = ()
    name: str = ""
    is_atomic: bool = True

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank("SqlPointer", conn_id=self.conn_id)
        if self.name:
            refuse_blank("SqlPointer", name=self.name)
        if not self.name:
            object.__setattr__(self, "name", self.conn_id)
        if not _statements(self.sql):
            raise SpecError(f"Pointer {self.name!r} has no SQL. Give the statement that moves it.")
        for what in ("sql", "undo_sql"):
            statements = _statements(getattr(self, what))
            check_placeholders(
                f"{what} of pointer {self.name!r}", statements, OF_STATEMENTS, literally=LITERALLY
            )

        if not any(placeholders_in(one, OF_A_LANE) for one in _statements(self.sql)):
            raise SpecError(
                f"sql of pointer {self.name!r} does the same whichever lane is live: give a statement with one "
                f"of {', '.join(f'{{{name}}}' for name in OF_A_LANE)} in it."
            )

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        """Run the statements with what becomes live; see ``Pointer``."""
        self._say(mark_of(to), _filled(self.sql, to))

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        """Run the statements that lead back to the earlier live output; see ``Pointer``."""
        self._say(back_to(before, to), _filled(self.undo_sql or self.sql, before))

    def _say(self, wanted: Mark, statements: Sequence[str]) -> None:
        with self._connected() as (connection, rows):
            if not rows.has_table():
                connection.rollback()
                rows.make_table()
            connection.commit()
            if not rows.take(wanted, again=not self.is_atomic):
                connection.rollback()
                return
            if not self.is_atomic:
                connection.commit()
            for statement in statements:
                rows.run(statement)
            connection.commit()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[Any, _Rows]]:
        from airflow.sdk import BaseHook

        try:
            hook: Any = BaseHook.get_hook(self.conn_id)
            with contextlib.closing(hook.get_conn()) as connection:
                if getattr(hook, "supports_autocommit", False):
                    hook.set_autocommit(connection, False)
                try:
                    with contextlib.closing(connection.cursor()) as cursor:
                        yield connection, _Rows(cursor, hook.placeholder, self.name)
                except BaseException:
                    with contextlib.suppress(Exception):
                        connection.rollback()
                    raise
        except StreamingError:
            raise
        except Exception as err:
            raise PointerFailed(
                f"Pointer {self.name!r} could not be moved through connection {self.conn_id!r}: "
                f"{type(err).__name__}: {err}"
            ) from err


class _Rows:
    """The table of words, through one cursor."""

    def __init__(self, cursor: Any, placeholder: str, name: str) -> None:
        self._cursor, self._sign, self._name = cursor, placeholder, name

    def has_table(self) -> bool:
        """Tell whether the table can be read; a user without the right to create it can get one."""
        try:
            self.run(f"SELECT word FROM {TABLE} WHERE 1 = 0")  # noqa: S608 - a name of ours
        except Exception:  # noqa: BLE001 - databases share no error for it; making it tells more
            return False
        return True

    def make_table(self) -> None:
        self.run(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (pointer VARCHAR(250) NOT NULL PRIMARY KEY, "
            "stream VARCHAR(250) NOT NULL, lane VARCHAR(250) NOT NULL, deployment_number INTEGER "
            "NOT NULL, written_to VARCHAR(2000) NOT NULL, word INTEGER NOT NULL, is_undone INTEGER "
            "NOT NULL)"
        )

    def take(self, wanted: Mark, *, again: bool) -> bool:
        """
        Record a word unless a later one stands; tell whether the statements must be run.

        :param again: Also when this very word is recorded already.
        """
        shown = self._shown()
        is_new = should_write(shown, wanted, f"the pointer {self._name!r}")
        if shown is None:
            self._insert(wanted)
            return True
        if is_new:
            self._update(shown, wanted)
        return is_new or again

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        # Some drivers read a '%' in a statement as a placeholder as soon as values are passed.
        if values:
            self._cursor.execute(statement, tuple(values))
        else:
            self._cursor.execute(statement)

    def _shown(self) -> Mark | None:
        query = f"SELECT {', '.join(_COLUMNS)} FROM {TABLE} WHERE pointer = {self._sign}"  # noqa: S608 - names of ours
        self.run(query, [self._name])
        row = self._cursor.fetchone()
        if row is None:
            return None
        stream, lane, deployment, output, number, undone = row
        return Mark(
            stream=stream,
            lane=lane,
            deployment=int(deployment),
            output=output,
            number=int(number),
            undone=bool(undone),
        )

    def _insert(self, wanted: Mark) -> None:
        signs = ", ".join([self._sign] * (len(_COLUMNS) + 1))
        # Of two who insert, the database refuses one, who then looks again.
        names = ", ".join(("pointer", *_COLUMNS))
        statement = f"INSERT INTO {TABLE} ({names}) VALUES ({signs})"  # noqa: S608 - names of ours
        self.run(statement, [self._name, *_values(wanted)])

    def _update(self, mark: Mark, wanted: Mark) -> None:
        written = ", ".join(f"{column} = {self._sign}" for column in _COLUMNS)
        # Only over the row that was read: the database waits for a concurrent writer, which then
        # wins.
        where = " AND ".join(f"{c} = {self._sign}" for c in ("pointer", "word", "is_undone"))
        statement = f"UPDATE {TABLE} SET {written} WHERE {where}"  # noqa: S608 - names of ours
        self.run(statement, [*_values(wanted), self._name, mark.number, int(mark.undone)])
        if self._cursor.rowcount == 0:
            raise PointerFailed(
                f"Pointer {self._name!r} was moved by another task at the same time. Retry: the later "
                "move stands."
            )


def _values(mark: Mark) -> list[object]:
    told = (mark.stream, mark.lane, mark.deployment, mark.output, mark.number)
    return [*told, int(mark.undone)]


def _statements(sql: str | Sequence[str]) -> list[str]:
    given = [sql] if isinstance(sql, str) else list(sql)
    return [statement for statement in given if statement.strip()]


def _filled(sql: str | Sequence[str], live: LiveOutput) -> list[str]:
    return [filled(statement, live) for statement in _statements(sql)]
