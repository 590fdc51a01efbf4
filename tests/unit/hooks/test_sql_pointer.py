"""The SQL pointer on a real database: one transaction, one word, and never a late one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import BaseHook, Connection

from airflow_streaming.exceptions import PointerFailed, PointerRefused, SpecError
from airflow_streaming.hooks.sql_pointer import TABLE, SqlPointer
from airflow_streaming.model.products.live_output import LiveOutput
from tests.patience import PATIENCE
from tests.unit.racing import at_once, read_during

BLUE = LiveOutput(stream="orders", lane="orders", deployment=2, output="blue")
GREEN = LiveOutput(stream="orders", lane="orders.green", deployment=1, output="green", number=1)
VIEW = ("DROP VIEW IF EXISTS orders", "CREATE VIEW orders AS SELECT * FROM {output}")
ROWS = 50


class SqliteHook(DbApiHook):
    """Airflow's own hook for databases, with a database in a file behind it."""

    conn_name_attr = "conn"
    _placeholder = "?"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @property
    def connection(self) -> Connection:
        return Connection(conn_id="lake", conn_type="sqlite")

    def get_conn(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=PATIENCE)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lake.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for lane in ("blue", "green"):
            connection.execute(f"CREATE TABLE {lane} (lane TEXT)")
            connection.executemany(f"INSERT INTO {lane} VALUES (?)", [(lane,)] * ROWS)  # noqa: S608 - a name of ours
        connection.execute("CREATE TABLE moves (lane TEXT)")
        connection.commit()
    monkeypatch.setattr(BaseHook, "get_hook", lambda _conn_id: SqliteHook(path))
    return path


def rows(database: Path, query: str = "SELECT lane, count(*) FROM orders GROUP BY lane") -> Any:
    with closing(sqlite3.connect(database, timeout=PATIENCE)) as connection:
        return connection.execute(query).fetchall()


def test_a_view_is_led_there_and_back_however_often_it_is_told(database: Path) -> None:
    pointer = SqlPointer(conn_id="lake", sql=VIEW)
    for _ in range(2):
        pointer.move(GREEN, BLUE)
        assert rows(database) == [("green", ROWS)]
    for _ in range(2):
        pointer.undo(GREEN, BLUE)
        assert rows(database) == [("blue", ROWS)]


def test_what_is_one_transaction_runs_once(database: Path) -> None:
    pointer = SqlPointer(conn_id="lake", sql="INSERT INTO moves VALUES ('{lane} {color}')")
    for _ in range(3):
        pointer.move(GREEN, BLUE)
    assert rows(database, "SELECT * FROM moves") == [("orders.green green",)]


def test_what_is_not_atomic_runs_again_because_it_may_have_been_cut_off(database: Path) -> None:
    pointer = SqlPointer(conn_id="lake", sql="INSERT INTO moves VALUES ('{lane}')", is_atomic=False)
    for _ in range(2):
        pointer.move(GREEN, BLUE)
    assert rows(database, "SELECT count(*) FROM moves") == [(2,)]


def test_statements_of_ones_own_lead_back(database: Path) -> None:
    pointer = SqlPointer(
        conn_id="lake",
        sql="INSERT INTO moves VALUES ('to {lane}')",
        undo_sql="INSERT INTO moves VALUES ('back to {lane}')",
    )
    pointer.move(GREEN, BLUE)
    pointer.undo(GREEN, BLUE)
    assert rows(database, "SELECT * FROM moves") == [("to orders.green",), ("back to orders",)]


def test_a_statement_that_fails_leaves_nothing_of_the_move(database: Path) -> None:
    SqlPointer(conn_id="lake", sql=VIEW).move(BLUE, BLUE)
    broken = SqlPointer(conn_id="lake", sql=(*VIEW, "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(PointerFailed, match=r"through connection 'lake': .*nowhere"):
        broken.move(GREEN, BLUE)
    assert rows(database) == [("blue", ROWS)]
    assert rows(database, f"SELECT word FROM {TABLE}") == [(0,)]  # noqa: S608 - a name of ours


def test_a_late_word_and_another_streams_word_are_refused(database: Path) -> None:
    pointer = SqlPointer(conn_id="lake", sql=VIEW)
    pointer.undo(GREEN, BLUE)
    with pytest.raises(PointerRefused, match="it already has the undo of record 1"):
        pointer.move(GREEN, BLUE)
    other = LiveOutput(stream="payments", lane="payments", deployment=1, output="green", number=9)
    with pytest.raises(PointerRefused, match="leads to stream 'orders'"):
        pointer.move(other, other)
    assert rows(database) == [("blue", ROWS)]


@pytest.mark.parametrize("output", ["x'; DROP TABLE blue; --", "a`b", 'a"b', "a\nb", "a\\b"])
def test_an_output_that_could_end_its_quotes_is_refused(database: Path, output: str) -> None:
    green = LiveOutput(stream="orders", lane="orders.green", deployment=1, output=output, number=1)
    with pytest.raises(PointerRefused, match="cannot be part of a statement"):
        SqlPointer(conn_id="lake", sql="SELECT '{output}'").move(green, BLUE)


def test_a_pointer_without_sql_is_refused_in_the_dag() -> None:
    with pytest.raises(SpecError, match="has no SQL"):
        SqlPointer(conn_id="lake", sql=" ")


def test_readers_who_race_with_it_always_find_the_view_and_all_rows_of_one_lane(
    database: Path,
) -> None:
    pointer = SqlPointer(conn_id="lake", sql=VIEW)
    pointer.move(BLUE, BLUE)
    seen, wrong = set(), []

    def read() -> None:
        try:
            found = rows(database)
        except sqlite3.Error as err:
            wrong.append(repr(err))
            return
        seen.add(found[0][0])
        if [count for _, count in found] != [ROWS]:
            wrong.append(repr(found))

    def move(number: int) -> None:
        pointer.move(replace((BLUE, GREEN)[number % 2], number=number), BLUE)

    read_during(move, read, times=60, enough=lambda: bool(wrong) or len(seen) == 2)
    assert wrong == []
    assert seen == {"blue", "green"}


def test_of_one_who_moves_and_one_who_undoes_at_once_the_undoing_stands(database: Path) -> None:
    for turn in range(10):
        pointer = SqlPointer(conn_id="lake", sql=VIEW, name=f"turn {turn}")
        at_once(partial(_until_heard, pointer.move), partial(_until_heard, pointer.undo))
        assert rows(database) == [("blue", ROWS)]


def _until_heard(word: Callable[[LiveOutput, LiveOutput], None]) -> None:
    for _ in range(20):
        try:
            word(GREEN, BLUE)
        except PointerFailed:
            continue  # both wrote at once; the engine looks again, too
        except PointerRefused:
            pass
        return
