"""
Rules of the house that no single module can keep by itself.

Each guard walks whatever modules there are, so that a new one is guarded from its first day, and
each is tried on a small offender first, so that it cannot pass by finding nothing.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = REPOSITORY / "airflow_streaming"

WITHOUT_AIRFLOW: Final = ("core", "files", "home", "launch", "driver")
WITH_AIRFLOW: Final = ("operators", "triggers", "sensors")
SPARK_PROVIDER: Final = "airflow.providers.apache.spark"
HEAVY: Final = (
    "pyspark",
    "fastapi",
    # Not the package itself: Airflow loads it to read its provider information.
    f"{SPARK_PROVIDER}.hooks",
    f"{SPARK_PROVIDER}.operators",
)

EXECUTES_THE_USERS_SCRIPT: Final = "driver/script.py"

WALK: Final = """
import importlib, json, pkgutil, sys

def modules(rooms):
    yield "airflow_streaming"
    for room in rooms:
        package = importlib.import_module(f"airflow_streaming.{room}")
        found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        yield from (module.name for module in found)

def loaded(forbidden):
    return [name for name in forbidden if name in sys.modules]

offences, imported = [], []
for rooms, forbidden in json.loads(sys.argv[1]):
    for name in modules(rooms):
        importlib.import_module(name)
        imported.append(name)
        for heavy in loaded(forbidden):
            offences.append(f"{name} imports {heavy}")
        if offences:
            break
print(json.dumps({"offences": offences, "imported": imported}))
"""


def walk(*stages: tuple[tuple[str, ...], tuple[str, ...]]) -> dict[str, list[str]]:
    """Import all modules of some rooms in a new process; tell which first brought what it must not."""
    done = subprocess.run(
        [sys.executable, "-c", WALK, json.dumps(stages)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_dag_file_is_parsed_without_spark_or_a_web_server() -> None:
    found = walk((WITHOUT_AIRFLOW, ("airflow", *HEAVY)), (WITH_AIRFLOW, HEAVY))

    assert found["offences"] == []
    assert "airflow_streaming.core.steering" in found["imported"]


def test_a_forbidden_import_is_reported_with_the_module_that_brought_it() -> None:
    (offence,) = walk((("core",), ("hashlib",)))["offences"]

    assert re.fullmatch(r"airflow_streaming\.core\.\S+ imports hashlib", offence)


def offenders(folder: Path, guard: Callable[[str], list[Any]]) -> dict[str, list[Any]]:
    """Return what a guard finds in the modules of a folder, by their paths in it."""
    modules = sorted(folder.rglob("*.py"))
    assert modules, f"There is no module in {folder}."
    found = {module: guard(module.read_text(encoding="utf-8")) for module in modules}
    return {module.relative_to(folder).as_posix(): what for module, what in found.items() if what}


def dotted(node: ast.AST) -> str:
    """Return a dotted name, e.g. ``datetime.now``; what is no name in it is a question mark."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call with its dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything imported, e.g. ``os.path`` and ``time.sleep``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


OUTSIDE_WORLD: Final = frozenset(
    {"time", "os", "io", "pathlib", "random", "secrets", "socket", "subprocess", "threading"}
    | {"asyncio", "logging", "tempfile", "shutil", "urllib.request", "fsspec", "airflow"}
)
IN_MEMORY: Final = frozenset({"io.BytesIO"})
"""A buffer of bytes, which is what ``zipfile`` reads; no file."""

CLOCKS: Final = ("now", "utcnow", "today")


def impurities(source: str) -> list[str]:
    """Return how a module reaches for the clock, for chance, or for the outside."""
    tree = ast.parse(source)
    reached = [
        name
        for name in imports(tree)
        if name.split(".")[0] in OUTSIDE_WORLD and name not in IN_MEMORY
    ]
    for name, _ in calls(tree):
        if name in ("open", "input", "print") or name.rpartition(".")[2] in CLOCKS:
            reached.append(f"{name}()")
    return reached


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["time"]),
        ("from os import path", ["os.path"]),
        ("from datetime import datetime\nx = datetime.now(UTC)", ["datetime.now()"]),
        ("import datetime as d\nx = d.datetime.utcnow()", ["d.datetime.utcnow()"]),
        ("def f():\n    with open('x') as file: pass", ["open()"]),
        ("def f():\n    import random", ["random"]),
        ("import io", ["io"]),
        ("from io import BytesIO", []),
        ("import json\nx = situation.now", []),
    ],
)
def test_the_guard_sees_what_is_not_pure(source: str, found: list[str]) -> None:
    assert impurities(source) == found


def test_the_core_knows_no_clock_no_chance_and_no_file() -> None:
    assert offenders(PACKAGE / "core", impurities) == {}


UNSAFE_MODULES: Final = frozenset(
    {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
)
UNSAFE_CALLS: Final = frozenset({"eval", "exec", "__import__", "os.system", "os.popen"})


def dangers(source: str) -> list[str]:
    """Return where a module would execute what it reads."""
    tree = ast.parse(source)
    found = [name for name in imports(tree) if name.split(".")[0] in UNSAFE_MODULES]
    for name, call in calls(tree):
        module, _, function = name.rpartition(".")
        is_yaml = module == "yaml" and "load" in function and not function.startswith("safe_")
        is_shell = any(
            keyword.arg == "shell" and ast.unparse(keyword.value) != "False"
            for keyword in call.keywords
        )
        if name in UNSAFE_CALLS or is_yaml or is_shell:
            found.append(f"{name}()")
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle", ["pickle"]),
        ("def f():\n    from pickle import loads", ["pickle.loads"]),
        ("x = eval('1')", ["eval()"]),
        ("yaml.load(text)", ["yaml.load()"]),
        ("yaml.unsafe_load_all(text)", ["yaml.unsafe_load_all()"]),
        ("yaml.safe_load(text)", []),
        ("subprocess.run(text, shell=True)", ["subprocess.run()"]),
        ("subprocess.run([text], shell=False)", []),
        ("frame.eval_metrics()", []),
    ],
)
def test_the_guard_sees_what_would_be_executed(source: str, found: list[str]) -> None:
    assert dangers(source) == found


def test_nothing_that_is_read_is_ever_executed() -> None:
    assert offenders(PACKAGE, dangers) == {EXECUTES_THE_USERS_SCRIPT: ["exec()"]}


SKIPS: Final = frozenset(
    {"pytest.skip", "pytest.xfail", "unittest.skip"}
    | {f"pytest.mark.{mark}" for mark in ("skip", "skipif", "xfail")}
)


def unexplained_skips(source: str) -> list[int]:
    """Return the lines of skips and expected failures that do not say why."""
    if "skip" not in source and "xfail" not in source:
        return []
    tree = ast.parse(source)
    explained = {id(call.func) for name, call in calls(tree) if _has_reason(name, call)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and dotted(node) in SKIPS and id(node) not in explained
    ]


def _has_reason(name: str, call: ast.Call) -> bool:
    reasons = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    if not name.endswith("skipif"):
        reasons += call.args[:1]
    return any(not isinstance(reason, ast.Constant) or bool(reason.value) for reason in reasons)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("@pytest.mark.skip\ndef test(): pass", [1]),
        ("@pytest.mark.skip()\ndef test(): pass", [1]),
        ("@pytest.mark.skip(reason='')\ndef test(): pass", [1]),
        ("@pytest.mark.skipif(True)\ndef test(): pass", [1]),
        ("@pytest.mark.xfail(strict=True)\ndef test(): pass", [1]),
        ("def test():\n    pytest.skip()", [2]),
        ("def test():\n    pytest.skip(f'There is no {thing}.')", []),
        ("@pytest.mark.skipif(True, reason='Linux only.')\ndef test(): pass", []),
        ("@pytest.mark.skip('Linux only.')\ndef test(): pass", []),
    ],
)
def test_the_guard_sees_a_skip_without_a_reason(source: str, lines: list[int]) -> None:
    assert unexplained_skips(source) == lines


@pytest.mark.parametrize("folder", ["airflow_streaming", "tests", "dags", "demo", "benchmarks"])
def test_whoever_skips_a_test_says_why(folder: str) -> None:
    assert offenders(REPOSITORY / folder, unexplained_skips) == {}
