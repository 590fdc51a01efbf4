"""
Spark configuration of a stream: the keys that users may set, and the secret values.

A value reaches Spark through a private file only. All other places with a configuration (a record,
a log, a terminal) have it redacted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.spark.secrets import (
    REDACTED,
    Given,
    given_in,
    is_class,
    is_secret,
    is_secret_name,
    mask_uri,
    names_class,
    shaped_secrets,
)

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

_NAMES_A_PLACE: Final = re.compile(
    r"^(?:OLD)?PWD$|^GOOGLE_APPLICATION_CREDENTIALS$|(?:file|path|dir|directory|location)$",
    re.IGNORECASE,
)
_NAMES_ONLY: Final = re.compile(
    r"spark\.kubernetes\.(?:"
    r"(?:(?:driver|executor)\.)?(?:secrets|secretKeyRef|volumes|label|annotation|service|node\.selector"
    r"|container\.image|pod|scheduler|podTemplate\w+|podNamePrefix)(?:\..+)?"
    r"|kerberos\..+|namespace|context|file\.upload\.path"
    r"|authenticate\.(?:.+\.)?(?:\w+File|serviceAccountName))"
    r"|spark\.(?:kubernetes\.driverEnv|executorEnv|yarn\.appMasterEnv)\."
    r"(?:GOOGLE_APPLICATION_CREDENTIALS|\w*(?:FILE|PATH|DIR|LOCATION))"
    r"|spark\.(?:jars(?:\..+)?|files|archives|submit\.pyFiles|pyspark(?:\.driver)?\.python"
    r"|(?:driver|executor)\.extra(?:Class|Library)Path|kerberos\.keytab|yarn\.(?:archive|jars|dist\..+))"
)
"""
Settings whose values are the names of Kubernetes' objects, environment variables, files and images,
or labels of a pod: even with a suspicious word they are not secret. Spark reads them before it has
a driver.
"""
_FREE_TEXT: Final = re.compile(r"\.(?:label|annotation)\.")
_VOLUME_OPTION: Final = re.compile(r"\.volumes\..+\.options\.(.+)")
_SEPARATOR: Final = re.compile(r"[;&,]")
_SHORTEST_SECRET: Final = 5
"""Characters. Shorter values, as ``true``, occur in too many harmless texts."""
_OURS: Final = frozenset({"spark.app.name", "spark.submit.deployMode"})
_LOCAL_MASTER: Final = re.compile(r"local\[(\d{1,6})(?:,\s*\d+)?\]", re.ASCII)
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d.])", re.ASCII)
SparkVersion = tuple[int, int, int]
"""Major, minor and patch number."""

_PLAIN: Final = frozenset({"false", "default", "kerberos", "simple"})


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


def redact(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the conf with every value that looks secret, or has a secret key, as a mark."""
    texts = {key: conf_text(value) for key, value in conf.items()}
    return {
        key: text if names_class(key, text) or not _is_to_be_hidden(key, text) else REDACTED
        for key, text in texts.items()
    }


def _is_to_be_hidden(key: str, text: str) -> bool:
    if names_only(key, text):
        return mask_uri(text) != text
    return is_secret_name(key) or is_secret(text)


def names_only(key: str, text: str) -> bool:
    """
    Tell whether a setting refers to things by name: a Kubernetes Secret, a file, an image.

    A label or an annotation is free text, and may contain a secret all the same (``password=...``),
    as the option of a volume does by its own name.
    """
    if _NAMES_ONLY.fullmatch(key) is None:
        return False
    if option := _VOLUME_OPTION.search(key):
        return not is_secret_name(option[1])
    return _FREE_TEXT.search(key) is None or next(given_in(text), None) is None


def secret_values(conf: Mapping[str, str], *, all_of: Collection[str] = ()) -> frozenset[str]:
    """
    Return the secret values of a configuration or an environment, to mask them everywhere.

    They are the value of every key that looks secret, every line of it, and the text after such a
    key, or a password, inside any value.

    :param all_of: Keys whose values are always secret.
    """
    found: set[str] = set()
    for key, text in conf.items():
        is_name = names_only(key, text) and key not in all_of
        if key in all_of or not (is_name or _NAMES_A_PLACE.search(key) or not is_secret_name(key)):
            found.update((text, text.strip(), *text.splitlines()))
        if not (is_name and mask_uri(text) == text):
            found.update(_alone(given, text) for given in given_in(text))
        found.update(shaped_secrets(text))
    return frozenset(value for value in found if _can_be_hidden(value))


def _alone(given: Given, text: str) -> str:
    """Return a value without what follows it in a list or a URL."""
    is_quoted = text[given.start] in "'\"{[("
    return given.value if is_quoted else _SEPARATOR.split(given.value, maxsplit=1)[0]


def _can_be_hidden(value: str) -> bool:
    is_word = value == REDACTED or value.isdigit() or is_class(value)
    return len(value) >= _SHORTEST_SECRET and value.lower() not in _PLAIN and not is_word


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
