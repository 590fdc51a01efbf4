"""
Java: a runtime's Java for drivers, its options, and archived classes of its Spark.

The version is read from the ``release`` file of the installation; without one ``java -version`` is
run.

A class data archive holds the parsed classes of a Spark, which a JVM maps instead of reading jars.
It is made once (``airflow-streaming prepare-runtime``) and stored in the runtime's SPARK_HOME,
where a user who can write can change Spark itself. Every JVM of the runtime on this host gets its
path as an option, if it is whole. The JVM checks that the archive is its own and that the jars are
unchanged, and reads the jars otherwise (JEP 350; ``-Xshare:auto`` is the default), so an outdated
archive only costs time. Measured on two cores: `docs/benchmarks.md`, cold start.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import RuntimeNotFound, SpecError
from airflow_streaming.model.spark.releases import release_at
from airflow_streaming.model.spark.secrets import is_secret

_RELEASE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_BANNER: Final = re.compile(r'version "([^"]+)"')
_PATIENCE: Final = 10.0
"""Seconds for ``java -version``; it takes one on a slow machine."""

_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_OF_EXECUTORS: Final = ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions")
OLDEST_WITH_FILES: Final = 9
OPTIONS_VARIABLE: Final = "JDK_JAVA_OPTIONS"
"""Read by Java 9 and newer. The log repeats its text, but not the text of files that it names."""

OLDEST_JAVA: Final = 13
"""JEP 350: the first Java that archives the classes a program has loaded."""
_CHECKED: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:+VerifySharedSpaces"
"""
The JVM holds an archive against its checksums before it uses it, which takes 0.2 s of 4: of one with wrong bits
it fails in strange ways (seen with Java 17). A Java that had no such option would not start without the first.
"""
_SILENT: Final = "-Xlog:disable -Xlog:all=warning,cds=off,cds+dynamic=off:stderr"
"""
Messages about an outdated archive are dropped, and a JVM's other warnings go to stderr: ``spark-
submit`` reads stdout of the first JVM as the command line of the second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """
    One Java installation.

    :param home: Its folder; ``None`` for a ``java`` on PATH with an unknown folder.
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
    :raises RuntimeNotFound: Java is missing, or its version is not known.
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
            f"Runtime {runtime!r} cannot use {source}: {binary} does not exist. Set the "
            "folder that has bin/java in it."
        )
    version = _version_of(home) or _ask(runtime, binary, source)
    return Java(home=home, version=version, source=source)


def _version_of(home: Path) -> str | None:
    try:
        match = _RELEASE.search((home / "release").read_text(errors="replace"))
    except OSError:
        return None
    # If the word is not a version, Java itself is run for it.
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


def split_options(conf: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """
    Return a configuration without the driver's secret Java options, and those options.

    Spark puts Java options on the JVM's command line, which every user of the host can read.

    :raises SpecError: the options cannot be split.
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


def archives_in(spark_home: Path, java: int) -> list[Path]:
    """Return the archives of a Spark for a Java of this feature release, damaged ones too."""
    return sorted(spark_home.glob(f"classes-java-{java}-*.jsa"))


def archive_path(spark_home: Path, java: int, size: int) -> Path:
    """
    Return where an archive belongs.

    :param size: Its bytes. They are in its name, because a JVM dies at its start of an archive that was
        cut off (seen with Java 17), which a full disk or a copy that was broken off leaves.
    """
    return spark_home / f"classes-java-{java}-{size}.jsa"


def find_archive(spark_home: Path, java: int) -> Path | None:
    """Return the whole archive of a Spark for a Java, if it exists."""
    for path in archives_in(spark_home, java):
        if path.is_file() and path == archive_path(spark_home, java, path.stat().st_size):
            return path
    return None


def archive_options(spark_home: Path, java: int) -> str:
    """Return a JVM's options for the archive of its Spark; empty without an archive."""
    path = find_archive(spark_home, java) if java >= OLDEST_JAVA else None
    if path is None:
        return ""
    return f"{quoted_option(f'-XX:SharedArchiveFile={path}')} {_CHECKED} {_SILENT}"
