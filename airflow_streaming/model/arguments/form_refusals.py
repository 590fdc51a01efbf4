"""
Refusal of the values of a run that a stream's ``FormPolicy`` does not accept.

A value of a run stays data: it is accepted by a positive rule of its field, or the task fails before
anything is fetched.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.model.arguments.accepted import BY_AUTHOR, codes_in
from airflow_streaming.model.arguments.form_policy import RULES, FieldRule, FormPolicy
from airflow_streaming.model.arguments.plain_settings import why_not_plain
from airflow_streaming.model.spark.conf import conf_text
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import REDACTED, mask_uri
from airflow_streaming.model.uris import is_local, local_path, scheme_of

_CHAIN: Final = "::"
"""Joins the parts of a chained URI of fsspec, whose last part may be any host."""
_ODD: Final = re.compile(r"[\\%\x00-\x1f\x7f]")
"""Characters that readers of a path understand differently."""
_PROGRAMS: Final = ("application", "pipeline")
"""Fields of a stream's own program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValue:
    """
    A value that a run has filled in.

    :param field: The templated field.
    :param source: The author's template, another task, or a mapping.
    """

    field: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """
    A value that a run may not give.

    :param name: The field, with the key of a setting, e.g. ``conf['spark.jars']``.
    :param value: Without its secrets.
    :param why: Half a sentence.
    :param option: The option of ``FormPolicy`` that would accept it.
    """

    name: str
    value: str
    source: str
    why: str
    option: FieldRule

    def __str__(self) -> str:
        return (
            f"{self.name} is {self.value!r:.200}, from {self.source}: {self.why}; start the run without it, "
            f"or have the DAG's author accept it with FormPolicy({self.option.value}=...)."
        )


def refusals(
    policy: FormPolicy, values: Iterable[RunValue], known_applications: Collection[str] = ()
) -> list[Refusal]:
    """
    Return what of the values of a run is refused; a value that is empty was not given.

    :param known_applications: Scripts that need no permission: the DAG's, the running deployment's.
    """
    return [
        refusal
        for one in values
        if not _is_empty(one.value) and one.field not in policy.fields
        if not (one.field in _PROGRAMS and str(one.value).strip() in known_applications)
        for refusal in _JUDGES[RULES.get(one.field, FieldRule.AUTHORS)](policy, one)
    ]


def _data(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    del policy, given
    yield from ()


def _application(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    text = str(given.value).strip()
    if not any(is_at_or_below(text, one) for one in policy.applications):
        yield _refusal(
            given,
            FieldRule.APPLICATION,
            "the script is neither the DAG's nor the running deployment's, and below no folder that the "
            "DAG lists",
        )


def _place(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    text = str(given.value).strip()
    if not any(is_at_or_below(text, one) for one in policy.places):
        yield _refusal(given, FieldRule.PLACE, "it is below no folder that the DAG lists")


def _runtime(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    allowed = policy.runtimes
    text = str(given.value).strip()
    if allowed is not None and text not in allowed:
        yield _refusal(
            given, FieldRule.RUNTIME, f"the DAG lists {', '.join(allowed) or 'no runtime'}"
        )


def _conf(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    if not isinstance(given.value, Mapping):
        yield _refusal(
            given, FieldRule.AUTHORS, "only a mapping of settings to values can be typed"
        )
        return
    for key, value in given.value.items():
        if any(_is_listed(str(key), listed) for listed in policy.conf):
            continue
        text = None if value is None else conf_text(value)
        if why := why_not_plain(str(key), text):
            yield Refusal(
                name=f"conf[{key!r:.120}]",
                value=redact({str(key): text or "null"})[str(key)],
                source=given.source,
                why=why,
                option=FieldRule.CONF,
            )


def _accept(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    texts = given.value if isinstance(given.value, Iterable) else str(given.value)
    for code in sorted(codes_in(texts) & set(BY_AUTHOR) - set(policy.accept)):
        yield Refusal(
            name=given.field,
            value=code,
            source=given.source,
            why="only the DAG's author accepts it",
            option=FieldRule.ACCEPT,
        )


def _authors(policy: FormPolicy, given: RunValue) -> Iterator[Refusal]:
    del policy
    yield _refusal(given, FieldRule.AUTHORS, "only the DAG's author gives it")


_JUDGES: Final[Mapping[FieldRule, Callable[[FormPolicy, RunValue], Iterator[Refusal]]]] = {
    FieldRule.DATA: _data,
    FieldRule.APPLICATION: _application,
    FieldRule.RUNTIME: _runtime,
    FieldRule.CONF: _conf,
    FieldRule.PLACE: _place,
    FieldRule.ACCEPT: _accept,
    FieldRule.AUTHORS: _authors,
}


def _refusal(given: RunValue, option: FieldRule, why: str) -> Refusal:
    shown = REDACTED if given.field == "env" else mask_uri(str(given.value))
    return Refusal(name=given.field, value=shown, source=given.source, why=why, option=option)


def _is_empty(value: Any) -> bool:
    # A template of a parameter without a value renders as one of these words.
    return value is None or value in ((), [], {}) or str(value).strip() in ("", "None", "null")


def _is_listed(key: str, listed: str) -> bool:
    return key.startswith(listed) if listed.endswith(".") else key == listed


def is_at_or_below(location: str, prefix: str) -> bool:
    """
    Tell whether a path or URI names a folder or an entry below it, whichever reader resolves it.

    A location with ``..``, a chain of URIs, an escape or a control character is below nothing.
    """
    if _CHAIN in location or _ODD.search(location) or _is_remote(location) != _is_remote(prefix):
        return False
    path, folder = _plain_path(location), _plain_path(prefix)
    if ".." in path.split("/"):
        return False
    if folder == ".":
        return not path.startswith("/")
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def _is_remote(location: str) -> bool:
    return not is_local(location)


def _plain_path(location: str) -> str:
    if _is_remote(location):
        scheme = scheme_of(location)
        return f"{scheme}://{location.split('://', 1)[1]}".rstrip("/")
    path = local_path(location)
    # normpath would also resolve "..", which means another folder where a part is a link.
    return path if ".." in path.split("/") else posixpath.normpath(path)
