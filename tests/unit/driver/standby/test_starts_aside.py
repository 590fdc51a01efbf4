"""A start that is set aside: the script goes on, and what it asks of the query waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_streaming.driver.plan.writer_settings import name_of, name_query
from airflow_streaming.driver.standby.starts import DeferredStart, apart
from tests.patience import PATIENCE


class Query:
    """As pyspark's: all it does goes through one field."""

    def __init__(self, jsq: str) -> None:
        self._jsq = jsq

    @property
    def id(self) -> str:
        return f"id of {self._jsq}"


class Writer:
    pass


def test_the_script_goes_on_and_its_questions_wait_for_the_real_query() -> None:
    goes, asked = threading.Event(), list[Any]()

    def begin() -> Query:
        assert goes.wait(PATIENCE)
        return Query("the real one")

    stands_for = DeferredStart(threading.Thread, Query).start(begin)
    asking = threading.Thread(target=lambda: asked.append(stands_for.id))
    asking.start()
    assert isinstance(stands_for, Query)
    assert not asked

    goes.set()
    asking.join(PATIENCE)
    assert asked == ["id of the real one"]


def test_why_it_was_not_started_is_told_to_whoever_asks() -> None:
    def begin() -> Query:
        raise ValueError("There is no such table.")

    stands_for = DeferredStart(threading.Thread, Query).start(begin)

    for _ in range(2):
        with pytest.raises(ValueError, match="no such table"):
            stands_for.id  # noqa: B018 - asking is what raises


def test_a_script_that_has_nothing_more_to_do_has_not_ended_meanwhile() -> None:
    goes, threads = threading.Event(), list[threading.Thread]()

    def thread(**given: Any) -> threading.Thread:
        threads.append(threading.Thread(**given))
        return threads[-1]

    def begin() -> Query:
        assert goes.wait(PATIENCE)
        return Query("the real one")

    DeferredStart(thread, Query).start(begin)
    assert [one.daemon for one in threads] == [False]
    goes.set()
    threads[0].join(PATIENCE)


def test_a_writer_that_is_used_again_leaves_the_query_that_waits_its_name() -> None:
    writer = Writer()
    name_query(writer, {"queryName": "first"})

    own = apart(writer)
    name_query(writer, {"queryName": "second"})

    assert (name_of(own, {}), name_of(writer, {})) == ("first", "second")
