"""The runtime of a drill: the one that is named, or the one whose Spark wrote the backup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.drill_spark import choose_spark, describe_spark
from airflow_streaming.exceptions import RuntimeNotFound, SpecError
from airflow_streaming.launch.runtime import Runtime, resolve_runtime

RUNTIMES_VARIABLE: Final = "AIRFLOW__STREAMING__RUNTIMES"
"""Where a command line without Airflow finds ``[streaming] runtimes``."""


def runtimes_from(environment: Mapping[str, str]) -> Mapping[str, Any]:
    """
    Read the runtimes from AIRFLOW__STREAMING__RUNTIMES; none when it is not set.

    :raises SpecError: it is not a JSON object.
    """
    try:
        runtimes = json.loads(environment.get(RUNTIMES_VARIABLE) or "{}")
    except ValueError as err:
        raise SpecError(f"{RUNTIMES_VARIABLE} is not valid JSON: {err}") from err
    if not isinstance(runtimes, dict):
        raise SpecError(
            f"{RUNTIMES_VARIABLE} must be a JSON object of names and folders, for example "
            '{"spark-4.3": "/opt/spark-4.3"}.'
        )
    return runtimes


def choose_runtime(
    runtimes: Mapping[str, Any], backup: Backup, name: str | None = None, *, newer: bool = False
) -> Runtime:
    """
    Return the runtime to drill a backup with.

    :param runtimes: As in ``[streaming] runtimes``.
    :param name: A name among them, or the absolute path of an installation; by default the one of
        the minor version that wrote the backup.
    :param newer: Take a newer Spark where there is none of that version.
    :raises RuntimeNotFound: none fits, or the one that does is broken.
    """
    if name is not None:
        is_path = name not in runtimes and Path(name).expanduser().is_absolute()
        return resolve_runtime(name, {name: name} if is_path else runtimes)
    usable, broken = _resolve_all(runtimes)
    versions = {name: runtime.spark_version for name, runtime in usable.items()}
    chosen = choose_spark(backup, versions, newer=newer)
    if chosen is not None:
        return usable[chosen]
    known = ", ".join(f"{name} (Spark {version})" for name, version in sorted(versions.items()))
    raise RuntimeNotFound(
        f"Backup {backup.id!r} wants {describe_spark(backup)}, and no such runtime is known; there "
        f"are: {known or 'none'}.{_sentences(broken)} Name one, allow a newer one, or define it "
        f"under [streaming] runtimes (in the environment: {RUNTIMES_VARIABLE}), for example "
        '{"spark-4.3": "/opt/spark-4.3"}.'
    )


def _resolve_all(runtimes: Mapping[str, Any]) -> tuple[dict[str, Runtime], list[str]]:
    usable: dict[str, Runtime] = {}
    broken: list[str] = []
    for name in runtimes:
        try:
            usable[name] = resolve_runtime(name, runtimes)
        except RuntimeNotFound as err:
            broken.append(str(err))
    return usable, broken


def _sentences(broken: list[str]) -> str:
    return "".join(f" {sentence}" for sentence in broken)
