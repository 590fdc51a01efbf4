"""
Which values of a stream a run may give: in its form, its conf, a template of both, or XCom.

The right to start a run is not the right to run code. The author of a DAG has that right; a user who
starts a run, and an editor of XCom, have not. So a value of a run stays data: it is accepted by a
positive rule of its field, or the task fails before anything is fetched.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import BY_AUTHOR, codes_in
from airflow_streaming.model.arguments.fields import check_values, is_template, named_fields
from airflow_streaming.model.spark.conf import conf_text, redact
from airflow_streaming.model.spark.plain_settings import why_not_plain
from airflow_streaming.model.spark.secrets import REDACTED, mask_uri
from airflow_streaming.model.uris import is_local, local_path, scheme_of

_CHAIN: Final = "::"
"""Joins the parts of a chained URI of fsspec, whose last part may be any host."""
_ODD: Final = re.compile(r"[\\%\x00-\x1f\x7f]")
"""Characters that readers of a path understand differently."""


class FieldRule(StrEnum):
    """By which rule a value of a run is judged."""

    DATA = "data"
    """Any value: the task itself checks it, and nothing is run or opened by it."""
    APPLICATION = "applications"
    RUNTIME = "runtimes"
    CONF = "conf"
    PLACE = "places"
    ACCEPT = "accept"
    AUTHORS = "fields"
    """Only the author gives it, unless ``fields`` names it."""


RULES: Final[Mapping[str, FieldRule]] = {
    **dict.fromkeys(("application", "script"), FieldRule.APPLICATION),
    **dict.fromkeys(("runtime", "to_runtime"), FieldRule.RUNTIME),
    "conf": FieldRule.CONF,
    "accept": FieldRule.ACCEPT,
    **dict.fromkeys(
        ("home", "output", "checkpoint", "store", "backup_store", "to"), FieldRule.PLACE
    ),
    **dict.fromkeys(
        (
            *("application_args", "env", "py_files", "jars", "packages", "files"),
            *("conn_id", "home_conn_id", "store_conn_id", "checkpoint_conn_id", "to_conn_id"),
            "sink_logs",
        ),
        FieldRule.AUTHORS,
    ),
    **dict.fromkeys(
        (
            # Names and numbers that are checked when they are read.
            *(
                "name",
                "stream",
                "stream_name",
                "stream_home",
                "size",
                "select",
                "campaign",
                "batches",
                "backup_id",
            ),
            *(
                "soak_minutes",
                "rehearsal_minutes",
                "retain_hours",
                "replay_from",
                "from_version",
                "to_version",
            ),
            # Words of a list, switches, and text for the records.
            *(
                "fail_on",
                "when",
                "way",
                "start",
                "level",
                "reason",
            ),
            *("is_dry_run", "approval", "prewarm", "migrate"),
            *("rewind", "policy", "origin", "note"),
        ),
        FieldRule.DATA,
    ),
}
"""The rule of each templated field of a stream and of the tasks that change one."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class FormPolicy:
    """
    The values that a run of a stream's DAGs may give beside the default ones.

    Without any option a user who starts a run chooses among the ``[streaming] runtimes``, gives
    sizes and the Spark settings of ``docs/security.md`` that can be neither code nor a place, and
    leaves the script as the DAG or the running deployment has it. Each option widens that. **An
    option marked "means code" gives every user who may start a run of the DAG the rights of the
    worker's user**, before an approval and in a dry run too, because preflight and rehearsal run
    the proposal.

    :param applications: Folders or URIs; a script at or below one may be typed. Means code for
        users who can write there.
    :param runtimes: Names of the runtimes that may be chosen; ``None``: all of ``[streaming]
        runtimes``.
    :param conf: More keys of the Spark configuration, with any value; a key that ends with a dot is
        a prefix. Means code for most keys: ``spark.jars``, ``spark.plugins``, any Java option,
        ``spark.sql.extensions``, ``spark.kubernetes.``.
    :param places: Folders or URIs; a home, an output, a checkpoint or a store of backups at or
        below one may be typed. A home means code for users who can write there.
    :param accept: Codes of findings that a run may accept beside the steps back (``live.*``):
        ``rollback.replay``, ``rollback.none``.
    :param fields: More fields that a run may give with any value, e.g. ``application_args``. Means
        code for ``application``, ``script``, ``conf``, ``env``, ``py_files``, ``jars``,
        ``packages``, ``files``, ``home`` and for connections.
    :raises SpecError: an option is a template, or a field is unknown.
    """

    applications: Sequence[str] = ()
    runtimes: Sequence[str] | None = None
    conf: Sequence[str] = ()
    places: Sequence[str] = ()
    accept: Sequence[str] = ()
    fields: Sequence[str] = ()

    def means_code(self, field: str) -> bool:
        """Tell whether a run may bring code of its own through ``application`` or ``conf``."""
        listed = {"application": self.applications, "conf": self.conf}.get(field, ())
        return bool(listed) or field in self.fields

    def __post_init__(self) -> None:
        check_values(self)
        given = (
            self.applications,
            self.runtimes or (),
            self.conf,
            self.places,
            self.accept,
            self.fields,
        )
        for text in itertools.chain(*given):
            if is_template(text) or not text.strip():
                raise SpecError(
                    f"FormPolicy has {text!r:.80}, which is empty or a template. Write the value out: a run "
                    "must not widen its own rights."
                )
        if unknown := sorted(set(self.accept) - set(BY_AUTHOR)):
            raise SpecError(
                f"FormPolicy.accept has {unknown[0]!r:.80}; give {', '.join(BY_AUTHOR)}."
            )
        for name in self.fields:
            if name not in RULES:
                raise SpecError(
                    f"FormPolicy.fields has {name!r:.80}. Give names of templated fields: "
                    f"{', '.join(sorted(n for n, rule in RULES.items() if rule is not FieldRule.DATA))}."
                )


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
        if not (one.field == "application" and str(one.value).strip() in known_applications)
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
