"""
Spark configuration as a stream gives it: which keys are the user's, and which values are secret.

A value reaches Spark through a private file only. Whatever else shows a configuration, a record, a
log or a terminal, shows it redacted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.exceptions import SpecError

REDACTED: Final = "(redacted)"
SECRET_KEY: Final = re.compile(
    r"secret|password|passwd|passphrase|token|credential|jaas"
    r"|(?:access|account|api|private|encryption)[ ._-]?key|key[._]pem"
    r"|[._-]sas(?:[._-]|$)|[?&-]sig(?:nature)?\b"
    r"|otel\.headers|authorization\s*=|oauthbearer\.config",
    re.IGNORECASE,
)
"""
Spark's own redaction pattern and more: Spark's misses the keys of Azure (``account.key``, ``sas``),
what Kafka logs in with (``sasl.jaas.config``) and signed URLs. Like Spark's, it is held against
values as well, for options such as ``-Dtrust.password=...``.
"""

_USER_INFO: Final = re.compile(r"(://[^/\s:@]*):[^@\s]*@")
_OURS: Final = frozenset({"spark.app.name", "spark.submit.deployMode"})
_LOCAL_MASTER: Final = re.compile(r"local\[(\d{1,6})(?:,\s*\d+)?\]")
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d.])")

SparkVersion = tuple[int, int, int]
"""Major, minor and patch number."""


def check_conf_key(key: str) -> str:
    """
    Return a Spark configuration key that the user may set.

    :raises SpecError: for a key that is not Spark's or that the provider sets itself.
    """
    if not re.fullmatch(r"spark\.[A-Za-z0-9._\-]+", key):
        raise SpecError(f"{key!r} is not a Spark configuration key; it must begin with 'spark.'.")
    if key in _OURS:
        raise SpecError(f"{key!r} is set by the provider. Remove it from the stream's conf.")
    return key


def redact(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the conf with every value that looks secret, or has a secret key, as a mark."""
    texts = {key: conf_text(value) for key, value in conf.items()}
    return {key: REDACTED if _is_secret(key, text) else text for key, text in texts.items()}


def _is_secret(key: str, text: str) -> bool:
    return (
        any(SECRET_KEY.search(part) for part in (key, text)) or _USER_INFO.search(text) is not None
    )


def conf_text(value: Any) -> str:
    """Return a conf value as Spark reads it: ``True`` becomes ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def mask_password(text: str) -> str:
    """Return a text with the password of every URI in it as a mark."""
    return _USER_INFO.sub(rf"\1:{REDACTED}@", text)


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
