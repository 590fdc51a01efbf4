"""
Placeholders such as ``{output}`` in the arguments of a script and in statements.

Not ``str.format``: an argument may be JSON and a statement may have braces, and other text in
braces stays as it is. Only a name with two letters swapped is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import written_at

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
LITERALLY: Final = "it with spaces, as {{ {} }}, or choose another name"
"""How a statement writes literal braces that are not a template."""
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
"""Of Jinja, which is gone when placeholders are replaced."""
_NAME: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced by values, by name."""
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)


def placeholders_in(text: str, known: Collection[str]) -> list[str]:
    """Return the names of the placeholders that a text has, in their order."""
    return [name for name in _NAME.findall(text) if name in known]


def check_placeholders(
    what: str, texts: Iterable[object], known: Collection[str], *, literally: str
) -> None:
    """
    Check that texts have no placeholder with two letters swapped, such as ``{outptu}``.

    Any other name in braces may be the script's own: ``{team}``, ``{streams}``, ``{stream_id}``.

    :param what: The texts' name in the message, e.g. ``application_args of stream 'orders'``.
    :param known: The names of the placeholders.
    :param literally: How to write literal braces, with ``{}`` for the name in them.
    :raises SpecError: with the most similar placeholder, and how to write literal braces.
    """
    for text in texts:
        for name in _NAME.findall(_COMMENT.sub("", text)) if isinstance(text, str) else ():
            meant = [one for one in known if name in _slips_of(one)]
            if name not in known and meant:
                raise SpecError(
                    f"{what} has {{{name}}}, which is not replaced; did you mean {{{meant[0]}}}? If the "
                    f"braces are meant as they stand, write {literally.format(name)}.{written_at()}"
                )


def _slips_of(name: str) -> set[str]:
    """Return a name with two letters swapped that stand side by side; more would find ``{master}``."""
    swapped = (
        f"{name[:at]}{name[at + 1]}{name[at]}{name[at + 2 :]}" for at in range(len(name) - 1)
    )
    return {*swapped} - {name}
