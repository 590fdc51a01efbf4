"""The gate of a campaign's plan with Spark: each stream's script as the campaign would change it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.cli.spark.runtime import runtime_named
from airflow_streaming.exceptions import RecordError
from airflow_streaming.gates.change_gate import Versions, gate_change
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.campaign import FleetChange
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program, program_of, read_program


def gate_of(home: Home, change: FleetChange) -> Callable[[StreamHome], GateReport]:
    """
    Return the function that examines one stream; it may raise ``StreamingError``.

    Values that the records hide as secrets are left out.
    """

    def examine(stream: StreamHome) -> GateReport:
        deployment = stream.newest_deployment()
        if deployment is None:
            raise RecordError(f"Stream {stream.name!r} has no deployment.")
        program, conf = _program(home, stream, change)
        runtime = runtime_named(change.runtime or deployment.runtime)
        planned = plan_script(program, runtime)
        digest = hashlib.sha256(program.source).hexdigest()
        ships = (deployment.py_files, deployment.jars, deployment.packages, deployment.files)
        return gate_change(
            checkpoints_of(stream).checkpoints,
            stream.newest_plans(),
            planned,
            # The content of shipped files may have changed since the deployment was recorded.
            same_code=digest == deployment.application_sha256 and not any(ships),
            versions=Versions(start=deployment.spark_version, conf=conf),
        )

    return examine


def _program(home: Home, stream: StreamHome, change: FleetChange) -> tuple[Program, dict[str, str]]:
    """Return the changed program of a stream, and the settings that the campaign gives."""
    deployment = stream.newest_deployment()
    assert deployment is not None  # noqa: S101 - checked by the caller
    given = {key: text for key, text in change.conf.items() if text is not None}
    removed = {key for key, text in change.conf.items() if text is None}
    kept = {key: text for key, text in deployment.conf.items() if key not in removed}
    source = (
        read_program(change.application).source
        if change.application
        else stream.application(deployment.number)
    )
    program = program_of(deployment, source, home.store.uri, {**kept, **given})
    return replace(program, application=change.application or program.application), given
