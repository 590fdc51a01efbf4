"""
Inputs of code beside its own text: files, packages, environment, time zone, configuration of Spark.

Each such piece of the closure has a name and a digest. The names are over-approximated: every text of
the code that names an existing file counts as read.
"""

from __future__ import annotations

import ast
import base64
import functools
import hashlib
import importlib.metadata
import os
import re
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.code.code_imports import file_named, is_users
from airflow_streaming.driver.code.code_reads import called
from airflow_streaming.model.spark.plan import OPAQUE
from airflow_streaming.model.uris import is_local, local_path

MAX_FILE: Final = 64 * 1024 * 1024
"""Bytes of a data file that are read; of a larger one size and time of change count."""
_MAX_TEXT: Final = 260
_MAX_FOLDERS: Final = 200
_OF_SPARK: Final = frozenset({"pyspark", "py4j", "airflow_streaming"})
"""Packages whose version a plan holds elsewhere."""
_ENVIRONMENT: Final = frozenset({"environ", "environb", "getenv", "getenvb"})
_ENVIRONMENT_COMPUTED: Final = frozenset({"expandvars", "load_dotenv", "dotenv_values"})
_PROGRAMS: Final = frozenset(
    {"popen", "Popen", "system", "check_output", "check_call", "getoutput", "getstatusoutput"}
    | {"posix_spawn", "posix_spawnp", "spawnl", "spawnv", "spawnve", "execv", "execve", "execvp"}
    | {"create_subprocess_exec", "create_subprocess_shell"}
)
_TIMES: Final = frozenset(
    {"localtime", "now", "today", "fromtimestamp", "timestamp", "mktime", "astimezone", "tzlocal"}
    | {"strftime", "ctime", "tzname", "get_localzone", "to_pydatetime", "isoformat"}
    | {"hour", "minute", "weekday", "isoweekday", "day", "month", "year", "utcoffset", "asctime"}
)
_OF_LINES: Final = frozenset({".csv", ".tsv", ".json", ".jsonl", ".txt"})
"""Suffixes of files with a row in each line."""
_OF_CODE: Final = frozenset({".py", ".pyc", ".zip", ".egg", ".whl"})

# -- Configuration ------------------------------------------------------------------------------------------------

_CONF_KEY: Final = re.compile(r"spark\.[A-Za-z0-9_.-]+")


def digest_of(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(data).hexdigest()[:20]


# -- Files --------------------------------------------------------------------------------------------------------


def files_named(texts: Iterable[str], folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    Yield the name and digest of each existing file that a text names.

    :param folders: Where relative names are looked for; folders that texts name are added.
    """
    names = sorted(text for text in {*texts} if _may_be_path(text))
    places = dict.fromkeys(Path(folder).resolve() for folder in folders if Path(folder).is_dir())
    for name in names:
        for folder in [*places]:
            if (folder / name).is_dir() and len(places) < _MAX_FOLDERS:
                places[(folder / name).resolve()] = None
    for name in names:
        paths = {(folder / name).resolve() for folder in places if (folder / name).is_file()}
        digests = [_digest_of_file(path) for path in sorted(paths) if path.suffix not in _OF_CODE]
        if digests:
            yield f"file {name}", "+".join(digests)


def tables_beside(
    script: str, uris: Iterable[str], options: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """
    Yield the name and digest of each file in the script's folder that a static table reads.

    It belongs to the version of the script. The order of rows in a text does not count.
    """
    if not script:
        return
    folder = Path(script).resolve().parent
    for uri in sorted(uris):
        path = Path(local_path(uri)).resolve() if is_local(uri) else None
        if path is not None and path.is_relative_to(folder) and path.is_file():
            yield f"table {path.relative_to(folder)}", _digest_of_table(path, options)


# -- Packages -----------------------------------------------------------------------------------------------------


def packages(tops: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and digest of each installed distribution behind first names of modules."""
    waiting = [name for top in sorted({*tops}) for name in _distributions_of(top)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name in _OF_SPARK:
            continue
        seen.add(name)
        version, requires = _distribution(name)
        if version:
            yield f"package {name.lstrip(chr(61))}", version
        waiting += requires


# -- Environment and time zone ------------------------------------------------------------------------------------


def environment(
    nodes: Collection[ast.AST], words: Iterable[str], workers: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """
    Yield the variables of the environment that code reads.

    :param workers: What Spark adds to the environment of workers, e.g. by ``spark.executorEnv.TZ``.
    """
    named = {*words}
    by_computed_name = "os" in named and any(map(_gets_computed, _calls(nodes)))
    if by_computed_name:
        yield "environment", f"{OPAQUE} read by a computed name"
    if not named & (_ENVIRONMENT | _ENVIRONMENT_COMPUTED):
        return
    found = [key for node in nodes if (key := _key_in(node)) is not None]
    keys = {str(key.value) for key in found if isinstance(key, ast.Constant) and _is_text(key)}
    uses = sum(map(_is_environment, nodes))
    is_literal = bool(found) and len(found) == uses and all(map(_is_text, found))
    if not by_computed_name and (named & _ENVIRONMENT_COMPUTED or not is_literal):
        yield "environment", f"{OPAQUE} read by a computed name"
    for name in sorted(keys):
        yield f"environment {name}", _digest_of_variable(name, workers)


def programs(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield a piece where code starts other programs, whose input the closure cannot hold."""
    for node in _calls(nodes):
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if called(node) in _PROGRAMS or owner == "subprocess":
            yield "other programs", f"{OPAQUE} their input"
            return


def zone(words: Iterable[str], workers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """
    Yield the time zone of the process and of its workers, where code works with times.

    :param workers: See ``environment``.
    """
    if _TIMES.intersection(words):
        of_workers = [workers["TZ"]] if "TZ" in workers else []
        yield "time zone", "/".join((*time.tzname, str(time.timezone), *of_workers))


def environment_of_workers() -> Mapping[str, str]:
    """Return the variables that Spark adds to the environment of Python workers; nothing without a session."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return dict(getattr(active, "environment", None) or {})


def configuration(texts: Iterable[str], read: Any) -> Iterator[tuple[str, str]]:
    """
    Yield the keys of Spark's configuration that code names.

    :param read: Returns the value of a key, ``None`` without one.
    """
    for key in sorted({text for text in texts if _CONF_KEY.fullmatch(text)}):
        value = read(key)
        yield f"configuration {key}", "not set" if value is None else digest_of(str(value).encode())


def _may_be_path(text: str) -> bool:
    return (
        0 < len(text) <= _MAX_TEXT
        and "\0" not in text
        and "\n" not in text
        and text not in (".", "..", "/")
    )


def _digest_of_file(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > MAX_FILE:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return _read(path, status.st_size, status.st_mtime_ns)
    except OSError as err:
        return f"{OPAQUE} {type(err).__name__}"


@functools.lru_cache(maxsize=1024)
def _read(path: Path, size: int, changed: int) -> str:
    return digest_of(path.read_bytes())


def _digest_of_table(path: Path, options: Mapping[str, str]) -> str:
    given = {name.lower(): value.lower() for name, value in options.items()}
    if path.suffix not in _OF_LINES or {"multiline", "linesep"} & given.keys():
        return _digest_of_file(path)
    try:
        if path.stat().st_size > MAX_FILE:
            return _digest_of_file(path)
        lines = path.read_bytes().splitlines()
    except OSError as err:
        return f"{OPAQUE} {type(err).__name__}"
    return digest_of(b"\n".join([*lines[:1], *sorted(lines[1:])]))


@functools.cache
def _distributions_of(top: str) -> tuple[str, ...]:
    if top in sys.stdlib_module_names or top in _OF_SPARK or not top:
        return ()
    file = file_named(top)
    if not file or is_users(top, file):
        return ()
    site = Path(file).parent.parent if Path(file).stem == "__init__" else Path(file).parent
    names = tuple(sorted(_plain_name(name) for name in _with_files_of(top, site)))
    return names or (f"={top}",)


def _with_files_of(top: str, site: Path) -> Iterator[str]:
    """Yield the distributions in a folder that installed files of a first name."""
    begin = re.compile(rf"^{re.escape(top)}(/|\.(?!dist-info))", re.MULTILINE)
    for found in importlib.metadata.distributions(path=[str(site)]):
        if begin.search(found.read_text("RECORD") or ""):
            yield found.metadata["Name"]


@functools.cache
def _distribution(name: str) -> tuple[str, tuple[str, ...]]:
    if name.startswith("="):
        return _digest_of_folder(file_named(name[1:])), ()
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return "", ()
    record = found.read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if _is_code(line))
    requires = {
        _plain_name(re.split(r"[^\w.-]", one, maxsplit=1)[0])
        for one in found.requires or ()
        if "extra" not in one
    }
    pieces = [*lines, *_edited(found, lines)]
    digest = digest_of("\n".join(pieces).encode()) if pieces else ""
    return f"{found.version} {digest}".strip(), tuple(sorted(requires))


def _edited(found: importlib.metadata.Distribution, lines: Iterable[str]) -> Iterator[str]:
    """
    Yield the files that are no longer as the installer recorded them, each with its digest.

    A file of the recorded size that is older than the record is not read.
    """
    notes = [one for one in found.files or () if str(one).endswith(".dist-info/RECORD")]
    recorded = max((_changed(Path(str(found.locate_file(one)))) for one in notes), default=0)
    for line in lines:
        name, digest, size = (*line.rsplit(",", 2), "")[:3]
        path = Path(str(found.locate_file(name.strip('"'))))
        try:
            status = path.stat()
            if str(status.st_size) == size and status.st_mtime_ns <= recorded:
                continue
            now = _recorded_digest(path, status)
        except (OSError, ValueError) as err:
            now = type(err).__name__
        if now != digest:
            yield f"{name} {now}"


def _recorded_digest(path: Path, status: os.stat_result) -> str:
    """Return the digest of a file as a ``RECORD`` writes it; of a device or a large file its size and time."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
        return f"{status.st_size} bytes of {status.st_mtime_ns}"
    sha = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
    return f"sha256={sha.decode().rstrip('=')}"


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _is_code(line: str) -> bool:
    # Compiled modules, scripts and notes of the installer differ from host to host.
    path, _, digest = line.partition(",")
    return bool(digest.strip(",")) and ".dist-info/" not in path and not path.startswith("..")


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest_of_folder(file: str) -> str:
    """Return the digest of a package that no installer recorded."""
    path = Path(file)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return digest_of(b"\0".join(one.read_bytes() for one in files))


def _key_in(node: ast.AST) -> ast.expr | None:
    """Return the name of the variable that a part of code reads from the environment."""
    match node:
        case ast.Subscript(value=owner, slice=key) if _is_environment(owner):
            return key
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[key, *_]) if (
            _is_environment(owner)
        ):
            return key
        case ast.Call(func=function, args=[key, *_]) if _is_environment(function):
            return key
        case ast.Compare(left=key, comparators=[owner]) if _is_environment(owner):
            return key
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_environment(node: ast.AST) -> bool:
    return (getattr(node, "attr", None) or getattr(node, "id", "")) in _ENVIRONMENT


def _digest_of_variable(key: str, workers: Mapping[str, str]) -> str:
    values = (os.environ.get(key), workers.get(key))
    if values == (None, None):
        return "not set"
    return digest_of(repr(values).encode("utf-8", "surrogatepass"))


def _calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in nodes if isinstance(node, ast.Call))


def _gets_computed(node: ast.Call) -> bool:
    """Tell whether a call reads an attribute by a name that the code computes."""
    return called(node) in ("getattr", "__getattribute__") and not any(map(_is_text, node.args))
