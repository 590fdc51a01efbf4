"""What an author asks of a cutover, checked when the dag is parsed and not first in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from airflow_streaming.core.lanes import check_is_stream
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._cutover.asked import STARTS, WAYS, WHO, chosen
from airflow_streaming.operators.cutover import CutoverCheck

T = TypeVar("T")

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "way": WAYS,
    "start": STARTS,
    "promote": WHO,
    "finalise": WHO,
}


def streams_of(stream: StreamSpec | Sequence[StreamSpec]) -> tuple[StreamSpec, ...]:
    """
    Return the streams that switch together; one may stand for itself.

    :raises SpecError: there is none, something else is given, or a name is that of a lane.
    """
    found = some(stream)
    for one in found:
        if not isinstance(one, StreamSpec):
            raise SpecError(
                f"A cutover is of StreamSpecs, and {one!r} is none. Give the spec itself."
            )
        if "{" not in one.name:
            check_is_stream(one.name)
    if not found:
        raise SpecError("A cutover needs a stream. Give its StreamSpec, or several.")
    return found


def some(given: T | Sequence[T]) -> tuple[T, ...]:
    """Return several as they are, and a single one as the only one of several."""
    # A text is taken for one thing too, so that what is said of it names it and not its letters.
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def checks_of(given: CutoverCheck | Sequence[CutoverCheck]) -> tuple[CutoverCheck, ...]:
    """
    Return the author's checks; one may stand for itself.

    :raises SpecError: one of them cannot be called.
    """
    found = some(given)
    for one in found:
        if not callable(one):
            raise SpecError(f"checks has {one!r} in it; give functions of a SideBySide.")
    return found


def pointers_of(
    given: Pointer | Sequence[Pointer] | Mapping[str, Pointer | Sequence[Pointer]],
) -> Sequence[Pointer] | Mapping[str, Sequence[Pointer]]:
    """
    Return the pointers, or those of each stream; one may stand for itself.

    :raises SpecError: one of them is no pointer.
    """
    if isinstance(given, Mapping):
        return {stream: _pointers(several) for stream, several in given.items()}
    return _pointers(given)


def _pointers(given: Pointer | Sequence[Pointer]) -> tuple[Pointer, ...]:
    found = some(given)
    for one in found:
        if not (hasattr(one, "move") and hasattr(one, "undo")):
            raise SpecError(
                f"pointers has {one!r} in it; give pointers, such as PointerFile(uri=...)."
            )
    return found


def check_choices(**given: str) -> None:
    """
    Do nothing for choices that there are; what is a template is known in a run only.

    :raises SpecError: there is none of that name.
    """
    for name, value in given.items():
        if not is_template(value):
            chosen(value, name, _CHOICES[name])


def check_moment(name: str, value: str) -> None:
    """
    Do nothing for a moment in ISO 8601, nothing at all, or a template.

    :raises SpecError: it is none of these.
    """
    if not value or is_template(value):
        return
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as err:
        raise SpecError(
            f"{name} is {value!r}; give a time such as '2026-03-01T00:00:00+00:00'."
        ) from err


def check_keys(name: str, given: object, known: Iterable[str]) -> Mapping[str, Any]:
    """
    Return arguments that there are, by their names.

    :raises SpecError: it is no mapping, or has an argument that there is not.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SpecError(f"{name} is {given!r}; give a dict of arguments, or nothing.")
    names = sorted(known)
    odd = sorted(set(given) - set(names))
    if odd:
        raise SpecError(f"{name} has no argument {odd[0]!r}; give {', '.join(names)}.")
    return given


def is_template(value: object) -> bool:
    """Tell whether a value is filled in by a run."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)
