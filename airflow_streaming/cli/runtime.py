"""``airflow-streaming prepare-runtime``: the class data archive of a Spark."""

from __future__ import annotations

import argparse

from airflow_streaming.cli.common import OK, add_json, add_runtime
from airflow_streaming.cli.output import notice, show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(run=run)
    add_runtime(parser, "is prepared (required)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the archive, and tell where it is."""
    from airflow_streaming.cli.program import runtime_named
    from airflow_streaming.spark_jobs.class_archive import check_archivable, make_archive

    runtime = runtime_named(arguments.runtime)
    check_archivable(runtime)
    notice(
        f"Spark {runtime.spark_version} loads and archives its classes; that takes half a minute."
    )
    path = make_archive(runtime)
    size = path.stat().st_size
    if arguments.json:
        show_json({"archive": str(path), "bytes": size})
    else:
        print(f"{path}: {size / 1e6:.0f} MB. Drivers of {runtime.name!r} that start now use it.")
    return OK
