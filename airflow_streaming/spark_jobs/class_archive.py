"""Making a runtime's class data archive: one Spark that loads what drivers load, and archives it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import LaunchError, RuntimeNotFound
from airflow_streaming.launch.environment import conf_folder
from airflow_streaming.launch.java import OLDEST_JAVA, archive_path, archives_in, quoted_option
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.upkeep import ClassLoadingOrder
from airflow_streaming.spark_jobs.runner import (
    Job,
    Task,
    await_end,
    last_words,
    started,
)
from airflow_streaming.spark_jobs.scratch import scratch_folder

PREFIX: Final = ".airflow-streaming-classes-"
"""Names the scratch folders beside the archive, so that folders of killed makers are found and removed."""
MADE: Final = "classes.jsa"
"""Name of the archive while it is being made."""
VARIABLE: Final = "AIRFLOW_STREAMING_CLASS_LOADING"
"""Set to 1 in the Spark that loads the classes."""
PATIENCE: Final = 600.0
"""Seconds; it takes 30 s alone on two cores, and the archive is written in the last ten of them."""


def check_archivable(runtime: Runtime) -> None:
    """
    Check that a runtime can have a class data archive; nothing is started.

    :raises RuntimeNotFound: its Java cannot make one, or its folders do not allow it.
    """
    if runtime.java < OLDEST_JAVA:
        raise RuntimeNotFound(
            f"Runtime {runtime.name!r} has Java {runtime.java}, which cannot archive the classes of a "
            f"program; that takes Java {OLDEST_JAVA} or newer. Name another java_home for the runtime."
        )
    if not os.access(runtime.spark_home, os.W_OK):
        raise RuntimeNotFound(
            f"Runtime {runtime.name!r}: this user may not write to {runtime.spark_home}, where its class data "
            "archive belongs. Run the command as the owner of the folder, for example when its image "
            "is built."
        )
    conf = conf_folder(runtime, os.environ)
    if conf.is_dir() and any(conf.iterdir()):
        raise RuntimeNotFound(
            f"Runtime {runtime.name!r}: {conf} is not empty. It stands on the class path of its drivers, "
            "and Java archives no classes then. Give the runtime its settings by the Spark connection or "
            "the stream's conf and empty the folder, or do without an archive."
        )


def make_archive(runtime: Runtime, seconds: float = PATIENCE) -> Path:
    """
    Make a runtime's class data archive, replacing an older one; return its path.

    Drivers that run keep the archive that they have mapped.

    :raises RuntimeNotFound: see ``check_archivable``.
    :raises LaunchError: its Spark did not end well, or not in time.
    """
    check_archivable(runtime)
    # Another maker's archive stays.
    earlier = archives_in(runtime.spark_home, runtime.java)
    with scratch_folder(runtime.spark_home, PREFIX) as scratch:
        made = scratch.folder / MADE
        folder = scratch.folder / "streams"
        folder.mkdir()
        task = Task(
            job=Job.LOAD,
            order=ClassLoadingOrder(folder=str(folder), seconds=seconds),
            variable=VARIABLE,
            java_options=f"-XX:ArchiveClassesAtExit={quoted_option(str(made))}",
        )
        # An archive cannot be made on top of another one.
        with started(task, replace(runtime, java=0), None, scratch.folder) as process:
            is_ended = await_end(process, seconds)
        is_made = made.is_file() and not made.is_symlink() and made.stat().st_size > 0
        if not is_ended or process.returncode or not is_made:
            raise LaunchError(
                f"The Spark of runtime {runtime.name!r} made no class data archive"
                f"{'' if is_ended else f' within {seconds:.0f} s'}: {last_words(scratch.folder)}"
            )
        made.chmod(0o644)  # who may run the runtime's Spark may read its classes
        path = archive_path(runtime.spark_home, runtime.java, made.stat().st_size)
        made.replace(path)
    for old in earlier:
        if old != path:
            old.unlink(missing_ok=True)
    return path
