"""The host name of each process of a deployment: its own, so that Airflow's records say which one it was."""

from __future__ import annotations

import os
import socket

from demo.airflow import COMPONENT


def host_name() -> str:
    """Return the name of this process's component, or of the host where the process is not a component."""
    return os.environ.get(COMPONENT) or socket.gethostname()
