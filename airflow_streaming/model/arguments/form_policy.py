"""
Which values of a stream a run may give: in its form, its conf, a template of both, or XCom.

The right to start a run is not the right to run code. The author of a DAG has that right; a user who
starts a run, and an editor of XCom, have not. ``form_refusals`` holds the values of a run against the policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import BY_AUTHOR
from airflow_streaming.model.arguments.fields import check_values, is_template, named_fields


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
    **dict.fromkeys(("application", "pipeline", "script"), FieldRule.APPLICATION),
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
