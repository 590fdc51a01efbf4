"""Whether two places lie apart once symbolic links are followed; see ``places_apart`` in core."""

from __future__ import annotations

import os

from airflow_streaming.core.checkpoint import places_apart
from airflow_streaming.core.uris import is_local, local_path
from airflow_streaming.exceptions import SpecError


def check_apart(first: str, second: str, *, what: str = "checkpoint", other: str) -> None:
    """
    Refuse two places of which one is the other or lies inside it, as spelt or as it really is.

    :param what: What the first place is, for the message; ``other`` for the second one.
    :raises SpecError: they do not lie apart; both are named as they were given.
    """
    places_apart.check_apart(first, second, what=what, other=other)
    try:
        places_apart.check_apart(_real(first), _real(second), what=what, other=other)
    except SpecError as err:
        raise SpecError(f"{err} They were given as {first} and {second}.") from err


def _real(uri: str) -> str:
    return os.path.realpath(local_path(uri)) if is_local(uri) else uri
