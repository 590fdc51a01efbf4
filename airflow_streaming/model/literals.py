"""Checks of templated fields, made when a dag is parsed where there is no template to be filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.fields import is_template
from airflow_streaming.model.names import check_stream_name, is_path_part
from airflow_streaming.model.uris import check_uri

Check = Callable[[str], object]
"""Raises ``SpecError`` for a text that is not what it should be."""


def check_literals(task: object, checks: Mapping[str, Check]) -> None:
    """
    Check fields that hold a text of their own; one that is empty or filled in by a run is left to it.

    :param checks: By the field's name, what the run would check.
    :raises SpecError: a field can never be what it should.
    """
    for name, check in checks.items():
        value = getattr(task, name)
        if isinstance(value, str) and value and not is_template(value):
            check(value)


def check_backup_id(backup_id: str) -> None:
    """
    Check that a text can be the id of a backup.

    :raises SpecError: it cannot.
    """
    if not is_path_part(backup_id):
        raise SpecError(
            f"backup_id is {backup_id!r:.120}, which cannot be the id of a backup. Give one that "
            "'airflow-streaming checkpoint list' shows."
        )


def uri_of(what: str) -> Check:
    """Return the check of a place's URI."""
    return partial(check_uri, what=what)


OF_A_STREAM: Final[Mapping[str, Check]] = {
    "stream": check_stream_name,
    "home": uri_of("home"),
}
"""Checks of the fields that name a stream of this provider."""
