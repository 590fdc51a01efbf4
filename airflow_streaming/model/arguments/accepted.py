"""
Codes of findings that a user accepts in a form, in the options of a change, or for an operator.

A finding that is not accepted refuses the change. Its remedy names the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import is_filled_in

OLDER_SPARK: Final = "live.older_spark"
OLDER_SCRIPT: Final = "live.older_script"
DROPPED_CONF: Final = "live.dropped_conf"
REPLAY: Final = "rollback.replay"
"""After a rollback a sink that only appends has rows twice."""
NO_ROLLBACK: Final = "rollback.none"
"""The new deployment cannot be rolled back once it has written."""
UNPROVED: Final = "migration.unproved"
"""A run from scratch does not confirm the rows of a migrated state."""
STEPS_BACK: Final = (OLDER_SPARK, OLDER_SCRIPT, DROPPED_CONF)
"""Steps back from the live deployment. A cutover has no other code: the kept blue is its rollback."""
BY_AUTHOR: Final = (REPLAY, NO_ROLLBACK, UNPROVED)
"""Codes that a run accepts only where ``FormPolicy.accept`` has them."""
OF_UPGRADE: Final = (*STEPS_BACK, *BY_AUTHOR)
"""Codes of an upgrade in place and of a restart."""


def codes_in(accept: Iterable[str] | str) -> frozenset[str]:
    """
    Return the codes of a list, or of a text with commas.

    :param accept: Not checked.
    """
    given = accept.split(",") if isinstance(accept, str) else accept
    return frozenset(text for code in given if (text := str(code).strip()))


def accepted_codes(
    accept: Sequence[str] | str, acceptable: Sequence[str] = OF_UPGRADE
) -> frozenset[str]:
    """
    Return the codes that a user accepts.

    :param accept: A list, or a text with commas.
    """
    codes = codes_in(accept)
    if unknown := sorted(codes - set(acceptable)):
        raise SpecError(f"accept has {unknown[0]!r:.80}; give {', '.join(acceptable)}.")
    return codes


def check_accepted(
    accept: Sequence[str] | str | None, acceptable: Sequence[str] = OF_UPGRADE
) -> None:
    """Check the codes that an author has written out. The task checks the codes of a template."""
    if accept is not None and is_written_out(accept):
        accepted_codes(accept, acceptable)


def is_written_out(accept: Iterable[str] | str) -> bool:
    """Tell whether no template and no result of a task is among the codes."""
    given = [accept] if isinstance(accept, str) or is_filled_in(accept) else accept
    return not any(map(is_filled_in, given))
