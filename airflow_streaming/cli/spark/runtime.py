"""
A command's script and Spark runtime, and ``airflow-streaming prepare-runtime``.

This command makes the runtime's class data archive.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from airflow_streaming.cli.common import OK, add_json, add_runtime, place_of
from airflow_streaming.cli.known_home import open_known
from airflow_streaming.cli.output import notice, show_json
from airflow_streaming.exceptions import ApplicationNotFound, RuntimeNotFound, SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime, expanded, resolve_runtime
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.uris import is_local, local_path
from airflow_streaming.spark_jobs.drill import RUNTIMES_VARIABLE, runtimes_from
from airflow_streaming.spark_jobs.runner import Program, program_of, read_program


def script_of(arguments: argparse.Namespace, script: str) -> Program:
    """
    Read a script, with the command's arguments and configuration for it.

    :param script: A URI, or a path; a relative one starts in the working folder.
    :raises ApplicationNotFound: it cannot be read, or is not Python.
    """
    if is_local(script):
        path = Path(place_of(local_path(script)))
        if not path.is_file():
            raise ApplicationNotFound(
                f"No script at {path}. Give its path, absolute or relative to the working "
                "folder, or its URI."
            )
    return read_program(script, arguments.arguments, dict(arguments.conf))


def program_as_deployed(
    arguments: argparse.Namespace,
    script: str,
    home: StreamHome | None,
    *,
    is_scratch: bool = False,
) -> Program:
    """
    Return a script as the newest deployment of a stream runs: its files, configuration and arguments.

    ``--conf`` replaces single settings, and arguments after ``--`` replace all of the deployment's. Without
    a stream or a deployment the script has only these. Values that the record hides as secrets are left out.

    :param is_scratch: ``{output}`` is a folder of the scratch, for a job that runs batches.
    :raises SpecError: the deployment ships a file that this host does not have.
    :raises ApplicationNotFound: as of ``script_of``.
    """
    given = script_of(arguments, script)
    deployment = None if home is None else home.newest_deployment()
    if deployment is None:
        return given
    _check_shipped(deployment)
    if is_scratch:
        deployment = replace(deployment, output=SCRATCH_OUTPUT)
    conf = {**deployment.conf, **given.conf}
    uri = open_known(arguments.home).store.uri
    deployed = program_of(deployment, given.source, uri, conf)
    return replace(
        deployed,
        application=given.application,
        arguments=given.arguments or deployed.arguments,
    )


def _check_shipped(deployment: Deployment) -> None:
    for place in _shipped_files(deployment):
        if not Path(local_path(place)).exists():
            raise SpecError(
                f"Deployment {deployment.number} of stream {deployment.stream!r} ships {place}, and "
                "this host has no such file. Run the command on a host that has it, or copy it there."
            )


def _shipped_files(deployment: Deployment) -> Iterator[str]:
    for shipped in (*deployment.py_files, *deployment.jars, *deployment.files):
        # A name after a hash is the file's name for the application.
        place = shipped.partition("#")[0]
        if is_local(place):
            yield place


def runtime_named(name: str) -> Runtime:
    """
    Return the Spark of ``--runtime``.

    :param name: A name in AIRFLOW__STREAMING__RUNTIMES, or a folder.
    :raises RuntimeNotFound: it does not exist, or it does not run.
    """
    runtimes = runtimes_from(os.environ)
    if name in runtimes:
        return resolve_runtime(name, runtimes)
    folder = Path(place_of(str(expanded(name))))
    if os.sep in name and folder.is_dir():
        return resolve_runtime(name, {name: str(folder)})
    known = ", ".join(sorted(runtimes)) or "none"
    what = f"folder {folder}" if os.sep in name else f"runtime {name!r}"
    raise RuntimeNotFound(
        f"There is no {what}. Give --runtime the folder of a virtual environment with pyspark or of "
        f"a SPARK_HOME, or a name in {RUNTIMES_VARIABLE}, for example "
        f'{{"spark-4.3": "/opt/spark-4.3"}}; there are: {known}.'
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)
    add_runtime(parser, "is prepared (required)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the archive, and tell where it is."""
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
