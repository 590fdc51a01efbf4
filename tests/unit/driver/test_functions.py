"""Fingerprints of Python functions: another one where anything that the function reaches is other."""

from __future__ import annotations

import functools
import importlib
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.code import code_objects
from airflow_streaming.driver.code.functions import fingerprint
from airflow_streaming.model.spark.own_places import OwnPlaces
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


def test_the_function_and_the_arguments_of_a_partial_count() -> None:
    one, two = functools.partial(max, 1), functools.partial(max, 2)
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(one) == fingerprint(functools.partial(max, 1))
    assert fingerprint(one) != fingerprint(functools.partial(min, 1))


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
    texts = (
        "held = (n for n in range(3))",
        "import types\nheld = types.SimpleNamespace(lock=open)",
    )
    first, second = (fingerprint(scope_of(f"{text}\ndef f(): return held")["f"]) for text in texts)

    assert first.startswith(OPAQUE)
    assert not second.startswith(OPAQUE)


REACHES = {
    "import_in_body": "def f(x):\n import unloaded\n return unloaded.g(x)",
    "from_in_body": "def f(x):\n from unloaded import g\n return g(x)",
    "submodule_in_body": "def f(x):\n from their_package import inner\n return inner.g(x)",
    "through_a_module": "def f(x):\n import through\n return through.g(x)",
    "by_name": "import importlib\ndef f(x): return importlib.import_module('unloaded').g(x)",
    "by_name_of": "from importlib import import_module\ndef f(x): return import_module('unloaded').g(x)",
    "by_name_in_body": "def f(x):\n from importlib import import_module\n return import_module('unloaded').g(x)",
    "dunder": "def f(x): return __import__('unloaded').g(x)",
    "in_a_lambda": "import importlib\nf = lambda x: (lambda: importlib.import_module('unloaded').g(x))()",
    "cached": "import functools\n@functools.lru_cache\ndef f(x):\n import unloaded\n return unloaded.g(x)",
    "cache": "import functools\n@functools.cache\ndef f(x):\n import unloaded\n return unloaded.g(x)",
    "cached_within": (
        "import functools\n@functools.lru_cache\ndef g(x):\n import unloaded\n return unloaded.g(x)\n"
        "def f(x): return g(x)"
    ),
    "dispatched": (
        "import functools\n@functools.singledispatch\ndef f(x):\n import unloaded\n return unloaded.g(x)"
    ),
}
MAKES = {
    "name": "import importlib\ndef f(x): return importlib.import_module('un' + x).g(x)",
    "name_beside_another": (
        "import importlib\nTHE = 'unloaded'\n"
        "def f(x):\n 'json'\n return importlib.import_module(THE).g('json')"
    ),
    "alias": "from importlib import import_module as load\ndef f(x): return load('unloaded').g(x)",
    "alias_in_body": (
        "def f(x):\n from importlib import import_module as load\n return load('unloaded').g(x)"
    ),
    "passed_on": "import importlib\ndef f(x): return list(map(importlib.import_module, [x]))",
    "relative": "import importlib\ndef f(x): return importlib.import_module('.unloaded', x).g(x)",
    "exec": "def f(x):\n exec(open('unloaded.py').read(), d := {})\n return d['g'](x)",
    "eval": "def f(x): return eval(open('rule.txt').read())",
    "evaluator": "e = eval\ndef f(x): return e(open('rule.txt').read())",
    "run_path": "import runpy\ndef f(x): return runpy.run_path('unloaded.py')['g'](x)",
    "spec": (
        "from importlib import util\ndef f(x):\n"
        " s = util.spec_from_file_location('u', 'unloaded.py')\n return s.loader.load_module().g(x)"
    ),
    "in_a_module": "def f(x):\n import plugins\n return plugins.g(x)",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Write modules that nothing has loaded, whose functions return a figure, and forget older ones."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_package").mkdir()

    def write(figure: int) -> None:
        texts = {
            "unloaded.py": f"def g(x): return {figure}",
            "through.py": "import importlib\ndef g(x): return importlib.import_module('unloaded').g(x)",
            "their_package/__init__.py": "",
            "their_package/inner.py": f"from . import deeper\nWEIGHT = {figure}\ndef g(x): return WEIGHT",
            "their_package/deeper.py": "",
            "plugins.py": "def g(x): return __import__('un' + x).g(x)",
        }
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        importlib.invalidate_caches()

    return write


@pytest.mark.parametrize("text", REACHES.values(), ids=REACHES)
def test_a_module_that_is_loaded_when_the_function_runs_counts(
    modules: Callable[[int], None], text: str
) -> None:
    found = []
    for figure in (1, 1, 22):
        modules(figure)
        found.append(fingerprint(scope_of(text)["f"]))

    assert found[0] == found[1] != found[2]
    assert not found[0].startswith(OPAQUE)
    assert not {"unloaded", "through", "their_package"} & {*sys.modules}, "nothing of it was run"


@pytest.mark.parametrize("text", MAKES.values(), ids=MAKES)
def test_code_that_loads_what_no_text_of_it_names_is_opaque(
    modules: Callable[[int], None], text: str
) -> None:
    modules(1)

    assert fingerprint(scope_of(text)["f"]).startswith(OPAQUE)


@pytest.mark.parametrize(
    "text",
    [
        "import re\ndef f(x): return re.compile(x)",
        "import importlib.metadata\ndef f(x): return importlib.metadata.version(x)",
        "def f(x): return x.eval()",
        "def compile(x): return x\ndef f(x): return compile(x)",
    ],
)
def test_names_that_only_resemble_a_loader_are_looked_into(text: str) -> None:
    assert not fingerprint(scope_of(text)["f"]).startswith(OPAQUE)


def test_a_module_in_an_archive_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for figure in (1, 22):
        archive = tmp_path / f"{figure}.zip"
        with zipfile.ZipFile(archive, "w") as written:
            written.writestr("zipped.py", f"def g(x): return {figure}")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(archive))
            found.append(
                fingerprint(scope_of("def f(x):\n import zipped\n return zipped.g(x)")["f"])
            )

    assert found[0] != found[1]
    assert not any(one.startswith(OPAQUE) for one in found)


@pytest.fixture
def in_lane(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Return the fingerprint of ``f`` in a script whose ``PLACE`` is a path, in a lane of an output."""

    def fingerprinted(script: str, output: str, place: str) -> str:
        monkeypatch.setattr(code_objects, "_own", OwnPlaces(output=output))
        return fingerprint(scope_of(script.replace("PLACE", repr(place)))["f"])

    return fingerprinted  # type: ignore[return-value]


HOLDERS = {
    "closure": "def made(p):\n    def f(df, n): return df, p\n    return f\nf = made(PLACE)",
    "global": "OUT = PLACE\ndef f(df, n): return df, OUT",
    "literal": "def f(df, n): return df, PLACE",
    "default": "def f(df, n, out=PLACE): return df, out",
    "keyword": "def f(df, n, *, out=PLACE): return df, out",
    "partial": "import functools\ndef g(out, df, n): return df, out\nf = functools.partial(g, PLACE)",
    "object": "class W:\n    def __init__(self, p): self.p = p\n"
    "    def __call__(self, df, n): return df, self.p\nf = W(PLACE)",
    "list": "OUT = [PLACE]\ndef f(df, n): return df, OUT",
    "mapping": "OUT = {'out': PLACE}\ndef f(df, n): return df, OUT",
    "set": "OUT = {PLACE}\ndef f(df, n): return df, OUT",
    "path": "from pathlib import Path\nOUT = Path(PLACE)\ndef f(df, n): return df, OUT",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_lanes_own_place_is_no_other_function_wherever_it_is_held(
    holder: str, in_lane: Any
) -> None:
    script = HOLDERS[holder]
    blue = in_lane(script, "/blue/out", "/blue/out/late")

    assert in_lane(script, "/green/out", "/green/out/late") == blue
    assert blue.endswith("{output}")
    assert in_lane(script, "/green/out", "/green/out/other") != blue
    assert in_lane(script, "/green/out", "/blue/out/late") != blue, "another lane's place"


def test_a_function_that_uses_no_place_has_no_mark(in_lane: Any) -> None:
    script = HOLDERS["closure"]

    assert in_lane(script, "/out", "/elsewhere") == in_lane(script, "", "/elsewhere")
    assert "{" not in in_lane(script, "/out", "/elsewhere")
