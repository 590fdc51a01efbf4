"""A stream's spec and its proposed deployment → what plan mode and a rehearsal run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_streaming.core.checkpoint.drill import SCRATCH_OUTPUT
from airflow_streaming.core.conf import REDACTED, conf_text

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.drill_program import Program
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.core.spec import StreamSpec
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.upgrade.preflight import Candidate


def program_of(
    spec: StreamSpec, deployment: Deployment, source: bytes, *, is_scratch: bool = False
) -> Program:
    """
    Return the program of a deployment, with the secrets that the dag gives.

    :param is_scratch: Let ``{output}`` be a folder of the scratch. A plan needs the real one, of
        which nothing is touched; what runs batches must not know it.
    """
    from airflow_streaming.checkpoint.drill_program import Program  # not at dag parse

    if is_scratch:
        deployment = replace(deployment, output=SCRATCH_OUTPUT)
    conf = {
        key: conf_text(spec.conf[key]) if value == REDACTED and key in spec.conf else value
        for key, value in deployment.conf.items()
    }
    unknown = sorted(key for key, value in conf.items() if value == REDACTED)
    return Program(
        application=deployment.application,
        source=source,
        arguments=tuple(deployment.arguments(spec.home)),
        conf={key: value for key, value in conf.items() if key not in unknown},
        py_files=deployment.py_files,
        jars=deployment.jars,
        packages=deployment.packages,
        files=deployment.files,
        left_out=tuple(unknown),
    )


def candidate_of(hook: SparkStreamHook) -> tuple[Candidate, bytes]:
    """
    Return what the spec proposes, ready for the gates, and its script.

    :raises SpecError: it cannot run as written.
    """
    from airflow_streaming.upgrade.preflight import Candidate  # not at dag parse

    proposed, source = hook.proposal()
    program = program_of(hook.spec, proposed, source)
    runtime = hook.runtime(hook.spec.runtime)
    return Candidate(deployment=proposed, program=program, runtime=runtime), source
