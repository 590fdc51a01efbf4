"""
A runtime is a named Spark installation: a name in a dag, a folder in the deployment's settings.

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
from airflow_streaming.launch.installation import (
    find_pyspark,
    find_spark_home,
    read_python_version,
    read_spark_version,
)
from airflow_streaming.launch.java import check_java, find_java

OLDEST_SPARK: Final = (3, 5)
NEWEST_SPARK: Final = (4, 3)
OLDEST_PYTHON: Final = (3, 11)

_HOW: Final = (
    "Define it under [streaming] runtimes as JSON, e.g. "
    '{"spark-4.3": "/opt/spark-4.3"}, with the path of a virtual environment or a SPARK_HOME.'
)
_KEYS: Final = frozenset({"path", "python", "java_home"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    A Spark installation that was checked.

    :param python: The interpreter of the driver, and of the workers where they are local.
    :param java_home: ``None`` when ``java`` on PATH does not tell where it lives.
    """

    name: str
    spark_home: Path
    python: Path
    java_home: Path | None
    spark_version: str

    @property
    def spark_submit(self) -> Path:
        """Return the runtime's own ``spark-submit``."""
        return self.spark_home / "bin" / "spark-submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    path: Path
    python: Path | None
    java_home: Path | None


def resolve_runtime(
    name: str, table: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Runtime:
    """
    Return the runtime of that name, checked.

    :param table: The ``[streaming] runtimes`` setting: name to path, or to an object with ``path``
        and optionally ``python`` and ``java_home``.
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
    )


def _read_entry(name: str, table: Mapping[str, Any]) -> _Entry:
    if name not in table:
        known = ", ".join(sorted(map(repr, table))) or "none"
        raise RuntimeNotFound(f"There is no runtime {name!r}; known are: {known}. {_HOW}")
    value = table[name]
    fields = {"path": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or "path" not in fields or not _KEYS.issuperset(fields):
        raise RuntimeNotFound(
            f"Runtime {name!r} must be a path, or an object with 'path' and perhaps 'python' and "
            f"'java_home'; found {value!r:.200}. Correct it under [streaming] runtimes."
        )
    paths = {key: _read_path(name, key, fields.get(key)) for key in _KEYS}
    path = paths["path"]
    if path is None:
        raise RuntimeNotFound(f"Runtime {name!r} has an empty path. {_HOW}")
    return _Entry(path=path, python=paths["python"], java_home=paths["java_home"])


def _read_path(name: str, key: str, value: Any) -> Path | None:
    if value is None or value == "":
        return None
    path = Path(value).expanduser() if isinstance(value, str) else Path()
    if not path.is_absolute():
        raise RuntimeNotFound(
            f"Runtime {name!r}: {key} must be an absolute path, found {value!r:.200}. "
            "Correct it under [streaming] runtimes."
        )
    return path


def _check_spark(name: str, version: str, home: Path) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    spark = (int(match[1]), int(match[2])) if match else (0, 0)
    if not OLDEST_SPARK <= spark <= NEWEST_SPARK:
        raise RuntimeNotFound(
            f"Runtime {name!r} at {home} has Spark {version}; this release runs Spark 3.5 to 4.3. "
            "Name another runtime, or install a Spark of that range there."
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
