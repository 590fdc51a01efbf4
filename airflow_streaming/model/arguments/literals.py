"""Templated fields: their checks when a dag is parsed, and how a run reads the filled-in values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import is_filled_in, is_template
from airflow_streaming.model.names import check_stream_name, is_path_part
from airflow_streaming.model.uris import check_uri

Check = Callable[[str], object]
"""Raises ``SpecError`` for an invalid text."""


def check_literals(task: object, checks: Mapping[str, Check]) -> None:
    """
    Check fields with a literal text; an empty or templated field is left to the run.

    :param checks: The run's check, by the field's name.
    :raises SpecError: a field can never be valid.
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
            f"backup_id is {backup_id!r:.120}, which cannot be the id of a backup. Give an id "
            "from 'airflow-streaming checkpoint list'."
        )


def uri_of(what: str) -> Check:
    return partial(check_uri, what=what)


OF_A_STREAM: Final[Mapping[str, Check]] = {
    "stream": check_stream_name,
    "home": uri_of("home"),
}
"""Checks of the fields that name a stream of this provider."""


def mapping_of(given: Mapping[str, Any] | str | None, what: str) -> dict[str, Any]:
    """
    Return a mapping that a run has filled in; a template gives it as JSON, unless it gives values.

    :param what: Its name, for the message; its values are not repeated, as they may be secret.
    :raises SpecError: it is neither a mapping nor a JSON object.
    """
    read = _read(given, {})
    if isinstance(read, Mapping) and all(isinstance(key, str) for key in read):
        return dict(read)
    raise SpecError(f"{what} is not a mapping; give one, or a JSON object as text.")


def texts_of(given: Sequence[str] | str | None, what: str) -> list[str]:
    """
    Return a list of texts that a run has filled in; a template gives it as JSON, unless it gives values.

    :raises SpecError: it is neither a list nor a JSON array.
    """
    read = _read(given, [])
    if isinstance(read, list | tuple):
        return [str(one) for one in read]
    raise SpecError(f"{what} is not a list; give one, or a JSON array as text.")


def mapping_or_template(given: Any, what: str) -> Any:
    """Return a templated value unchanged, and else the mapping; raises as ``mapping_of``."""
    return given if is_filled_in(given) else mapping_of(given, what)


def texts_or_template(given: Any, what: str) -> Any:
    """Return a templated value unchanged, and else the list; raises as ``texts_of``."""
    return given if is_filled_in(given) else texts_of(given, what)


def _read(given: Any, empty: Any) -> Any:
    if given is None or (isinstance(given, str) and not given.strip()):
        return empty
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return None
