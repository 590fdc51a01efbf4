"""Whether a call fits: names that an author gives, and functions that are given by one."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import BaseNotifier

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import (
    Called,
    NeverRan,
    Parameters,
    Way,
    nearest,
    overruled,
    parameters_of,
    run,
)
from airflow_streaming.model.arguments.fields import checked, named_fields

PLACES = Parameters(of="move", names=("to", "before", "note"), by_position=2, needed=("to",))


@pytest.mark.parametrize(
    ("positions", "names", "wrong"),
    [
        (1, (), None),
        (2, ("note",), None),
        (0, ("to", "note"), None),
        (1, ("not",), "move has no parameter 'not'; did you mean 'note'?"),
        (1, ("xyz",), "move has no parameter 'xyz'; give one of to, before, note."),
        (3, (), "move takes 2 arguments by position, not 3; write note=..."),
        (1, ("to",), "move is given to by position and by name; give it once."),
        (0, (), "move needs to; write to=..."),
        # A name that is wrong is why another one is missing.
        (0, ("too",), "move has no parameter 'too'; did you mean 'to'?"),
    ],
)
def test_what_is_wrong_with_a_call(positions: int, names: tuple[str, ...], wrong: str) -> None:
    assert PLACES.wrong(positions, names) == wrong


def test_all_that_is_missing_is_named() -> None:
    three = Parameters(of="f", names=("a", "b", "c"), needed=("a", "b", "c"))
    assert three.wrong(0, ()) == "f needs a, b and c; write a=..."
    assert three.wrong(0, ("b",)) == "f needs a and c; write a=..."


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("strem", "stream"),
        ("Stream", "stream"),
        ("hom", "home"),
        ("streams", "stream"),
        ("x", None),
    ],
)
def test_the_name_that_is_most_likely_meant(name: str, near: str | None) -> None:
    assert nearest(name, ("stream", "home", "poll_interval")) == near


def test_a_function_that_takes_any_name_is_not_judged() -> None:
    assert parameters_of(lambda **more: None, "f") is None
    assert parameters_of(lambda *more: None, "f") is None


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A value with a name that is easily mistyped."""

    executors: int
    cores: int = 1

    def __post_init__(self) -> None:
        if self.cores == 13:
            raise TypeError("of the value's own")


@checked
def resize(stream: str, *, executors: int = 1) -> str:
    return f"{stream} {executors}"


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda: Size(executor=1), "Size has no parameter 'executor'; did you mean 'executors'?"),
        (lambda: Size(), "Size needs executors; write executors=..."),
        (
            lambda: Size(1),
            "Size takes no arguments by position, not 1; write executors=..., cores=...",
        ),
        (lambda: resize("s", executer=1), "resize has no parameter 'executer'; did you mean"),
        (lambda: resize(), "resize needs stream; write stream=..."),
        (
            lambda: resize("s", 2),
            "resize takes 1 arguments by position, not 2; write executors=...",
        ),
        (lambda: resize("s", stream="s"), "resize is given stream by position and by name"),
    ],
)
def test_a_value_and_a_function_say_which_name_is_wrong(
    call: Callable[[], Any], wrong: str
) -> None:
    with pytest.raises(SpecError) as refused:
        call()
    assert str(refused.value).startswith(wrong)
    assert " See test_calls.py, line " in str(refused.value)


def test_what_fits_is_built_and_an_error_of_the_value_stays_its_own() -> None:
    assert Size(executors=2).executors == 2
    assert resize("s", executors=3) == "s 3"
    with pytest.raises(TypeError, match="of the value's own"):
        Size(executors=1, cores=13)


@pytest.mark.parametrize("function", [lambda: 1, lambda a, b: 1, dict.fromkeys])
def test_a_function_that_does_not_take_what_it_is_called_with(function: Any) -> None:
    wrong = Called(("a", "b", "c")).wrong("checks[0]", function)
    assert wrong is not None
    assert wrong.startswith("checks[0] is called with a and b and c, which ")


@pytest.mark.parametrize("function", [print, lambda a, b=1: 1, lambda *a: 1, iter])
def test_a_function_that_takes_it_or_does_not_say(function: Any) -> None:
    assert Called(("a context",)).wrong("on_gave_up", function) is None


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give an argument of its own, as ``provide_session`` of Airflow does."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, session="s", **kwargs)

    return call


def without_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call() -> Any:
        return function("x")

    return call


@with_session
def in_a_session(one: str, session: str) -> str:
    return f"{one} in {session}"


@mock.patch("os.getcwd")
def patched(one: str, getcwd: mock.Mock) -> str:
    return one


@without_arguments
def loses_it(one: str) -> str:
    return one


async def later(one: str) -> None: ...


async def pages(one: str) -> AsyncIterator[str]:
    yield one


def rows(one: str) -> Iterator[str]:
    yield one


@functools.wraps(later)
def at_once(one: str) -> None: ...


class Bound:
    """Methods of every kind."""

    async def later(self, one: str) -> None: ...

    def rows(self, one: str) -> Iterator[str]:
        yield one

    def at_once(self, one: str) -> None: ...


class Later:
    async def __call__(self, one: str) -> None: ...


class Sends(BaseNotifier):
    """A notifier of Airflow."""

    def notify(self, context: Any) -> None: ...


ONE = Called(("a Soaked",))
CONTEXT = Called(("a context",), is_notifier=True)


@pytest.mark.parametrize(
    "function",
    [in_a_session, patched, at_once, Bound().at_once, functools.partial(at_once), mock.Mock()],
)
def test_what_is_really_called_counts(function: Any) -> None:
    assert ONE.wrong("checks[0]", function) is None
    assert CONTEXT.wrong("on_late", function) is None


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (loses_it, "is called with a "),
        (later, "is an async function"),
        (pages, "is a generator function"),
        (rows, "is a generator function"),
        (Bound().later, "is an async function"),
        (Bound().rows, "is a generator function"),
        (Later(), "is an async function"),
        (functools.partial(later), "is an async function"),
        (functools.partial(functools.partial(Bound().rows)), "is a generator function"),
        (functools.partial(Later()), "is an async function"),
        (mock.AsyncMock(), "is an async function"),
        (Size, "is the class Size"),
        (str, "is the class str"),
        (Sends, "is the class Sends"),
    ],
)
def test_what_would_never_run_is_refused(function: Any, why: str) -> None:
    for called in (ONE, CONTEXT):
        wrong = called.wrong("checks[0]", function)
        assert wrong is not None
        assert wrong.removeprefix("checks[0] ").startswith(why)


def test_a_notifier_stands_only_where_one_is_meant() -> None:
    assert CONTEXT.wrong("on_late", Sends()) is None
    wrong = ONE.wrong("checks[0]", Sends())
    assert wrong is not None
    assert "is the notifier Sends" in wrong


@pytest.mark.parametrize("function", [later, pages, rows, Later(), lambda one: later(one)])
def test_work_that_was_returned_and_not_done_is_an_error(function: Any) -> None:
    with pytest.raises(NeverRan):
        run(function, "x")


def test_a_value_that_was_returned_is_passed_on() -> None:
    assert run(in_a_session, "x") == "x in s"
    assert run(lambda one: [one], "x") == ["x"]
    assert run(print) is None


OURS_OR_ANY = (
    Way(("stream", "home"), ("home_conn_id",)),
    Way(("checkpoint",), ("endpoint", "conn_id")),
)
FULL = {"stream": "s", "home": "/h", "conn_id": "c"}


@pytest.mark.parametrize(
    ("written", "given", "void"),
    [
        # What is written chooses.
        (["stream"], FULL, ["checkpoint", "conn_id", "endpoint"]),
        (["checkpoint"], {**FULL, "checkpoint": "/c"}, ["home", "home_conn_id", "stream"]),
        (["checkpoint", "home_conn_id"], FULL, ["home", "stream"]),
        # Else what is given in full.
        ([], FULL, ["checkpoint", "conn_id", "endpoint"]),
        ([], {"checkpoint": "/c", "home": "/h"}, ["home", "home_conn_id", "stream"]),
        (["conn_id"], FULL, ["checkpoint", "endpoint"]),
        # A contradiction is told by the task.
        (["stream", "checkpoint"], FULL, []),
        ([], {**FULL, "checkpoint": "/c"}, []),
        ([], {"home": "/h", "conn_id": "c"}, []),
        ([], {"stream": "s", "home": None}, []),
    ],
)
def test_what_default_args_brought_gives_way(
    written: list[str], given: dict[str, Any], void: list[str]
) -> None:
    assert sorted(overruled(OURS_OR_ANY, written, given)) == void
