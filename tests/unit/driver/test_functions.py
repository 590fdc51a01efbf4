"""Fingerprints of Python functions: another one where anything that the function reaches is other."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.plan.functions import fingerprint
from airflow_streaming.model.spark.plan import OPAQUE

BASE = """
import math
FACTOR = 3
class Helper:
    scale = 2
    def __init__(self, start): self.start = start
    def work(self, x): return x * self.scale + self.start
def inner(x): return x + FACTOR
def made(n, more=4):
    def f(x: int, y=1) -> int:
        return inner(x) + n + y + math.floor(1.5)
    return f
f = made(5)
helper = Helper(1)
"""


def scope_of(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "script.py", "exec"), scope)  # noqa: S102 - scripts of this test
    return scope


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + FACTOR", "x - FACTOR"),
        ("FACTOR = 3", "FACTOR = 4"),
        ("made(5)", "made(6)"),
        ("y=1", "y=2"),
        ("-> int", "-> float"),
        ("1.5", "2.5"),
        ("import math", "import cmath as math"),
    ],
)
def test_anything_that_a_function_reaches_makes_it_another(old: str, new: str) -> None:
    assert BASE.count(old) == 1
    before = fingerprint(scope_of(BASE)["f"])
    assert before != fingerprint(scope_of(BASE.replace(old, new))["f"])
    assert not before.startswith(OPAQUE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 3", "# a comment\n\nFACTOR = 3"),
        ("more=4", "more=9"),
        ("def f(x", "def g(x"),
        ("scale = 2", "scale = 9"),
    ],
)
def test_what_a_function_does_not_reach_does_not_count(old: str, new: str) -> None:
    text = BASE.replace(old, new).replace("return f", "return g" if "g(x" in new else "return f")
    assert fingerprint(scope_of(BASE)["f"]) == fingerprint(scope_of(text)["f"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("scale = 2", "scale = 3"), ("Helper(1)", "Helper(2)"), ("x * self", "x - self")],
)
def test_a_method_reaches_its_class_and_its_object(old: str, new: str) -> None:
    before, after = scope_of(BASE), scope_of(BASE.replace(old, new))
    assert fingerprint(before["helper"].work) != fingerprint(after["helper"].work)
    assert fingerprint(before["helper"].work) == fingerprint(scope_of(BASE)["helper"].work)


def test_the_arguments_of_a_partial_count() -> None:
    one, two = functools.partial(max, 1), functools.partial(max, 2)
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(one) == fingerprint(functools.partial(max, 1))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Write two modules of the user's, and return the fingerprint of what uses the first one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("their_rules", "their_figures")

    def written(figure: str, doc: str = "") -> str:
        (tmp_path / "their_figures.py").write_text(f"{doc}\nFIGURE = {figure}\n")
        (tmp_path / "their_rules.py").write_text(
            "import their_figures\ndef rule(x):\n    return x + their_figures.FIGURE\n"
        )
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        rules = importlib.import_module(names[0])
        sys.dont_write_bytecode = kept
        scope = {"__name__": "__main__", "their_rules": rules}
        exec("def f(x):\n    return their_rules.rule(x)", scope)  # noqa: S102 - as above
        return fingerprint(scope["f"])

    yield written
    for name in names:
        sys.modules.pop(name, None)


def test_modules_count_through_the_modules_that_they_import(package: Callable[..., str]) -> None:
    assert package("1") != package("2")
    assert package("1") == package("1", doc='"""What it is for."""')


def test_what_cannot_be_looked_into_is_opaque() -> None:
    inside = SimpleNamespace(lock=open)
    generator = (n for n in range(3))

    assert fingerprint(lambda: generator).startswith(OPAQUE)
    assert not fingerprint(lambda: inside.lock).startswith(OPAQUE)
