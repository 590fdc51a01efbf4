"""
Placeholders such as ``{output}`` in the arguments of a script and in statements.

Not ``str.format``: an argument may be JSON and a statement may have braces, and what is no placeholder
of ours stays as it is. Only what is most likely meant for one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.calls import nearest, written_at

OF_ARGUMENTS: Final = (
    "stream",
    "output",
    "checkpoint",
    "home",
    "deployment",
    "replay_from",
    "replay_from_ms",
)
OF_STATEMENTS: Final = ("stream", "lane", "color", "deployment", "number", "output")
_LIKENESS: Final = 0.8
"""Above that of ``{stream_name}`` and ``{stream}``: a script may have placeholders of its own."""
_NAME: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced by values, which are given by name."""
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)


def placeholders_in(text: str, known: Collection[str]) -> list[str]:
    """Return the names of the placeholders that a text has, in their order."""
    return [name for name in _NAME.findall(text) if name in known]


def check_placeholders(what: str, texts: Iterable[object], known: Collection[str]) -> None:
    """
    Check that texts have nothing in braces that is nearly a placeholder.

    :param what: What the texts are, for the message, e.g. ``application_args of stream 'orders'``.
    :param known: The names of the placeholders.
    :raises SpecError: with the placeholder that is most likely meant.
    """
    for text in texts:
        for name in _NAME.findall(text) if isinstance(text, str) else ():
            if name not in known and (near := nearest(name, known, likeness=_LIKENESS)):
                raise SpecError(
                    f"{what} has {{{name}}}, which is not replaced; did you mean {{{near}}}? If the text "
                    f"is meant as it stands, choose another name for it.{written_at()}"
                )
