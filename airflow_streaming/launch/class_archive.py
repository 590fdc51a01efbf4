"""
A runtime's class data archive: the parsed classes of its Spark, which a JVM maps instead of reading jars.

It is made once (``airflow-streaming prepare-runtime``) and lies in the runtime's SPARK_HOME, where whoever
can write can change Spark itself. Every JVM of the runtime that starts on this host is told of it. The JVM
checks that the archive is its own and that the jars are unchanged, and reads them as ever where not
(JEP 350; ``-Xshare:auto`` is the default), so that an archive that no longer fits costs time and nothing
else. Measured on two cores: `docs/benchmarks.md`, cold start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_streaming.launch.runtime import Runtime, quoted_option

OLDEST_JAVA: Final = 13
"""JEP 350: the first Java that archives the classes a program has loaded."""
_SILENT: Final = "-Xlog:disable -Xlog:all=warning,cds=off,cds+dynamic=off:stderr"
"""
What a JVM says of an archive that does not fit goes nowhere, and its other warnings to stderr: what the
first JVM of ``spark-submit`` writes to stdout is taken for the command line of the second.
"""


def archive_path(runtime: Runtime) -> Path:
    """Return where the archive of a runtime is, for the Java that it has now."""
    return runtime.spark_home / f"classes-java-{runtime.java}.jsa"


def archive_options(runtime: Runtime) -> str:
    """Return the options by which a JVM maps the runtime's archive; empty where there is none."""
    path = archive_path(runtime)
    if runtime.java < OLDEST_JAVA or not path.is_file():
        return ""
    return f"{quoted_option(f'-XX:SharedArchiveFile={path}')} {_SILENT}"
