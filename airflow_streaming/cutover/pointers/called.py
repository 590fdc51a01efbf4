"""A pointer that is moved by functions of the dag's author."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_streaming.exceptions import PointerFailed, StreamingError
from airflow_streaming.home.consumers import Live

Word = Callable[[Live, Live], None]
"""Is given what becomes live and what is live until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallablePointer:
    """
    Leads consumers by calling a function, and back by calling another.

    Whether that is atomic is the author's to say; by default it is not. Both functions are called
    again after a kill, so a second call has to do no harm; and as nothing is known here of where
    consumers are led, nothing is compared: a task that was asleep since before an undo may call
    ``forward`` after it. Where that matters, have the function compare ``Live.number`` with the one
    it saw last, in the same transaction as the act.

    :param name: Its name in the terms and in messages.
    :param forward: Called with ``to`` and ``before`` to lead consumers to ``to``.
    :param backward: Called with the same two to lead consumers to ``before`` again.
    :param is_atomic: A consumer sees what was before or what is after, and nothing between.
    """

    name: str
    forward: Word
    backward: Word
    is_atomic: bool = False

    def move(self, to: Live, before: Live) -> None:
        """Call ``forward``; see ``Pointer``."""
        self._call(self.forward, to, before, "moved")

    def undo(self, to: Live, before: Live) -> None:
        """Call ``backward``; see ``Pointer``."""
        self._call(self.backward, to, before, "moved back")

    def _call(self, word: Word, to: Live, before: Live, what: str) -> None:
        try:
            word(to, before)
        except StreamingError:
            raise
        except Exception as err:
            raise PointerFailed(
                f"Pointer {self.name!r} of stream {to.stream!r} was not {what}: its function "
                f"raised {type(err).__name__}: {err}. It is called again at the next look."
            ) from err
