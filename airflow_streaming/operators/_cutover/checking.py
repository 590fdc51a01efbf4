"""The author's checks on a green that runs beside blue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.core.names import is_path_part
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.operators._upgrade.check import name_of

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """
    What a check is given: a stream whose green has kept pace with blue for some time.

    :param blue: The deployment that is live; ``green`` the one beside it, with an ``output`` of its
        own.
    :param begun_at: When the cutover began.
    :param context: Airflow's context, for connections and variables.
    """

    stream: str
    home: str
    change: int
    blue: Deployment
    green: Deployment
    begun_at: datetime
    context: Any


CutoverCheck = Callable[[SideBySide], bool | str | None]
"""
Looks at what green has written beside blue. ``None``, ``True`` and an empty text say that it is well;
``False``, or a text that says what is wrong, ends the cutover, and blue stays. An exception is none
of them: the check is tried again, and at last it proves nothing, and a person is asked.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    What one check has shown of all streams together.

    :param passed: ``None`` when it came to no end.
    """

    passed: bool | None
    reason: str


def answer_of(check: CutoverCheck, pairs: Iterable[SideBySide]) -> Answer:
    """Return what a check says; of several streams the first that is not well decides."""
    name = name_of(check)
    for pair in pairs:
        try:
            said = check(pair)
        except Exception as err:  # noqa: BLE001 - whatever an author's code raises proves nothing
            told = presentable(f"{type(err).__name__}: {err}")
            return Answer(passed=None, reason=f"Check {name!r} came to no end: {told}")
        if said is not None and said is not True and said != "":
            wrong = said if isinstance(said, str) else "it said no."
            return Answer(passed=False, reason=f"Check {name!r} of stream {pair.stream!r}: {wrong}")
    return Answer(passed=True, reason=f"Check {name!r} has passed.")


def names_of(checks: Sequence[CutoverCheck]) -> tuple[str, ...]:
    """
    Return the names under which the answers of checks are kept.

    :raises SpecError: two have the same name, or one has a name that no file can have.
    """
    names = tuple(name_of(check) for check in checks)
    odd = next((name for name in names if not is_path_part(name) or names.count(name) > 1), None)
    if odd is not None:
        raise SpecError(
            f"Check {odd!r} needs a name of its own that can be a file name: define it with def, "
            "and let no two have the same name."
        )
    return names


class CheckFailed(Exception):
    """An author's check came to no end; the next try of the task asks it again."""


def unanswered(
    checks: Sequence[CutoverCheck], home: StreamHome, change: int
) -> Iterator[CutoverCheck]:
    """Yield the checks that a cutover in ``comparing`` waits for; none in any other state."""
    history = home.steps(change)
    if state_of(history) is not CutoverState.COMPARING:
        return
    known = home.check_results(change, history[-1].number)
    yield from (check for check in checks if name_of(check) not in known)


def is_last_try(context: Context) -> bool:
    """Tell whether Airflow gives the task no try after this one."""
    ti = context["ti"]
    return bool(ti.try_number > (ti.max_tries or 0))
