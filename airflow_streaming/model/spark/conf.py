"""Spark configuration of a stream: the keys that users may set, and the figures that it fixes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.exceptions import SpecError

PRIVATE_CONF: Final = "AIRFLOW_STREAMING_SECRET_CONF"
"""Variable of a cluster driver's environment: a JSON object of the configuration that is secret."""
PRIVATE_CONF_FILE: Final = "AIRFLOW_STREAMING_SECRET_CONF_FILE"
"""The same, as the path of a file with that object."""
DIES_WITH_JVM: Final = "AIRFLOW_STREAMING_DIES_WITH_JVM"
"""Variable of a cluster driver's environment: its Python process must not outlive its JVM."""
LOG_BYTES: Final = "AIRFLOW_STREAMING_LOG_BYTES"
"""Variable of a driver's environment, local or on a standalone cluster: bytes of its log with the older part."""
PY_FILES: Final = "spark.submit.pyFiles"
SHIPPED: Final[Mapping[str, str]] = {
    "jars": "spark.jars",
    "py_files": PY_FILES,
    "files": "spark.files",
    "packages": "spark.jars.packages",
}
"""The key of each list of a stream's files. Configuration reaches Spark through a private file."""

_OURS: Final = frozenset({"spark.app.name", "spark.submit.deployMode"})
_LOCAL_MASTER: Final = re.compile(r"local\[(\d{1,6})(?:,\s*\d+)?\]", re.ASCII)
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d.])", re.ASCII)
SparkVersion = tuple[int, int, int]
"""Major, minor and patch number."""


def shipped_lists(of: Any) -> dict[str, Any]:
    """Return the lists of files that a deployment or a program has, by their names in ``SHIPPED``."""
    return {what: tuple(getattr(of, what)) for what in SHIPPED}


def check_conf_key(key: str) -> str:
    """
    Return a Spark configuration key that the user may set.

    Spark itself accepts any text behind ``spark.``. A key is refused if it could not be told from
    the value, or from the next setting, in a properties file or on a command line; and Airflow
    fills in templates in values only.

    :raises SpecError: for a key that is not Spark's, that cannot be written down, or that the
        provider sets itself.
    """
    if not key.removeprefix("spark.") or not key.startswith("spark."):
        raise SpecError(
            f"{key!r:.200} is not a Spark configuration key; it must begin with 'spark.', and something "
            "must follow."
        )
    if "{{" in key or "{%" in key:
        raise SpecError(
            f"The Spark configuration key {key!r:.200} is a template. Airflow fills in values only: write "
            "the key out, or give the whole conf as a template."
        )
    odd = next((char for char in key if char in " =" or not char.isprintable()), None)
    if odd is not None:
        raise SpecError(
            f"The Spark configuration key {key!r:.200} has {odd!r} in it. Remove it: a key has no blanks, "
            "'=' or control characters."
        )
    if key in _OURS:
        raise SpecError(f"{key!r} is set by the provider. Remove it from the stream's conf.")
    return key


def conf_text(value: Any) -> str:
    """Return a conf value as Spark reads it: ``True`` becomes ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_spark_version(text: str) -> SparkVersion:
    """
    Return the numbers of a Spark version; the patch number may be missing and then is 0.

    :raises SpecError: not a version.
    """
    match = _VERSION.match(text)
    if match is None:
        raise SpecError(f"{text!r:.80} is not a Spark version. Write it as 4.3 or 4.3.0.")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def configured_cores(conf: Mapping[str, str]) -> int | None:
    """Return the cores over all executors that a configuration fixes; ``None`` where it does not."""
    if match := _LOCAL_MASTER.fullmatch(conf.get("spark.master", "")):
        return int(match[1])
    if (most := conf.get("spark.cores.max", "")).isdecimal():
        return int(most)
    executors, each = conf.get("spark.executor.instances", ""), conf.get("spark.executor.cores", "")
    return int(executors) * int(each) if executors.isdecimal() and each.isdecimal() else None


def executors_wanted(conf: Mapping[str, str]) -> int | None:
    """
    Return how many executors a whole configuration of Spark asks for, ``None`` where it does not say.

    With dynamic allocation it is the least that is kept, ``spark.dynamicAllocation.minExecutors``. On
    Kubernetes and YARN Spark's own default is 2; a standalone cluster gives one for each
    ``spark.executor.cores`` of ``spark.cores.max``.
    """
    if conf.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        least = conf.get("spark.dynamicAllocation.minExecutors", "0")
        return int(least) if least.isdecimal() else None
    instances = conf.get("spark.executor.instances", "")
    if instances.isdecimal():
        return int(instances)
    master = conf.get("spark.master", "")
    if master == "yarn" or master.startswith("k8s://"):
        return 2
    most, each = conf.get("spark.cores.max", ""), conf.get("spark.executor.cores", "")
    if most.isdecimal() and each.isdecimal() and int(each):
        return int(most) // int(each)
    return None


def has_executors(master: str) -> bool:
    """Tell whether a master gives executors of their own; in local mode the driver works itself."""
    return not re.match(r"local(\[|$)", master)
