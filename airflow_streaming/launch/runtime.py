"""
A runtime: a named Spark installation, its version and its Java.

Two layouts are known: a virtual environment with ``pyspark`` in it, and a SPARK_HOME as Spark is
downloaded. Nothing is executed to find out; versions are read from file names and text.

Spark never runs from Airflow's own environment. Everything that can be wrong with an installation
is found here, before a driver is started, without executing anything in it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import RuntimeNotFound
from airflow_streaming.launch.java import check_java, find_java
from airflow_streaming.model.spark.releases import NEWEST, OLDEST

_CORE_JAR: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+.*)\.jar")
_VERSION: Final = re.compile(
    r"""^__version__\s*(?::\s*str\s*)?=\s*['"]([^'"]+)['"]""", re.MULTILINE
)
_PYTHON: Final = re.compile(r"python(\d+)\.(\d+)")
_CONFIG_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", re.MULTILINE)

OLDEST_PYTHON: Final = (3, 11)
_HOW: Final = (
    "Define it under [streaming] runtimes as JSON, e.g. "
    '{"spark-4.3": "/opt/spark-4.3"}, with the path of a virtual environment or a SPARK_HOME.'
)
_IMAGE: Final = re.compile(r"[A-Za-z0-9._/:@-]{0,300}")
_PATHS: Final = frozenset({"path", "python", "java_home"})
_KEYS: Final = _PATHS | {"image"}


def find_spark_home(runtime: str, path: Path) -> Path:
    """
    Return the SPARK_HOME in a runtime's folder, with a runnable spark-submit and jars.

    :raises RuntimeNotFound: names the missing part.
    """
    if not path.is_dir():
        raise RuntimeNotFound(
            f"Runtime {runtime!r} is configured at {path}, but this folder does not exist. "
            "Correct the path under [streaming] runtimes, or create the runtime there."
        )
    home = find_pyspark(path) or path
    if is_pyspark_package(home) and not (home / "jars").is_dir():
        raise RuntimeNotFound(
            f"Runtime {runtime!r} at {path} has pyspark without Spark's jars: that is "
            "pyspark-client, for Spark Connect only. Install pyspark there instead."
        )
    submit = home / "bin" / "spark-submit"
    if not submit.is_file():
        raise RuntimeNotFound(
            f"Runtime {runtime!r} at {path} has no spark-submit (expected {submit}). "
            "Give a virtual environment with pyspark installed, or a SPARK_HOME."
        )
    if not os.access(submit, os.X_OK):
        raise RuntimeNotFound(
            f"Runtime {runtime!r}: {submit} may not be executed by this user. "
            f"Run 'chmod +x {submit}'."
        )
    return home


def find_pyspark(path: Path) -> Path | None:
    """Return the ``pyspark`` package of a virtual environment, if it has one."""
    found = sorted(path.glob("lib/python3*/site-packages/pyspark"))
    return found[0] if found else None


def is_pyspark_package(home: Path) -> bool:
    """Tell whether the folder is an installed ``pyspark`` package."""
    return (home / "version.py").is_file()


def read_spark_version(runtime: str, home: Path) -> str:
    """
    Return Spark's version.

    :raises RuntimeNotFound: nothing tells it.
    """
    for jar in sorted((home / "jars").glob("spark-core_*.jar")):
        if match := _CORE_JAR.fullmatch(jar.name):
            return match[1]
    for text in (home / "version.py", home / "python" / "pyspark" / "version.py"):
        if text.is_file() and (match := _VERSION.search(text.read_text(errors="replace"))):
            return match[1]
    raise RuntimeNotFound(
        f"Runtime {runtime!r} at {home} does not tell its Spark version: jars/ has no spark-core "
        "jar. The installation is incomplete; install it again."
    )


def read_python_version(python: Path) -> tuple[int, int] | None:
    """Return the version of a Python interpreter, ``None`` where no file or name tells it."""
    prefix = python.parent.parent
    try:
        match = _CONFIG_VERSION.search((prefix / "pyvenv.cfg").read_text(errors="replace"))
    except OSError:
        match = None
    match = match or _PYTHON.fullmatch(python.resolve().name)
    if match is None:
        folders = [folder.name for folder in prefix.glob("lib/python3.*")]
        match = _PYTHON.fullmatch(folders[0]) if len(folders) == 1 else None
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    A Spark installation that was checked.

    :param python: The interpreter of the driver, and of the workers where they are local.
    :param java_home: ``None`` when ``java`` on PATH does not tell where it lives.
    :param java: Feature release of its Java, such as 17; 0 if not read.
    :param image: Container image with the same Spark, for drivers and executors on Kubernetes; this
        host's installation then submits.
    """

    name: str
    spark_home: Path
    python: Path
    java_home: Path | None
    spark_version: str
    java: int = 0
    image: str = ""

    @property
    def spark_submit(self) -> Path:
        """Return the runtime's own ``spark-submit``."""
        return self.spark_home / "bin" / "spark-submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    path: Path
    python: Path | None
    java_home: Path | None
    image: str


def resolve_runtime(
    name: str, table: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Runtime:
    """
    Return the runtime of that name, checked.

    :param table: The ``[streaming] runtimes`` setting: name to path, or to an object with ``path``
        and optionally ``python``, ``java_home`` and ``image``.
    :param environment: Where JAVA_HOME and PATH are looked up.
    :raises RuntimeNotFound: unknown, incomplete, or a combination that does not run.
    """
    entry = _read_entry(name, table)
    home = find_spark_home(name, entry.path)
    version = read_spark_version(name, home)
    spark = _check_spark(name, version, home)
    python = _find_python(name, entry, environment)
    java = find_java(name, entry.java_home, environment)
    check_java(name, java, spark)
    return Runtime(
        name=name,
        spark_home=home,
        python=python,
        java_home=java.home,
        spark_version=version,
        java=java.feature,
        image=entry.image,
    )


def _read_entry(name: str, table: Mapping[str, Any]) -> _Entry:
    if name not in table:
        known = ", ".join(sorted(map(repr, table))) or "none"
        raise RuntimeNotFound(f"Unknown runtime {name!r}; known runtimes: {known}. {_HOW}")
    value = table[name]
    fields = {"path": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or "path" not in fields or not _KEYS.issuperset(fields):
        raise RuntimeNotFound(
            f"Runtime {name!r} must be a path, or an object with 'path' and perhaps 'python', "
            f"'java_home' and 'image'; found {value!r:.200}. Correct it under [streaming] runtimes."
        )
    paths = {key: _read_path(name, key, fields.get(key)) for key in _PATHS}
    image = fields.get("image") or ""
    if not isinstance(image, str) or not _IMAGE.fullmatch(image):
        raise RuntimeNotFound(
            f"Runtime {name!r}: {image!r:.200} is not the name of a container image. Correct it under "
            "[streaming] runtimes."
        )
    path = paths["path"]
    if path is None:
        raise RuntimeNotFound(f"Runtime {name!r} has an empty path. {_HOW}")
    return _Entry(path=path, python=paths["python"], java_home=paths["java_home"], image=image)


def expanded(path: str) -> Path:
    """Return a path with its ``~`` replaced by the home folder; unchanged for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _read_path(name: str, key: str, value: Any) -> Path | None:
    if value is None or value == "":
        return None
    path = expanded(value) if isinstance(value, str) else Path()
    if not path.is_absolute():
        raise RuntimeNotFound(
            f"Runtime {name!r}: {key} must be an absolute path, found {value!r:.200}. "
            "Correct it under [streaming] runtimes."
        )
    return path


def _check_spark(name: str, version: str, home: Path) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    spark = (int(match[1]), int(match[2])) if match else (0, 0)
    if not OLDEST.version <= spark <= NEWEST.version:
        raise RuntimeNotFound(
            f"Runtime {name!r} at {home} has Spark {version}; this release runs Spark "
            f"{OLDEST.name} to {NEWEST.name}. Name another runtime, or install a Spark of that range there."
        )
    return spark


def _find_python(name: str, entry: _Entry, environment: Mapping[str, str]) -> Path:
    python = entry.python or _default_python(entry.path, environment)
    if python is None or not os.access(python, os.X_OK):
        raise RuntimeNotFound(
            f"Runtime {name!r} at {entry.path} has no Python that can be run"
            f"{f' ({python})' if python else ''}. Name one as 'python' in its setting."
        )
    version = read_python_version(python)
    if version is not None and version < OLDEST_PYTHON:
        raise RuntimeNotFound(
            f"Runtime {name!r} has Python {version[0]}.{version[1]} ({python}); the driver needs "
            "Python 3.11 or newer. Create the runtime with a newer Python, or name one as 'python'."
        )
    return python


def _default_python(path: Path, environment: Mapping[str, str]) -> Path | None:
    if find_pyspark(path) is not None:
        return path / "bin" / "python"
    # As spark-submit does for a SPARK_HOME.
    found = shutil.which("python3", path=environment.get("PATH", ""))
    return Path(found) if found else None
