"""Running ``spark-submit`` for a driver that starts elsewhere, with its output in the driver's log."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.environment import open_private_log
from airflow_streaming.launch.port import LaunchRequest

SUBMIT_PATIENCE: Final = 170.0
"""Seconds for one ``spark-submit``; it takes 8 to 14. Less than other tasks wait for an epoch whose
driver is being submitted."""
NOT_IN_TIME: Final = -1

Submit = Callable[[LaunchRequest, tuple[str, ...], Mapping[str, str]], int]
"""Runs a command with the environment of a request and more, and returns its exit code."""


def run_submit(request: LaunchRequest, command: tuple[str, ...], extra: Mapping[str, str]) -> int:
    """
    Run ``spark-submit`` and return its exit code, ``NOT_IN_TIME`` if it was killed.

    :param extra: Added to the request's environment.
    :raises LaunchError: it could not be run.
    """
    output = open_private_log(request.log)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**request.environment, **extra},
            cwd=request.log.parent,
            timeout=SUBMIT_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return NOT_IN_TIME
    except (OSError, ValueError) as err:
        raise LaunchError(
            f"spark-submit for stream {request.epoch.stream!r} could not be run with {command[0]}: "
            f"{getattr(err, 'strerror', None) or err}. Check the stream's runtime."
        ) from err
    finally:
        os.close(output)
    return done.returncode
