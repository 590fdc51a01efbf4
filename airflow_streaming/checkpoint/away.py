"""A store that cannot be read just now, whatever its client raises about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow_streaming.exceptions import HomeUnavailable, StreamingError


@contextlib.contextmanager
def reporting(where: str) -> Iterator[None]:
    """
    Turn whatever a storage client raises into one error.

    :raises HomeUnavailable: the store could not be read.
    """
    try:
        yield
    except StreamingError:
        raise
    except Exception as err:
        # Storage clients share no base class for "no route" or "no credentials".
        raise unavailable(where, err) from err


def unavailable(where: str, err: Exception) -> HomeUnavailable:
    """Return the error of a store that cannot be read."""
    return HomeUnavailable(
        f"{where} cannot be read: {err or 'no reason given'} ({type(err).__name__}). Check that "
        "the store can be reached from this host and that the credentials may read there."
    )
