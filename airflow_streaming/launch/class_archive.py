"""
A runtime's class data archive: the parsed classes of its Spark, which a JVM maps instead of reading jars.

It is made once (``airflow-streaming prepare-runtime``) and lies in the runtime's SPARK_HOME, where whoever
can write can change Spark itself. Every JVM of the runtime that starts on this host is told of it, if it is
whole. The JVM checks that the archive is its own and that the jars are unchanged, and reads them as ever
where not (JEP 350; ``-Xshare:auto`` is the default), so that an archive that no longer fits costs time only. Measured on two cores: `docs/benchmarks.md`, cold start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_streaming.launch.runtime import Runtime, quoted_option

OLDEST_JAVA: Final = 13
"""JEP 350: the first Java that archives the classes a program has loaded."""
_CHECKED: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:+VerifySharedSpaces"
"""
The JVM holds an archive against its checksums before it uses it, which takes 0.2 s of 4: of one with wrong bits
it fails in strange ways (seen with Java 17). A Java that had no such option would not start without the first.
"""
_SILENT: Final = "-Xlog:disable -Xlog:all=warning,cds=off,cds+dynamic=off:stderr"
"""
What a JVM says of an archive that does not fit goes nowhere, and its other warnings to stderr: what the
first JVM of ``spark-submit`` writes to stdout is taken for the command line of the second.
"""


def archives_in(runtime: Runtime) -> list[Path]:
    """Return the archives of a runtime for the Java that it has now, damaged ones too."""
    return sorted(runtime.spark_home.glob(f"classes-java-{runtime.java}-*.jsa"))


def archive_path(runtime: Runtime, size: int) -> Path:
    """
    Return where an archive of a runtime belongs.

    :param size: Its bytes. They are in its name, because a JVM dies at its start of an archive that was
        cut off (seen with Java 17), which a full disk or a copy that was broken off leaves.
    """
    return runtime.spark_home / f"classes-java-{runtime.java}-{size}.jsa"


def find_archive(runtime: Runtime) -> Path | None:
    """Return the archive of a runtime, ``None`` where there is none that is whole."""
    for path in archives_in(runtime):
        if path.is_file() and path == archive_path(runtime, path.stat().st_size):
            return path
    return None


def archive_options(runtime: Runtime) -> str:
    """Return the options by which a JVM maps the runtime's archive; empty where there is none."""
    path = find_archive(runtime) if runtime.java >= OLDEST_JAVA else None
    if path is None:
        return ""
    return f"{quoted_option(f'-XX:SharedArchiveFile={path}')} {_CHECKED} {_SILENT}"
