"""The only module that asks which Airflow this is."""

from __future__ import annotations


def airflow_version() -> tuple[int, int, int]:
    """Return the installed Airflow's version without a pre-release part."""
    from importlib.metadata import version  # slow, and rarely asked

    from packaging.version import Version

    release = Version(version("apache-airflow-core")).release
    return release[0], release[1], release[2] if len(release) > 2 else 0


def check_airflow() -> None:
    """
    Refuse an Airflow that this provider was not written for.

    :raises RuntimeError: below 3.3, where triggers have no ``on_kill``.
    """
    found = airflow_version()
    if found < (3, 3, 0):
        raise RuntimeError(
            f"airflow-streaming needs Airflow 3.3 or later, found {'.'.join(map(str, found))}."
        )
