"""
A runtime: a named Spark installation, its version and its Java.

The version is read from the ``release`` file of the installation; only where there is none is
``java -version`` run.

Two layouts are known: a virtual environment with ``pyspark`` in it, and a SPARK_HOME as Spark is
downloaded. Nothing is executed to find out; versions are read from file names and text.

Spark never runs from Airflow's own environment. Everything that can be wrong with an installation
is found here, before a driver is started, without executing anything in it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import RuntimeNotFound, SpecError
from airflow_streaming.model.spark.conf import is_secret
from airflow_streaming.model.spark.releases import NEWEST, OLDEST, release_at

_RELEASE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_BANNER: Final = re.compile(r'version "([^"]+)"')
_PATIENCE: Final = 10.0
"""Seconds for ``java -version``; it takes one on a slow machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """
    One Java installation.

    :param home: Its folder; ``None`` for a ``java`` on PATH that does not tell.
    :param version: As Java writes it, e.g. ``17.0.15`` or ``1.8.0_412``.
    :param source: Where it was found, for messages.
    """

    home: Path | None
    version: str
    source: str

    @property
    def feature(self) -> int:
        """Return 17 for ``17.0.15`` and 8 for ``1.8.0_412``."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)[:2]]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(runtime: str, java_home: Path | None, environment: Mapping[str, str]) -> Java:
    """
    Find the Java that a runtime's drivers will use.

    :param java_home: From the runtime's setting; else JAVA_HOME counts, else PATH.
    :raises RuntimeNotFound: there is none, or its version cannot be told.
    """
    if java_home is not None:
        return _at_home(runtime, java_home, f"java_home {java_home} of the runtime")
    if named := environment.get("JAVA_HOME", "").strip():
        return _at_home(runtime, Path(named), f"JAVA_HOME {named}")
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise RuntimeNotFound(
            f"Runtime {runtime!r} needs Java and none was found: it names no java_home, JAVA_HOME "
            "is not set and PATH has no java. Install Java 17 or name its java_home."
        )
    binary = Path(found).resolve()
    home = binary.parent.parent
    version = _version_of(home)
    source = f"{found} on PATH"
    if version is not None:
        return Java(home=home, version=version, source=source)
    return Java(home=None, version=_ask(runtime, Path(found), source), source=source)


def check_java(runtime: str, java: Java, spark: tuple[int, int]) -> None:
    """
    Check that a Spark version runs on a Java.

    :raises RuntimeNotFound: it does not.
    """
    # 21 is the newest Spark 4 is tested with here; newer ones are let through.
    release = release_at(spark)
    if release.runs_on_java(java.feature):
        return
    raise RuntimeNotFound(
        f"Runtime {runtime!r} has Spark {spark[0]}.{spark[1]}, which needs {release.java_text}; found Java "
        f"{java.version} ({java.source}). Name another java_home for the runtime."
    )


def _at_home(runtime: str, home: Path, source: str) -> Java:
    binary = home / "bin" / "java"
    if not binary.is_file():
        raise RuntimeNotFound(
            f"Runtime {runtime!r} cannot use {source}: there is no {binary}. "
            "Give the folder that has bin/java in it."
        )
    version = _version_of(home) or _ask(runtime, binary, source)
    return Java(home=home, version=version, source=source)


def _version_of(home: Path) -> str | None:
    try:
        match = _RELEASE.search((home / "release").read_text(errors="replace"))
    except OSError:
        return None
    # A word that is no version is asked for again, of the Java itself.
    return match[1] if match and match[1][:1].isdecimal() else None


def _ask(runtime: str, binary: Path, source: str) -> str:
    try:
        answer = subprocess.run(
            [str(binary), "-version"],
            capture_output=True,
            check=False,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
        match = _BANNER.search(answer.stderr + answer.stdout)
    except (OSError, subprocess.TimeoutExpired):
        match = None
    if match is None or not re.match(r"\d", match[1]):
        raise RuntimeNotFound(
            f"Runtime {runtime!r} found Java at {source}, but '{binary} -version' does not tell its "
            "version. Repair that Java or name another java_home."
        )
    return match[1]


_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_OF_EXECUTORS: Final = ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions")
OLDEST_WITH_FILES: Final = 9
OPTIONS_VARIABLE: Final = "JDK_JAVA_OPTIONS"
"""Read by Java 9 and newer, which repeats its text in the log, but not that of files it names."""


def split_options(conf: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """
    Return a configuration without the driver's secret Java options, and those options.

    Spark puts Java options on the JVM's command line, which every user of the host can read.

    :raises SpecError: the options cannot be told apart.
    """
    left, secret = dict(conf), []
    for key in (key for key in _OPTIONS if key in conf):
        parts = _parts(key, conf[key])
        hidden = [part for part in parts if is_secret(part)]
        if hidden:
            secret += hidden
            left[key] = shlex.join(part for part in parts if part not in hidden)
            if not left[key]:
                del left[key]
    return left, tuple(secret)


def argument_file(options: Iterable[str], path: Path) -> tuple[str, str]:
    """Return the text of a private file for Java with options, and what names it to Java."""
    return "".join(f"{quoted_option(option)}\n" for option in options), quoted_option(f"@{path}")


def check_executor_options(conf: Mapping[str, str], master: str) -> None:
    """
    Check that no secret would get on the command line of an executor.

    :raises SpecError: it would, on the hosts of a cluster.
    """
    if master.startswith("local"):
        return  # executors are threads of the driver
    for key in (key for key in _OF_EXECUTORS if key in conf):
        if any(is_secret(part) for part in _parts(key, conf[key])):
            raise SpecError(
                f"{key} holds a secret, which Spark would put on the command line of every "
                "executor, readable for all users there. Put the option into a private file on the "
                f"executors' hosts and set spark.executorEnv.{OPTIONS_VARIABLE} to @/path/of/it."
            )


def _parts(key: str, options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:
        raise SpecError(
            f"{key} cannot be read: a quotation mark or backslash in it has no end. Close it."
        ) from None  # the cause could quote a secret


def quoted_option(text: str) -> str:
    """Return an option of Java as it is written in ``JDK_JAVA_OPTIONS`` or in a file that it names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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


OLDEST_PYTHON: Final = (3, 11)
_HOW: Final = (
    "Define it under [streaming] runtimes as JSON, e.g. "
    '{"spark-4.3": "/opt/spark-4.3"}, with the path of a virtual environment or a SPARK_HOME.'
)
_IMAGE: Final = re.compile(r"[A-Za-z0-9._/:@-]{0,300}")
_PATHS: Final = frozenset({"path", "python", "java_home"})
_KEYS: Final = _PATHS | {"image"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    A Spark installation that was checked.

    :param python: The interpreter of the driver, and of the workers where they are local.
    :param java_home: ``None`` when ``java`` on PATH does not tell where it lives.
    :param java: Feature release of its Java, such as 17; 0 where nobody asked.
    :param image: Container image with the same Spark, for drivers and executors on Kubernetes; what
        is installed on this host then submits.
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
        raise RuntimeNotFound(f"There is no runtime {name!r}; known are: {known}. {_HOW}")
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
    """Return a path with the home folder of its ``~``; as it is where there is no such user."""
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
