"""The only module that asks which Airflow this is."""

from __future__ import annotations

import re
from typing import Final

OLDEST: Final = (3, 3, 0)
"""First Airflow whose triggers have ``on_kill``, and whose tasks await input without a worker slot."""


def airflow_version() -> tuple[int, int, int]:
    """Return the installed Airflow's version without a pre-release part."""
    from airflow import __version__  # loaded already by every caller

    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", __version__)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def check_airflow() -> None:
    """
    Refuse an Airflow that this provider was not written for; rooms that import Airflow call it first.

    :raises RuntimeError: below 3.3.
    """
    found = airflow_version()
    if found < OLDEST:
        raise RuntimeError(
            f"airflow-streaming needs Airflow 3.3 or later, found {'.'.join(map(str, found))}. Upgrade "
            "Airflow with its own constraints, or remove airflow-streaming from this environment; "
            "docs/install.md has the command."
        )
