"""
StreamSpec → Deployment: what a dag asks for, and the immutable version of it that runs.

The spec is the user's; it may hold secrets in ``conf`` and ``env`` and never leaves the process as
it is. The deployment is the record: secrets are replaced by a mark, the script by its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final

from airflow_streaming.core.epoch import MAX_STOP_GRACE
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.names import check_stream_name
from airflow_streaming.core.restart import RestartPolicy
from airflow_streaming.core.uris import check_uri
from airflow_streaming.core.wire import Record
from airflow_streaming.exceptions import SpecError

REDACTED: Final = "(redacted)"
SECRET_KEY: Final = re.compile(
    r"secret|password|passwd|passphrase|token|credential|jaas"
    r"|(?:access|account|api|private|encryption)[._-]?key"
    r"|[._-]sas(?:[._-]|$)|[?&-]sig(?:nature)?\b",
    re.IGNORECASE,
)
"""
Spark's own redaction pattern and more: Spark's misses the keys of Azure (``account.key``, ``sas``),
what Kafka logs in with (``sasl.jaas.config``) and signed URLs. Like Spark's, it is held against
values as well, for options such as ``-Dtrust.password=...``.
"""

_USER_INFO: Final = re.compile(r"(://[^/\s:@]*):[^@\s]*@")
_OURS: Final = frozenset({"spark.app.name", "spark.submit.deployMode"})
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_COMPARED: Final = frozenset({"number", "created_at", "created_by"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StreamSpec:
    """
    One PySpark application with streaming queries, as a dag asks for it.

    ``{stream}``, ``{output}``, ``{checkpoint}``, ``{home}`` and ``{deployment}`` in the arguments
    are replaced when the driver is launched. Sequences may be given as lists.

    :param name: The stream's name: one folder of the home. (templated)
    :param application: The PySpark script, a path (relative to the dag file) or URI. (templated)
    :param home: Folder or object-store URI that holds the records of all streams. (templated)
    :param runtime: Name of a Spark installation from ``[streaming] runtimes``. (templated)
    :param application_args: Arguments for the script. Not for secrets. (templated)
    :param conf: Spark configuration. It reaches Spark through a private file. (templated)
    :param env: Environment of the driver; values are never recorded. (templated)
    :param py_files: Python files or zips beside the script. (templated)
    :param jars: Jars for the class path. (templated)
    :param packages: Maven coordinates. (templated)
    :param files: Files to ship to executors. (templated)
    :param output: Where the script writes; by default a folder under the home. (templated)
    :param checkpoint: Folder for the queries' checkpoints; default: under the home. (templated)
    :param restart: When a failed driver comes back.
    :param health: When a driver counts as hung or silent.
    :param fair_pools: Give every query a fair scheduler pool of its own.
    :param stop_grace: How long a stop may wait for a batch boundary before the driver is killed.
    """

    template_fields: ClassVar[tuple[str, ...]] = (
        "name",
        "application",
        "home",
        "runtime",
        "application_args",
        "conf",
        "env",
        "py_files",
        "jars",
        "packages",
        "files",
        "output",
        "checkpoint",
    )

    name: str
    application: str
    home: str
    runtime: str
    application_args: Sequence[str] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    py_files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    files: Sequence[str] = ()
    output: str | None = None
    checkpoint: str | None = None
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    health: HealthRules = field(default_factory=HealthRules)
    fair_pools: bool = False
    stop_grace: timedelta = timedelta(seconds=60)

    def __repr__(self) -> str:
        return f"StreamSpec({json.dumps(self.serialize(), sort_keys=True, default=str)})"

    def serialize(self) -> dict[str, Any]:
        """Return the spec without secrets, as Airflow shows it among the rendered templates."""
        shown = {name: _shown(getattr(self, name)) for name in self.template_fields}
        return {**shown, "conf": redact(self.conf), "env": dict.fromkeys(self.env, REDACTED)}

    def check(self) -> None:
        """
        Check what can be checked without looking outside.

        :raises SpecError: with the field and what to write instead.
        """
        for what in ("name", "application", "home", "runtime"):
            if not isinstance(getattr(self, what), str) or not getattr(self, what).strip():
                raise SpecError(f"Stream {self.name!r} has no {what}. Give it as a text.")
        check_stream_name(self.name)
        check_uri(self.home, "home")
        for what in ("output", "checkpoint"):
            if uri := getattr(self, what):
                check_uri(uri, what)
        for what in ("application_args", "py_files", "jars", "packages", "files"):
            _check_texts(self.name, what, getattr(self, what))
        for key, value in self.conf.items():
            _check_conf(self.name, key, value)
        for key, value in self.env.items():
            _check_env(self.name, key, value)
        if not timedelta(0) <= self.stop_grace <= MAX_STOP_GRACE:
            raise SpecError(f"stop_grace of stream {self.name!r} must be between 0 s and one day.")


def _check_texts(stream: str, what: str, values: Any) -> None:
    # One text is a sequence too, of its letters; a number would be refused when read back.
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise SpecError(f"{what} of stream {stream!r} must be a list of texts.")
    if any("\0" in value for value in values):
        raise SpecError(f"{what} of stream {stream!r} has a NUL character in it. Remove it.")


def _check_conf(stream: str, key: str, value: Any) -> None:
    check_conf_key(key)
    if not isinstance(value, str | int | float) or "\0" in str(value):
        raise SpecError(f"{key!r} in conf of stream {stream!r} must be a text, number or boolean.")


def _check_env(stream: str, key: str, value: Any) -> None:
    if not _ENV_NAME.fullmatch(key):
        raise SpecError(f"{key!r} in env of stream {stream!r} is no name of a variable.")
    if not isinstance(value, str) or "\0" in value:
        raise SpecError(f"{key!r} in env of stream {stream!r} must be a text without NUL.")


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return _USER_INFO.sub(rf"\1:{REDACTED}@", value)
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(Record):
    """
    An immutable version of a stream.

    :param application: Where the script was read from; a copy lies beside this record.
    :param application_sha256: Digest of the copy.
    :param conf: Configuration with secrets redacted; launches fill them in from the dag.
    :param env: Names of the environment variables the dag gives.
    :param checkpoint: URI under which every query has a folder.
    :param output: URI that ``{output}`` stands for.
    """

    KIND: ClassVar[str] = "deployment"

    number: int
    stream: str
    application: str
    application_sha256: str
    application_args: tuple[str, ...]
    conf: Mapping[str, str]
    env: tuple[str, ...]
    py_files: tuple[str, ...]
    jars: tuple[str, ...]
    packages: tuple[str, ...]
    files: tuple[str, ...]
    runtime: str
    spark_version: str
    checkpoint: str
    output: str
    fair_pools: bool
    created_at: datetime
    created_by: str
    colour: str = "blue"

    @property
    def fingerprint(self) -> str:
        """Return a digest of what makes two deployments different to Spark."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_COMPARED}
        told["conf"] = dict(self.conf)
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def differences(self, other: Deployment) -> list[str]:
        """Return the names of the fields in which a proposed deployment differs."""
        return [
            f.name
            for f in fields(self)
            if f.name not in _NOT_COMPARED and getattr(self, f.name) != getattr(other, f.name)
        ]

    def arguments(self, home: str) -> list[str]:
        """Return the script's arguments with the placeholders replaced."""
        known = {
            "{stream}": self.stream,
            "{output}": self.output,
            "{checkpoint}": self.checkpoint,
            "{home}": home,
            "{deployment}": str(self.number),
        }
        return [_fill(argument, known) for argument in self.application_args]


class ProposalAction(StrEnum):
    """What becomes of a deployment that the dag proposes."""

    KEEP = "keep"
    """It is what runs already."""
    APPLY = "apply"
    TELL = "tell"
    """The running one stays, and the difference is told."""


def decide_proposal(
    current: Deployment | None, proposed: Deployment, *, restart_asked: bool
) -> ProposalAction:
    """Decide about a proposed deployment; only a person's word replaces what runs."""
    if current is None:
        return ProposalAction.APPLY
    if proposed.fingerprint == current.fingerprint:
        return ProposalAction.KEEP
    return ProposalAction.APPLY if restart_asked else ProposalAction.TELL


def _fill(text: str, known: Mapping[str, str]) -> str:
    # Not str.format: an argument may be JSON, full of braces that are none of our business.
    pattern = "|".join(re.escape(name) for name in known)
    return re.sub(pattern, lambda match: known[match[0]], text)
