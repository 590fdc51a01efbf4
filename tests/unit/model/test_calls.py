"""Whether a call fits: names that an author gives, and functions that are given by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.calls import Called, Parameters, nearest, parameters_of
from airflow_streaming.model.fields import checked, named_fields

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


@pytest.mark.parametrize("function", [lambda: 1, lambda a, b: 1, dict.fromkeys, Size])
def test_a_function_that_does_not_take_what_it_is_called_with(function: Any) -> None:
    wrong = Called(("a", "b", "c")).wrong("checks[0]", function)
    assert wrong is not None
    assert wrong.startswith("checks[0] is called with a and b and c, which ")


@pytest.mark.parametrize("function", [print, lambda a, b=1: 1, lambda *a: 1, str, iter])
def test_a_function_that_takes_it_or_does_not_say(function: Any) -> None:
    assert Called(("a context",)).wrong("on_gave_up", function) is None
