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
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.patience import PATIENCE
from tests.unit.parsed import nodes, parsed

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = REPOSITORY / "airflow_streaming"

WITHOUT_AIRFLOW: Final = ("model", "storage", "home", "launch", "driver", "checkpoints", "gates")
WITH_AIRFLOW: Final = ("operators", "triggers", "sensors")
SPARK_PROVIDER: Final = "airflow.providers.apache.spark"
HEAVY: Final = (
    "pyspark",
    "fastapi",
    # Not the package itself: Airflow loads it to read its provider information.
    f"{SPARK_PROVIDER}.hooks",
    f"{SPARK_PROVIDER}.operators",
)

READS_FOREIGN_TEXTS: Final = frozenset({"model/spark/failure_signs.py", "model/spark/failures.py"})
"""The tables of what Spark, Java and their clients say."""

EXECUTES_THE_USERS_SCRIPT: Final = frozenset({"driver/script.py", "testing/worker.py"})

MOST_MODULES: Final = 15
LARGER_ROOMS: Final = {"cli": 17, "gates/change": 18, "operators": 18}
"""With the reason in docs/architecture.md."""

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

offenses, imported = [], []
for rooms, forbidden in json.loads(sys.argv[1]):
    for name in modules(rooms):
        importlib.import_module(name)
        imported.append(name)
        for heavy in loaded(forbidden):
            offenses.append(f"{name} imports {heavy}")
        if offenses:
            break
print(json.dumps({"offenses": offenses, "imported": imported}))
"""


def walk(*stages: tuple[tuple[str, ...], tuple[str, ...]]) -> dict[str, list[str]]:
    """Import all modules of some rooms in a new process; tell which first brought what it must not."""
    done = subprocess.run(
        [sys.executable, "-c", WALK, json.dumps(stages)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_dag_file_is_parsed_without_spark_or_a_web_server() -> None:
    found = walk((WITHOUT_AIRFLOW, ("airflow", *HEAVY)), (WITH_AIRFLOW, HEAVY))

    assert found["offenses"] == []
    assert "airflow_streaming.model.names" in found["imported"]


def test_a_forbidden_import_is_reported_with_the_module_that_brought_it() -> None:
    (offense,) = walk((("model",), ("hashlib",)))["offenses"]

    assert re.fullmatch(r"airflow_streaming\.model\.\S+ imports hashlib", offense)


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


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call with its dotted name."""
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything imported, e.g. ``os.path`` and ``time.sleep``."""
    for node in nodes(tree):
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
    tree = parsed(source)
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


def pure_modules() -> set[str]:
    """Return the paths of all modules that pyproject.toml names as pure, packages as all in them."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (pure,) = (one for one in contracts if one["name"] == "Decisions are pure")
    excepted = {left for left, right in map(_ends, pure["ignore_imports"]) if right == "*"}
    found = set()
    for name in pure["source_modules"]:
        place = REPOSITORY / name.replace(".", "/")
        files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
        found |= {file.relative_to(REPOSITORY).as_posix() for file in files}
    return found - {f"{name.replace('.', '/')}.py" for name in excepted}


def _ends(line: str) -> tuple[str, str]:
    left, right = line.split(" -> ")
    return left, right


def test_decisions_know_no_clock_no_chance_and_no_file() -> None:
    pure = {path: REPOSITORY / path for path in pure_modules()}
    assert len(pure) > 100
    found = {path: impurities(file.read_text(encoding="utf-8")) for path, file in pure.items()}
    assert {path: reached for path, reached in found.items() if reached} == {}


UNSAFE_MODULES: Final = frozenset(
    {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
)
UNSAFE_CALLS: Final = frozenset({"eval", "exec", "__import__", "os.system", "os.popen"})
MAYBE_UNSAFE: Final = re.compile(
    "|".join(sorted(UNSAFE_MODULES | UNSAFE_CALLS | {"yaml", "shell"}))
)
"""Most modules have none of these words, so they need not be parsed."""


def dangers(source: str) -> list[str]:
    """Return where a module would execute what it reads."""
    if not MAYBE_UNSAFE.search(source):
        return []
    tree = parsed(source)
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
    found = offenders(PACKAGE, dangers)

    assert found == {module: ["exec()"] for module in EXECUTES_THE_USERS_SCRIPT}


SKIPS: Final = frozenset(
    {"pytest.skip", "pytest.xfail", "unittest.skip"}
    | {f"pytest.mark.{mark}" for mark in ("skip", "skipif", "xfail")}
)


def unexplained_skips(source: str) -> list[int]:
    """Return the lines of skips and expected failures that do not say why."""
    if "skip" not in source and "xfail" not in source:
        return []
    tree = parsed(source)
    explained = {id(call.func) for name, call in calls(tree) if _has_reason(name, call)}
    return [
        node.lineno
        for node in nodes(tree)
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


SENTENCES: Final = frozenset({"reason", "message", "sentence", "detail", "remedy", "advice"})
ERRORS: Final = frozenset({"err", "error", "exc", "exception"})
TEXT_SEARCHES: Final = frozenset(
    {"startswith", "endswith", "find", "index", "count", "partition", "rpartition"}
    | {"search", "match", "fullmatch", "findall", "finditer"}
)
PROSE: Final = re.compile(r"\A[A-Z][a-z]+ \w|\w{2,} \w{2,}[.,:;]? \w{2,}")
"""A beginning like a sentence's, or three words; ``available now`` is a value."""


class SentenceReader:
    """
    Finds branches on what a sentence says: its wording must be free to change.

    A sentence is what is called ``reason``, ``message`` or the like, the text of an exception, and
    a constant of several words. Whether it is empty may be asked, and how it ends in punctuation.
    """

    def __init__(self, tree: ast.Module) -> None:
        every = nodes(tree)
        self._errors = ERRORS | {
            node.name for node in every if isinstance(node, ast.ExceptHandler) and node.name
        }
        self._prose = {
            dotted(target)
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and self._is_text(node.value)
            and self._is_prose(node.value)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        }
        self._texts: set[str] = set()
        self._texts = {
            target.id
            for node in every
            if isinstance(node, ast.Assign) and self._is_error_text(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        readers = {
            ast.Compare: self._compares,
            ast.Call: self._searches,
            ast.Match: lambda node: self._is_sentence(node.subject),
        }
        self.found = sorted(
            node.lineno for node in every if type(node) in readers and readers[type(node)](node)
        )

    def _compares(self, node: ast.Compare) -> bool:
        operands = [node.left, *node.comparators]
        asks_text = any(isinstance(o, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for o in node.ops)
        asks_empty = any(isinstance(o, ast.Constant) and not o.value for o in operands)
        return asks_text and not asks_empty and any(map(self._is_sentence, operands))

    def _searches(self, node: ast.Call) -> bool:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in TEXT_SEARCHES:
            return False
        operands = [node.func.value, *node.args]
        words = [c for arg in operands for c in ast.walk(arg) if isinstance(c, ast.Constant)]
        only_marks = bool(words) and not re.search(r"\w", "".join(str(c.value) for c in words))
        return not only_marks and any(map(self._is_sentence, operands))

    def _is_sentence(self, node: ast.AST) -> bool:
        name = dotted(node)
        return (
            name.rpartition(".")[2] in SENTENCES
            or name in self._prose | self._texts
            or self._is_error_text(node)
            or (isinstance(node, ast.Constant | ast.Tuple | ast.JoinedStr) and self._is_prose(node))
        )

    def _is_error_text(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):
            return dotted(node.value).rpartition(".")[2] == "args" and self._is_error(node.value)
        if isinstance(node, ast.JoinedStr):
            values = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
            return any(map(self._is_error, values))
        if not isinstance(node, ast.Call):
            return False
        is_text = dotted(node.func) in ("str", "repr") and any(map(self._is_error, node.args))
        return is_text or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("lower", "upper", "casefold", "strip")
            and self._is_sentence(node.func.value)
        )

    def _is_error(self, node: ast.AST) -> bool:
        parts = dotted(node).split(".")
        return parts[-1] in self._errors or (parts[-1] == "args" and parts[-2] in self._errors)

    @staticmethod
    def _is_text(node: ast.AST) -> bool:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return all(isinstance(part, ast.Constant | ast.JoinedStr) for part in parts)

    @staticmethod
    def _is_prose(node: ast.AST) -> bool:
        return any(
            isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and PROSE.search(part.value) is not None
            for part in ast.walk(node)
        )


def sentences_read(source: str) -> list[int]:
    """Return the lines of branches on what a sentence says."""
    return SentenceReader(parsed(source)).found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("if stop.reason == stopping(3): pass", [1]),
        ("if any(phrase in sentence for phrase in PHRASES): pass", [1]),
        ("said = [step for step in steps if step.reason == reason]", [1]),
        ("if person.reason != arguments.unsaid: pass", [1]),
        ("idle = query.message.startswith('Waiting')", [1]),
        ("gone = 'Wrong basePath' not in text", [1]),
        ("NOTE: Final = 'No reason given.'\nif note == NOTE: pass", [2]),
        ("try: f()\nexcept OSError as e:\n    if 'exists' in str(e): pass", [3]),
        ("try: f()\nexcept OSError as e:\n    if e.args[0] == 'exists': pass", [3]),
        ("try: f()\nexcept OSError as e:\n    said = str(e)\n    x = GONE.search(said)", [4]),
        ("def f(err): return GONE.search(str(err)) is not None", [1]),
        ("def f(error): return 'gone' in str(error).lower()", [1]),
        ("match verdict.reason:\n    case 'dead': pass", [1]),
        ("if not verdict.reason or verdict.reason == '': pass", []),
        ("done = sentence.endswith(('.', '!'))", []),
        ("if error.code == 'EEXIST' and verdict.state is State.DEAD: pass", []),
        ("if trigger in ('once', 'available now'): pass", []),
        ("if one.message_id == 3 and reason is None: pass", []),
    ],
)
def test_the_guard_sees_a_branch_on_a_sentence(source: str, lines: list[int]) -> None:
    assert sentences_read(source) == lines


def test_no_branch_reads_a_sentence() -> None:
    assert set(offenders(PACKAGE, sentences_read)) <= READS_FOREIGN_TEXTS


def crowded(rooms: Iterable[tuple[str, int]]) -> list[str]:
    """Return the rooms that have more modules than a reader takes in, or lie too deep to be found."""
    return [
        room
        for room, modules in rooms
        if modules > LARGER_ROOMS.get(room, MOST_MODULES) or room.count("/") > 1
    ]


def test_the_guard_sees_a_crowded_room() -> None:
    rooms = [("a", 15), ("b", 16), ("gates/change", 19), ("a/b", 1), ("a/b/c", 1)]
    assert crowded(rooms) == ["b", "gates/change", "a/b/c"]


def test_a_room_has_at_most_fifteen_modules_and_one_room_in_it() -> None:
    modules = (module.parent for module in PACKAGE.rglob("*.py") if module.name != "__init__.py")
    rooms = Counter(str(room.relative_to(PACKAGE)) for room in modules)
    assert crowded(rooms.items()) == []


TYPES_ALONE: Final = ("airflow_streaming.model.metrics", "airflow_streaming.model.progress")
"""The table of metrics names the type of a batch, which takes its figures by that table."""


def imported(source: str) -> set[str]:
    """Return all that a module imports, wherever: in functions and for types alone as well."""
    found: set[str] = set()
    for node in nodes(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


def circle_in(sources: Mapping[str, str]) -> list[str]:
    """Return modules that import each other in a circle; none when there is no such circle."""
    graph = {
        name: {one for one in imported(source) if one in sources and (name, one) != TYPES_ALONE}
        for name, source in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        return list(err.args[1])
    return []


def test_the_guard_sees_a_circle_of_imports() -> None:
    lazy = "def f():\n    from b import g"
    assert circle_in({"a": lazy, "b": "from c import g", "c": "x = 1"}) == []
    assert set(circle_in({"a": lazy, "b": "from c import g", "c": "from a import f"})) == {*"abc"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts): path.read_text()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert circle_in(modules) == []


def missing_names(source: str) -> list[str]:
    """Return the names that a module imports from a benchmark that does not define them."""
    return [
        f"{node.module}.{alias.name}"
        for node in nodes(parsed(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmarks.")
        for alias in node.names
        if alias.name not in _defined_by(str(node.module))
    ]


@cache
def _defined_by(module: str) -> frozenset[str]:
    path = REPOSITORY / f"{module.replace('.', '/')}.py"
    if not path.exists():
        return frozenset()
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for one in targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return frozenset(found)


def test_no_benchmark_imports_what_another_has_lost() -> None:
    assert offenders(REPOSITORY / "benchmarks", missing_names) == {}


def test_the_guard_sees_a_name_that_a_benchmark_lacks() -> None:
    assert missing_names("from benchmarks.figures import nothing_such, table") == [
        "benchmarks.figures.nothing_such"
    ]


DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def low_constants(source: str) -> list[str]:
    """Return the constants below the first definition that could stand above it."""
    body = parsed(source).body
    first = next((i for i, node in enumerate(body) if isinstance(node, DEFINITIONS)), len(body))
    defined = {node.name for node in body if isinstance(node, DEFINITIONS)}
    low = []
    for node in body[first:]:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            defined |= _bound_in(node)
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for t in targets for one in ast.walk(t) if isinstance(one, ast.Name)]
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            continue
        needed = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
        if needed & defined:
            defined |= {*names}
        else:
            low += names
    return low


def _bound_in(node: ast.stmt) -> set[str]:
    """Return the names that a loop, a condition or a late import binds."""
    if isinstance(node, DEFINITIONS):
        return set()
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    late = (n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))
    return {n.id for n in stored if isinstance(n.ctx, ast.Store)} | {
        (alias.asname or alias.name).split(".")[0] for n in late for alias in n.names
    }


@pytest.mark.parametrize(
    ("source", "low"),
    [
        ("def f(): pass\nX = 1", ["X"]),
        ("class C: pass\n__all__ = ['C']", ["__all__"]),
        ("X = 1\ndef f(): pass", []),
        ("def f(): pass\nTABLE = {'f': f}\nKEYS = tuple(TABLE)", []),
        ("def f(): pass\nAlias = int | str", ["Alias"]),
        ("def f(): pass\nfrom a import b\nX = b()", []),
        ("def f(): pass\nf.x = 1", []),
        ("class C: pass\nA, B = C, 1\nX = A", []),
    ],
)
def test_the_guard_sees_a_constant_below_a_definition(source: str, low: list[str]) -> None:
    assert low_constants(source) == low


def test_constants_stand_above_the_first_definition() -> None:
    assert offenders(PACKAGE, low_constants) == {}


CODE: Final = (".py", ".js")
ABOUT_THE_TESTS: Final = frozenset({"faults", "fuzz"})
"""Folders that attack many rooms at once."""


def test_a_unit_test_is_named_after_a_module_of_its_room() -> None:
    tests = REPOSITORY / "tests" / "unit"
    files = [path.relative_to(tests) for path in tests.glob("*/**/test_*.py")]
    assert len(files) > 400
    misnamed = sorted(file.as_posix() for file in files if not has_subject(file, PACKAGE))

    assert misnamed == [], "Name each tests/unit/<room>/test_<module>_<aspect>.py."


def has_subject(file: Path, package: Path) -> bool:
    """Say whether ``<room>/test_<module>_<aspect>.py`` names a module, or a room, in its room."""
    room, words = file.parts[0], file.stem.split("_")[1:]
    if room in ABOUT_THE_TESTS:
        return True
    subjects = subjects_of(package / room)
    return any("_".join(words[:end]) in subjects for end in range(1, len(words) + 1))


@cache
def subjects_of(room: Path) -> frozenset[str]:
    modules = {path.stem for path in room.rglob("*.*") if path.suffix in CODE}
    return frozenset(
        {room.name, *modules, *(path.name for path in room.rglob("*") if path.is_dir())}
    )


def gone(folder: Path) -> list[str]:
    """Return the imports of tests from tests that name no module; a renamed test has friends in other folders."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in nodes(parsed(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests."):
                continue
            place = folder.parent / str(node.module).replace(".", "/")
            names = [] if place.with_suffix(".py").exists() else [one.name for one in node.names]
            found += [
                f"{path.relative_to(folder)}: {node.module}.{name}"
                for name in names
                if not (place / f"{name}.py").exists()
                and not (place / name).is_dir()
                and not defines(place / "__init__.py", name)
            ]
    return found


def defines(module: Path, name: str) -> bool:
    every = nodes(parsed(module.read_text())) if module.exists() else ()
    names = {getattr(node, "name", getattr(node, "id", None)) for node in every}
    return name in names | {getattr(node, "asname", None) for node in every}


def test_tests_import_only_tests_that_exist() -> None:
    assert gone(REPOSITORY / "tests") == []


def test_the_guard_sees_an_import_of_a_test_that_is_gone(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    (tests / "unit").mkdir(parents=True)
    (tests / "unit/test_here.py").write_text("")
    (tests / "test_one.py").write_text("from tests.unit import test_here, test_gone\n")

    assert gone(tests) == ["test_one.py: tests.unit.test_gone"]


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("room/test_lease.py", True),
        ("room/inner/test_lease_of_two.py", True),
        ("room/test_inner_end.py", True),
        ("room/test_leases.py", False),
        ("other/test_lease.py", False),
        ("fuzz/test_all.py", True),
    ],
)
def test_the_guard_sees_a_test_without_its_module(tmp_path: Path, name: str, has: bool) -> None:
    (tmp_path / "room" / "inner").mkdir(parents=True)
    (tmp_path / "room" / "lease.py").touch()

    assert has_subject(Path(name), tmp_path) is has
