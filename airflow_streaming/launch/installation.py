"""
What lies in a folder that is said to hold Spark.

Two layouts are known: a virtual environment with ``pyspark`` in it, and a SPARK_HOME as Spark is
downloaded. Nothing is executed to find out; versions are read from file names and text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import RuntimeNotFound

_CORE_JAR: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+.*)\.jar")
_VERSION: Final = re.compile(
    r"""^__version__\s*(?::\s*str\s*)?=\s*['"]([^'"]+)['"]""", re.MULTILINE
)
_PYTHON: Final = re.compile(r"python(\d+)\.(\d+)")
_CONFIG_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", re.MULTILINE)


def find_spark_home(runtime: str, path: Path) -> Path:
    """
    Return the SPARK_HOME in a runtime's folder, with a runnable spark-submit and jars.

    :raises RuntimeNotFound: with what is missing.
    """
    if not path.is_dir():
        raise RuntimeNotFound(
            f"Runtime {runtime!r} is said to be at {path}, but there is no such folder. "
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
    """Return the ``pyspark`` package of a virtual environment; ``None`` when there is none."""
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
