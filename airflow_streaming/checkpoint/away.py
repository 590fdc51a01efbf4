"""A store that cannot be read just now, whatever its client raises about it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from airflow_streaming.exceptions import HomeUnavailable, StreamingError

_NO_RIGHT: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FORBIDDEN: Final = 403


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


def is_for_want_of_rights(err: BaseException) -> bool:
    """Tell whether a store refused what was asked for: no right to it, or it is only for reading."""
    seen: BaseException | None = err
    while seen is not None:
        if isinstance(seen, PermissionError) or getattr(seen, "errno", None) in _NO_RIGHT:
            return True
        # Clients of Google and of Azure keep the answer's status.
        if _FORBIDDEN in (getattr(seen, name, None) for name in ("status_code", "status", "code")):
            return True
        seen = seen.__cause__
    return False
