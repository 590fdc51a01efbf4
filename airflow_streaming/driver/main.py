"""
The file that ``spark-submit`` runs; it runs the user's script, watched.

::

    spark-submit --py-files airflow_streaming.zip main.py         --home URI --stream NAME --epoch N --token TOKEN [--properties-file PATH]

Exit codes: 0 the stream completed or was stopped, 1 it failed, 2 wrong use or refused to run, 3 a
newer epoch owns the stream. A driver that was cut off takes its JVM with it; ``spark-submit``
then ends with 137, and the reason is in ``exit.json``.

This file must be readable by any Python 3, so that an old one gets a sentence, not a syntax error.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _make_importable() -> None:
    here = Path(__file__).resolve().parent
    # Python put this file's folder first, where its modules would shadow the user's of the same
    # name. On a cluster it is the working folder with the user's files, which keeps the last place.
    first = sys.path.pop(0)
    if not (here / "start_hook.py").exists():
        sys.path.append(first)
    if importlib.util.find_spec("airflow_streaming") is None:
        sys.path.append(str(here.parent.parent))


def main() -> int:
    """Run the driver of one epoch and return its exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036  # the runtime's Python is the user's choice
        sys.stderr.write(
            "airflow_streaming needs Python 3.11 or newer in the Spark runtime; this is Python "
            "{}.{}. Choose another runtime or set PYSPARK_PYTHON.\n".format(*sys.version_info[:2])
        )
        return 2
    _make_importable()
    from airflow_streaming.driver.runtime import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
