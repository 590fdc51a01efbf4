"""The program of a drill: the user's script with everything it is run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_streaming.core.checkpoint.drill import SCRATCH_OUTPUT
from airflow_streaming.core.conf import REDACTED
from airflow_streaming.home.home import Home
from airflow_streaming.launch.application import locate_application, read_application


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    The user's script, as a drill runs it.

    :param application: Its path or URI as its author knows it; ``__file__`` in the script.
    :param source: Its bytes.
    :param arguments: With placeholders filled in.
    :param conf: Spark configuration of the stream; what belongs to production's cluster, listeners
        and event logs is left out of a drill.
    :param left_out: Keys of the configuration whose values are secret and not known here.
    """

    application: str
    source: bytes
    arguments: Sequence[str] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    files: Sequence[str] = ()
    left_out: Sequence[str] = ()


def read_program(
    path: str, arguments: Sequence[str] = (), conf: Mapping[str, Any] | None = None
) -> Program:
    """
    Read a script from a path, which may be relative to the working folder, or from a URI.

    :raises ApplicationNotFound: it cannot be read, or is not Python.
    """
    location = locate_application(path, [Path.cwd()])
    return Program(
        application=location,
        source=read_application(location),
        arguments=tuple(arguments),
        conf=dict(conf or {}),
    )


def deployed_program(
    home: Home, stream: str, number: int, conf: Mapping[str, Any] | None = None
) -> Program:
    """
    Return the program of a deployment as the home holds it, script and all.

    ``{output}`` in its arguments becomes a folder of the scratch. ``{checkpoint}`` stays what it
    is, because by it the queries are recognised; none of them is started there.

    :param conf: Configuration with its secrets, e.g. the dag's; without it, those are left out,
        because records hold marks in their place.
    :raises RecordError: no such deployment, or its script is missing or was changed.
    :raises HomeUnavailable: the home cannot be read.
    """
    records = home.stream(stream)
    deployment = replace(records.deployment(number), output=SCRATCH_OUTPUT)
    known = {**deployment.conf, **(conf or {})}
    secret = sorted(key for key, value in known.items() if value == REDACTED)
    return Program(
        application=deployment.application,
        source=records.application(number),
        arguments=tuple(deployment.arguments(home.store.uri)),
        conf={key: value for key, value in known.items() if key not in secret},
        py_files=deployment.py_files,
        jars=deployment.jars,
        packages=deployment.packages,
        files=deployment.files,
        left_out=tuple(secret),
    )
