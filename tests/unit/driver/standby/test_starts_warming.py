from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.driver.standby.starts import WarmUp


class Session:
    """A session, its reader and its writer in one; every call is noted."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.readStream = self.writeStream = self.streams = self.conf = self

    def __getattr__(self, name: str) -> Any:
        def say(*args: Any, **_: Any) -> Session:
            self.said.append(" ".join([name, *map(str, args)]))
            return self

        return say


class Query:
    def __init__(self, ends: bool) -> None:
        self.ends, self.stopped = ends, False

    def awaitTermination(self, seconds: float) -> bool:
        return self.ends

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("ends", [True, False])
def test_a_session_is_warmed_up_once_with_a_row_that_is_made_up(ends: bool) -> None:
    session, query, functions = Session(), Query(ends), []
    warm = WarmUp(lambda _: query, lambda _, function: functions.append(function))
    warm.run(session)
    warm.run(session)
    assert len(functions) == 1
    assert "format rate-micro-batch" in session.said
    assert session.said[0] == "newSession", "nobody is told of the end of this query"
    assert "set spark.sql.shuffle.partitions 1" in session.said
    assert query.stopped is not ends


def test_a_session_that_cannot_be_warmed_up_is_left_cold() -> None:
    def start(_: Any) -> Any:
        raise OSError("no room for a checkpoint")

    session = Session()
    WarmUp(start, lambda *_: None).run(session)
    assert "newSession" in session.said
