"""The deployment that a stream's spec asks for, as the next one of its home."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from airflow_streaming.advice.profile_conf import effective, summary
from airflow_streaming.checkpoints.backup.recorded_sinks import known_sinks
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.names import Layout, color_of
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.uris import join
from airflow_streaming.spec import StreamSpec

log: Final = logging.getLogger(__name__)


def propose(
    home: StreamHome,
    spec: StreamSpec,
    runtime: Runtime,
    location: str,
    source: bytes,
    *,
    by: str,
    at: datetime,
    fresh: bool = False,
    carried_on: Mapping[str, str] | None = None,
    py_files_sha256: Sequence[str] = (),
) -> Deployment:
    """
    Return the deployment of a spec, numbered as the next one.

    It keeps the checkpoint and the output of the current deployment, unless the spec names others:
    a change of code alone must not start from nothing. With the checkpoint it keeps the settings
    that a profile may not change under it.

    :param by: The proposing user, for the record.
    :param at: The time of the proposal.
    :param fresh: Use a new checkpoint and output in the home, regardless of the current deployment
        and the spec: those may be the other lane's.
    :param carried_on: Configuration of the deployment, in either lane, whose checkpoint a fresh one
        continues from; ``None`` for an empty start.
    :param py_files_sha256: Digests of the spec's Python files, as in ``Deployment``.
    """
    current = home.newest_deployment()
    number = home.next_deployment()
    checkpoint, output = _places(home, spec, number, None if fresh else current, fresh=fresh)
    goes_on = current if current and not fresh and current.checkpoint == checkpoint else None
    values = spec.configuration(
        runtime.spark_version,
        goes_on.conf if goes_on else carried_on,
        known_sinks(home, current) if spec.profile is not None and current else (),
    )
    if spec.profile is not None:
        log.info("%s", summary(spec.profile, values))
    return Deployment(
        number=number,
        stream=home.name,
        color=color_of(home.name).value,
        application=location,
        application_sha256=hashlib.sha256(source).hexdigest(),
        application_args=tuple(str(argument) for argument in spec.application_args),
        conf=redact(effective(values)),
        env=tuple(sorted(spec.env)),
        py_files=tuple(spec.py_files),
        py_files_sha256=tuple(py_files_sha256),
        jars=tuple(spec.jars),
        packages=tuple(spec.packages),
        files=tuple(spec.files),
        runtime=runtime.name,
        spark_version=runtime.spark_version,
        checkpoint=checkpoint,
        output=output,
        fair_pools=spec.has_fair_pools,
        created_at=at,
        created_by=by,
        replay_from=goes_on.replay_from if goes_on else "",
    )


def _places(
    home: StreamHome, spec: StreamSpec, number: int, current: Deployment | None, *, fresh: bool
) -> tuple[str, str]:
    layout = Layout(home.name)
    checkpoint = current.checkpoint if current else join(spec.home, layout.checkpoint(number))
    output = current.output if current else join(spec.home, layout.output(number))
    if fresh:
        return checkpoint, output
    return spec.checkpoint or checkpoint, spec.output or output
