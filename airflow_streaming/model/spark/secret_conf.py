"""
Secret values of a Spark configuration or an environment.

A value reaches Spark through a private file only. All other places with a configuration (a record,
a log, a terminal) have it redacted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from airflow_streaming.model.spark.conf import conf_text
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
_PLAIN: Final = frozenset({"false", "default", "kerberos", "simple"})


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
