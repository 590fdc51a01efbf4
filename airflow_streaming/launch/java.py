"""
Which Java Spark would use, and whether this Spark runs on it.

The version is read from the ``release`` file of the installation; only where there is none is
``java -version`` run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import RuntimeNotFound

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
    is_good = java.feature in (8, 11, 17) if spark < (4, 0) else java.feature >= 17
    if is_good:
        return
    wanted = "Java 8, 11 or 17" if spark < (4, 0) else "Java 17 or newer"
    raise RuntimeNotFound(
        f"Runtime {runtime!r} has Spark {spark[0]}.{spark[1]}, which needs {wanted}; found Java "
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
    return match[1] if match else None


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
