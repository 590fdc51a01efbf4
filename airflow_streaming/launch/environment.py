"""
The driver's environment: the worker's, without what belongs to Airflow, with the runtime's Spark.

The worker's environment holds Airflow's connections and keys, and a Python that is not Spark's.
Everything else (cloud credentials, Hadoop and Kerberos settings, locale) is the driver's too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.runtime import Runtime

_AIRFLOWS: Final = re.compile(r"_*(AIRFLOW|CELERY|GUNICORN|FORKED_BY_MULTIPROCESSING)")
_ANOTHER_PYTHONS: Final = re.compile(r"PYTHON|VIRTUAL_ENV|CONDA_|_*PYSPARK")
_ANOTHER_SPARKS: Final = frozenset(
    {
        "SPARK_HOME",
        "SPARK_REMOTE",
        "SPARK_API_MODE",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_ENV_LOADED",  # would keep spark-submit from reading the runtime's spark-env.sh
        "SPARK_SCALA_VERSION",
    }
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def driver_environment(
    base: Mapping[str, str], runtime: Runtime, extra: Mapping[str, str]
) -> dict[str, str]:
    """
    Return the driver's environment.

    :param base: The worker's environment.
    :param extra: The stream's ``env``; it wins over the worker's. It may not choose another Spark,
        Python or Java: those were checked as one combination and are recorded with the deployment.
    :raises SpecError: ``extra`` has a name that cannot be one, or one that the runtime sets.
    """
    kept = {name: value for name, value in base.items() if not _is_dropped(name)}
    ours = {
        "SPARK_HOME": str(runtime.spark_home),
        "PYSPARK_PYTHON": str(runtime.python),
        "PYSPARK_DRIVER_PYTHON": str(runtime.python),
    }
    if runtime.java_home is not None:
        ours["JAVA_HOME"] = str(runtime.java_home)
    for name in extra:
        _check(name, runtime)
    return {**kept, **extra, **ours}


def _is_dropped(name: str) -> bool:
    upper = name.upper()
    patterns = (_AIRFLOWS, _ANOTHER_PYTHONS)
    return upper in _ANOTHER_SPARKS or any(pattern.match(upper) for pattern in patterns)


def _check(name: str, runtime: Runtime) -> None:
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot be the name of an environment variable. "
            "Use letters, digits and '_', and no digit first."
        )
    if name in {"SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"}:
        raise SpecError(
            f"The stream's env may not set {name}; runtime {runtime.name!r} does. "
            "Choose another runtime, or define one under [streaming] runtimes."
        )
