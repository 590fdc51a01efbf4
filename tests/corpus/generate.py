"""
Random edits of user code, with the truth: the outputs of the old and the new function.

An edit is made without a look at the rules: a statement, a constant, a base, a decorator, a data file, a
variable of the environment, an installed package, or one of the edits that programmers call harmless. Each
version is run in processes of its own: one makes the function, reads its closure and pickles it as Spark does,
another loads and calls it.

    python -m tests.corpus.generate --seed 1 --edits 1000
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import ast
import collections
import copy
import json
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.corpus.projects import Project, projects

Tree = ast.Module
_SECONDS: Final = 120


@dataclass(frozen=True, kw_only=True)
class Version:
    """What one version of a project gave."""

    code: str = ""
    pieces: Mapping[str, str]
    output: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """An edit with its truth and its answer."""

    project: str
    kind: str
    file: str
    is_harmless: bool
    """By its kind: a programmer would expect no change."""
    is_same: bool
    """Both versions gave the same outputs."""
    is_allowed: bool
    """Both versions have the same closure."""
    why: str
    detail: str = ""


# -- Running ------------------------------------------------------------------------------------------------------


def _in_child(work: Callable[[], Any]) -> Any:
    """Return the result of a function that runs in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            told = pickle.dumps(work())
        except BaseException:  # noqa: BLE001 - the edited code may raise anything
            told = pickle.dumps(RuntimeError(traceback.format_exc(limit=-2)))
        with os.fdopen(write, "wb") as pipe:
            pipe.write(told)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else RuntimeError("ended")  # noqa: S301 - of this process's child


def _enter(project: Project, folder: Path) -> None:
    import signal

    signal.alarm(_SECONDS)
    os.chdir(folder)
    os.environ.update(project.environment)
    time.tzset()
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(folder), str(folder / "site-packages")]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)


def _made(project: Project, folder: Path) -> tuple[bytes, str, dict[str, str]]:
    from pyspark import cloudpickle

    from airflow_streaming.driver.code.functions import closure_of
    from airflow_streaming.driver.script import _execute

    _enter(project, folder)
    _execute(str(folder / "script.py"), (folder / "script.py").read_bytes(), ())
    data = cloudpickle.dumps(sys.modules["__main__"].__dict__["f"])
    closure = closure_of(cloudpickle.loads(data))
    return data, closure.code, dict(closure.pieces)


def _called(project: Project, folder: Path, data: bytes) -> str:
    _enter(project, folder)
    function = pickle.loads(data)  # noqa: S301 - of this process's child
    told = []
    for arguments in project.calls:
        try:
            told.append(repr(function(*arguments)))
        except Exception as err:  # noqa: BLE001 - as above
            told.append(f"{type(err).__name__}: {err}")
    return "; ".join(told)


def run(project: Project, root: Path) -> Version:
    """Run one version of a project in a folder that both versions have in turn."""
    folder = root / "project"
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in project.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = _in_child(lambda: _made(project, folder))
    if isinstance(made, Exception):
        return Version(pieces={}, error=str(made))
    data, code, pieces = made
    output = _in_child(lambda: _called(project, folder, data))
    return Version(code=code, pieces=pieces, output=str(output))


# -- Edits that may change something ------------------------------------------------------------------------------

_SWAPS: Final[Mapping[type, type]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Gt: ast.LtE,
    ast.Lt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.In: ast.NotIn,
}
Edit = Callable[[Tree, random.Random], str]


def _constant(tree: Tree, chance: random.Random) -> str:
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value is not ...]
    node = chance.choice(nodes)
    old = node.value
    node.value = {
        bool: lambda: not old,
        int: lambda: old + chance.choice((-1, 1, 7)),
        float: lambda: old + 0.5,
        str: lambda: chance.choice((old + "x", old[1:] or "y", old.upper())),
        type(None): lambda: 0,
    }.get(type(old), lambda: 1)()
    return f"line {node.lineno}: {old!r} -> {node.value!r}"


def _operator(tree: Tree, chance: random.Random) -> str:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in _SWAPS:
            found.append((node, "op", type(node.op)))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
            found.append((node, "ops", type(node.ops[0])))
    node, name, kind = chance.choice(found)
    new = _SWAPS[kind]()
    setattr(node, name, [new, *node.ops[1:]] if name == "ops" else new)
    return f"line {node.lineno}: {kind.__name__} -> {type(new).__name__}"


def _bodies(tree: Tree) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _removed(tree: Tree, chance: random.Random) -> str:
    body = chance.choice([one for one in _bodies(tree) if len(one) > 1])
    gone = body.pop(chance.randrange(len(body)))
    return f"line {gone.lineno}: without {ast.unparse(gone)[:60]!r}"


def _swapped(tree: Tree, chance: random.Random) -> str:
    body = chance.choice([one for one in _bodies(tree) if len(one) > 1])
    place = chance.randrange(len(body) - 1)
    body[place], body[place + 1] = body[place + 1], body[place]
    return f"line {body[place].lineno}: statements in another order"


def _another_name(tree: Tree, chance: random.Random) -> str:
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    node, other = chance.choice(loads), chance.choice(loads)
    old, node.id = node.id, other.id
    return f"line {node.lineno}: {old} -> {node.id}"


def _attribute(tree: Tree, chance: random.Random) -> str:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    node, other = chance.choice(found), chance.choice(found)
    old, node.attr = node.attr, other.attr
    return f"line {node.lineno}: .{old} -> .{node.attr}"


def _undecorated(tree: Tree, chance: random.Random) -> str:
    found = [n for n in ast.walk(tree) if getattr(n, "decorator_list", None)]
    node = chance.choice(found)
    gone = node.decorator_list.pop(chance.randrange(len(node.decorator_list)))
    return f"line {node.lineno}: without @{ast.unparse(gone)}"


def _base(tree: Tree, chance: random.Random) -> str:
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    node = chance.choice([n for n in classes if n.bases or n.keywords])
    if node.keywords and chance.random() < 0.6:
        gone = ast.unparse(node.keywords.pop())
    else:
        gone = ast.unparse(node.bases.pop()) if node.bases else ""
    return f"line {node.lineno}: without the base {gone}"


def _method(tree: Tree, chance: random.Random) -> str:
    node = chance.choice([n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)])
    name = chance.choice(
        ("__len__", "__bool__", "__eq__", "__str__", "__getattr__", "__call__", "__iter__")
    )
    arguments = {"__eq__": "self, other", "__getattr__": "self, name", "__call__": "self, *a"}.get(
        name, "self"
    )
    node.body.append(ast.parse(f"def {name}({arguments}): return 0").body[0])
    return f"line {node.lineno}: with {name}"


def _early_return(tree: Tree, chance: random.Random) -> str:
    node = chance.choice([n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)])
    text = chance.choice(("return 0", "raise ValueError('no')", "global LIMIT; LIMIT = 5", "x = 1"))
    node.body.insert(
        chance.randrange(len(node.body) + 1), ast.parse(text.replace("; ", "\n")).body[0]
    )
    return f"line {node.lineno}: with {text!r}"


def _at_import(tree: Tree, chance: random.Random) -> str:
    """Put a statement with an effect at the module's end."""
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    values = [
        t.id
        for n in tree.body
        if isinstance(n, ast.Assign)
        for t in n.targets
        if isinstance(t, ast.Name)
    ]
    text = chance.choice(
        [f"{name} = lambda *a, **k: 5" for name in names]
        + [f"{name}.extra_attribute = 5" for name in names]
        + [f"{name} = 5" for name in values]
        + [f"del {name}" for name in (*names, *values)]
        + [
            "import builtins; builtins.len = lambda x: 3",
            "import json; json.dumps = lambda *a: 'x'",
        ]
    )
    tree.body += ast.parse(text).body
    return f"at the end: {text}"


CHANGES: Final[Mapping[str, Edit]] = {
    "constant": _constant,
    "operator": _operator,
    "removed": _removed,
    "swapped": _swapped,
    "name": _another_name,
    "attribute": _attribute,
    "decorator": _undecorated,
    "base": _base,
    "method": _method,
    "statement": _early_return,
    "at_import": _at_import,
}


# -- Edits that programmers call harmless -------------------------------------------------------------------------


def _functions(tree: Tree) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]


def _log_line(tree: Tree, chance: random.Random) -> str:
    node = chance.choice([n for n in _functions(tree) if n.name != "__getattr__"])
    names = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
    told = f', "{names[0]}: %s", {names[0]}' if names and chance.random() < 0.6 else ', "here"'
    text = chance.choice(
        (f"logging.getLogger('job').info({told[2:]})", f"log.info({told[2:]})", "print('here')")
    )
    if text.startswith(("log.", "logging.")):
        text = f"log.info({told[2:]})"
        head = ast.parse("import logging\nlog = logging.getLogger('job')\n").body
        if not any(
            isinstance(n, ast.Assign) and ast.unparse(n).startswith("log = ") for n in tree.body
        ):
            place = _behind_imports(tree)
            tree.body[place:place] = head
    start = 1 if ast.get_docstring(node) is not None else 0
    node.body.insert(start, ast.parse(text).body[0])
    return f"{node.name}: {text}"


def _behind_imports(tree: Tree) -> int:
    places = [0] + [
        place + 1
        for place, n in enumerate(tree.body)
        if isinstance(n, ast.Import | ast.ImportFrom) or (place == 0 and isinstance(n, ast.Expr))
    ]
    ends = [
        p
        for p in places
        if all(isinstance(n, ast.Import | ast.ImportFrom | ast.Expr) for n in tree.body[:p])
    ]
    return max(ends)


def _helper(tree: Tree, chance: random.Random) -> str:
    """Move the end of a function, or an expression of it, into a helper."""
    tops = [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and n.args.args and not n.decorator_list
    ]
    tops = [
        n
        for n in tops
        if not any(
            isinstance(x, ast.Yield | ast.Nonlocal | ast.Global | ast.FunctionDef)
            for s in n.body
            for x in ast.walk(s)
        )
    ]
    node = chance.choice(tops)
    local = {a.arg for a in node.args.args} | {
        x.id
        for s in node.body
        for x in ast.walk(s)
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
    }
    place = chance.choice(
        [p for p, s in enumerate(node.body) if p or ast.get_docstring(node) is None]
    )
    moved = node.body[place:]
    used = sorted({x.id for s in moved for x in ast.walk(s) if isinstance(x, ast.Name)} & local)
    before = {a.arg for a in node.args.args} | {
        t.id
        for s in node.body[:place]
        if isinstance(s, ast.Assign)
        for t in s.targets
        if isinstance(t, ast.Name)
    }
    stored = {
        x.id
        for s in moved
        for x in ast.walk(s)
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
    }
    needed = [name for name in used if name in before]
    if stored & before or any(name not in before and name not in stored for name in used):
        raise IndexError("not to be moved")
    helper = f"_{node.name}_rest"
    text = f"def {helper}({', '.join(needed)}): pass"
    made = ast.parse(text).body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body = moved
    call = f"return {helper}({', '.join(needed)})"
    node.body = [*node.body[:place], *ast.parse(call).body]
    tree.body.insert(tree.body.index(node) + chance.randrange(2), made)
    return f"{node.name}: {len(moved)} statements into a helper"


def _hints(tree: Tree, chance: random.Random) -> str:
    node = chance.choice(_functions(tree))
    for one in node.args.args:
        if one.arg not in ("self", "cls"):
            one.annotation = ast.parse(
                chance.choice(("int", "str | None", "'list[int]'")), mode="eval"
            ).body
    if node.returns is None or chance.random() < 0.5:
        node.returns = ast.parse("object", mode="eval").body
    for place, one in enumerate(node.body):
        if (
            isinstance(one, ast.Assign)
            and len(one.targets) == 1
            and isinstance(one.targets[0], ast.Name)
            and chance.random() < 0.5
        ):
            node.body[place] = ast.AnnAssign(
                target=one.targets[0],
                annotation=ast.Name("int", ast.Load()),
                value=one.value,
                simple=1,
            )
    return f"{node.name}: hints"


def _order(tree: Tree, chance: random.Random) -> str:
    runs: list[list[int]] = [[]]
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            runs[-1].append(place)
        else:
            runs.append([])
    run_ = chance.choice([one for one in runs if len(one) > 1])
    nodes = [tree.body[p] for p in run_]
    chance.shuffle(nodes)
    for place, node in zip(run_, nodes, strict=True):
        tree.body[place] = node
    return "definitions in another order"


def _locals(tree: Tree, chance: random.Random) -> str:
    found = []
    for node in _functions(tree):
        inner = [x for s in node.body for x in ast.walk(s)]
        if any(
            isinstance(x, ast.Global | ast.Nonlocal | ast.FunctionDef | ast.ClassDef | ast.Lambda)
            for x in inner
        ):
            continue
        stored = {x.id for x in inner if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        stored -= {a.arg for a in node.args.args}
        found += [(node, name) for name in sorted(stored)]
    node, name = chance.choice(found)
    for x in ast.walk(node):
        if isinstance(x, ast.Name) and x.id == name:
            x.id = f"{name}_renamed"
    return f"{node.name}: {name} renamed"


def _formatted(tree: Tree, chance: random.Random) -> str:
    return "formatted anew, without comments"


def _docs(tree: Tree, chance: random.Random) -> str:
    node = chance.choice(_functions(tree))
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]
    node.body.insert(0, ast.Expr(ast.Constant("What it does, in other words.")))
    return f"{node.name}: docstring"


def _unused(tree: Tree, chance: random.Random) -> str:
    text = chance.choice(
        (
            "def not_used_at_all(x):\n    return x * 12345",
            "NOT_USED_AT_ALL = 12345",
            "class NotUsedAtAll:\n    value = 12345",
            "import textwrap",
        )
    )
    place = chance.randrange(_behind_imports(tree), len(tree.body) + 1)
    tree.body[place:place] = ast.parse(text).body
    return text.splitlines()[0]


HARMLESS: Final[Mapping[str, Edit]] = {
    "log_line": _log_line,
    "helper": _helper,
    "hints": _hints,
    "order": _order,
    "locals": _locals,
    "formatted": _formatted,
    "docs": _docs,
    "unused": _unused,
}


# -- Edits beside the code ----------------------------------------------------------------------------------------


def _beside(project: Project, chance: random.Random) -> tuple[Project, str, str, str, bool]:
    """Return a project with another data file, package, environment, or one file more."""
    data = [name for name in project.files if name.endswith(".json")]
    kinds = ["unused_module", "environment_unused"]
    kinds += ["data"] * bool(data) + ["environment"] * bool(project.environment)
    kind = chance.choice(kinds)
    if kind == "unused_module":
        files = {**project.files, "brand_new.py": "VALUE = 3\n\ndef g(x):\n    return x\n"}
        return replace(project, files=files), kind, "brand_new.py", "one more module", True
    if kind == "environment_unused":
        more = {**project.environment, "NOBODY_READS_IT": str(chance.random())}
        return replace(project, environment=more), kind, "", "one more variable", True
    if kind == "data":
        name = chance.choice(data)
        old = project.files[name]
        digits = [p for p, letter in enumerate(old) if letter.isdigit()]
        place = chance.choice(digits)
        text = old[:place] + str((int(old[place]) + 3) % 10) + old[place + 1 :]
        return replace(project, files={**project.files, name: text}), kind, name, text[:40], False
    key = chance.choice(sorted(project.environment))
    value = {"TZ": "America/New_York", "RATE": "8"}.get(key, "other")
    more = {**project.environment, key: value}
    return replace(project, environment=more), kind, "", f"{key}={value}", False


def edits(seed: int, count: int) -> Iterator[tuple[Project, Project, str, str, str, bool]]:
    """Yield old and new project, the kind of the edit, its file, a word about it, whether it is harmless."""
    known = [*projects()]
    chance = random.Random(seed)
    made = 0
    while made < count:
        project = chance.choice(known)
        way = chance.random()
        if way < 0.12:
            new, kind, file, detail, harmless = _beside(project, chance)
        else:
            harmless = way < 0.45
            kind = chance.choice(sorted(HARMLESS if harmless else CHANGES))
            # Nobody edits an installed package and calls it harmless.
            left_out = "site-packages/" if harmless else "."
            codes = [name for name in project.files if name.endswith(".py")]
            file = chance.choice([name for name in codes if not name.startswith(left_out)])
            tree = ast.parse(project.files[file])
            try:
                detail = (HARMLESS if harmless else CHANGES)[kind](tree, chance)
                text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree)))
            except (IndexError, ValueError, KeyError, TypeError):
                continue  # the file has no such thing
            new = replace(project, files={**project.files, file: text})
        made += 1
        yield project, new, kind, file, detail, harmless


def _warm() -> None:
    """Import once what each child needs."""
    import pandas  # noqa: F401
    from pyspark import cloudpickle  # noqa: F401

    from airflow_streaming.driver import script  # noqa: F401
    from airflow_streaming.driver.code import functions  # noqa: F401


def tried(seed: int, count: int) -> Iterator[Tried]:
    """Make edits and yield each with its truth and its answer."""
    _warm()
    root = Path(tempfile.mkdtemp(prefix="edits-"))
    before: dict[str, Version] = {}
    try:
        for old, new, kind, file, detail, harmless in edits(seed, count):
            if old.name not in before:
                before[old.name] = run(old, root)
                assert not before[old.name].error, (old.name, before[old.name].error)
                assert "Traceback" not in before[old.name].output, before[old.name].output
            was, now = before[old.name], run(new, root)
            differing = sorted(
                name
                for name in {*was.pieces, *now.pieces}
                if was.pieces.get(name) != now.pieces.get(name)
                or "opaque:" in was.pieces.get(name, "")
            )
            is_opaque = was.code.startswith("opaque:") or now.code.startswith("opaque:")
            why = [
                *(["opaque " + now.code] if is_opaque else ["code"] * (was.code != now.code)),
                *differing,
            ]
            yield Tried(
                project=old.name,
                kind=kind,
                file=file,
                is_harmless=harmless,
                is_same=not now.error and was.output == now.output,
                is_allowed=not why and not now.error,
                why=", ".join(why) or now.error.strip().rpartition("\n")[2],
                detail=detail,
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    """Print a table of the edits by kind, every false answer, and what was refused in vain."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", type=int, default=300)
    parser.add_argument(
        "--show", action="store_true", help="show every harmless edit that is not allowed"
    )
    arguments = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    started = time.monotonic()
    for one in tried(arguments.seed, arguments.edits):
        answer = "allowed" if one.is_allowed else "not"
        counts[("harmless " if one.is_harmless else "") + one.kind][
            f"{'same' if one.is_same else 'other'} {answer}"
        ] += 1
        if one.is_allowed and not one.is_same:
            print("FALSE", json.dumps(one.__dict__), flush=True)
        elif arguments.show and one.is_harmless and one.is_same and not one.is_allowed:
            print("vain", json.dumps(one.__dict__), flush=True)
    whole: collections.Counter[str] = collections.Counter()
    for kind, found in sorted(counts.items()):
        print(f"{kind:32}", dict(sorted(found.items())))
        whole.update(
            {
                f"{'harmless ' if kind.startswith('harmless') else ''}{k}": v
                for k, v in found.items()
            }
        )
    print(dict(whole), f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
