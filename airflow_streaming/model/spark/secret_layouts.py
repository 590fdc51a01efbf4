"""
Layouts of texts that hide a secret's name from a plain search: colors, encodings, tables, pairs.

Each pattern tests its front first and bounds all lengths, so the time is linear. The caller says which names are secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

_COLOR: Final = re.compile(
    r"(?:[\x1b\N{REPLACEMENT CHARACTER}]|\\x1b|\\u001b|\\033)\[[0-9;:]{0,24}[A-Za-z]"
)
"""A color as a terminal takes it, and as records and JSON write it."""
_UNSEEN: Final = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_WIDE: Final = {ord("\uff1d"): "=", ord("\uff1a"): ":"}
"""Signs of East Asian keyboards."""
_NAME: Final = r"(?P<name>[\w.$-]{1,160}+)"
_RANDOM: Final = r"(?=[^\d\s|]{0,60}\d)(?=[^A-Za-z\s|]{0,60}[A-Za-z])"
"""In front of a word with letters and digits: no word of a sentence."""
_LAYOUTS: Final = (
    # ``{"name": "DB_PASSWORD", "value": "x"}`` and the same in YAML: the environment of a pod.
    re.compile(
        rf"(?<![\w.-])(?:name|key)\\?['\"]?\s{{0,4}}[:=]\s{{0,4}}\\?['\"]?{_NAME}\\?['\"]?\s{{0,4}},?\s{{0,40}}"
        r"\\?['\"]?(?<![\w.-])value\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?(?P<value>[^\s'\"\\,}]{1,2000})"
    ),
    # ``(spark.my.password,x)``, as Scala prints a pair; ``(password,salt)`` may be the call of a function.
    re.compile(rf"\({_NAME},{_RANDOM}(?P<value>[^\s(),]{{1,2000}})(?=\))"),
    re.compile(
        r"\((?P<name>[\w$-]{1,80}+(?:\.[\w$-]{1,80}+){1,12}),(?P<value>[^(),\n]{1,2000})(?=\))"
    ),
    # ``| password | x1 |``
    re.compile(
        rf"\|[ \t]{{0,40}}{_NAME}[ \t]{{0,40}}\|[ \t]{{0,40}}{_RANDOM}(?P<value>[^\s|]{{1,2000}})"
    ),
    # ``password%3Dx``, also encoded twice, and ``password&#61;x``
    re.compile(
        rf"(?<![\w.$-]){_NAME}(?:%(?:25){{0,3}}3[AaDd]|&#(?:58|61|[xX]3[aAdD]);)(?P<value>[^\s&<>\"']{{1,2000}})"
    ),
)
_ENCODED_LOGIN: Final = re.compile(
    r"(://[^\s/:@%]{1,200}(?:%3[Aa]|:))(?:(?!%40)[^\s/@]){1,400}(?=%40)"
)
_PGPASS: Final = re.compile(
    r"((?<![\w.:-])[\w.-]{1,200}+:\d{3,5}:(?!\d{1,9}:)[\w*-]{1,60}+:(?!\d{1,9}:)[\w.*-]{1,60}+:)[^\s:]{4,400}"
)
"""A line of ``.pgpass``: host, port, database, user, password."""


def plain_layout(text: str) -> str:
    """Return a text without colors and invisible characters, with signs of other widths as ASCII."""
    if text.isascii():
        return _COLOR.sub("", text) if "[" in text else text
    return _COLOR.sub("", text).translate({**_UNSEEN, **_WIDE})


def mask_layouts(text: str, is_secret: Callable[[str], bool], mark: str) -> str:
    """Return a text with the value of every secret name in these layouts as a mark."""
    for layout in _LAYOUTS:
        text = layout.sub(partial(_masked, is_secret, mark), text)
    for shape in (_ENCODED_LOGIN, _PGPASS):
        text = shape.sub(rf"\g<1>{mark}", text)
    return text


def _masked(is_secret: Callable[[str], bool], mark: str, found: re.Match[str]) -> str:
    if not is_secret(found["name"]) or found["value"].startswith(mark):
        return found[0]
    return f"{found[0][: found.start('value') - found.start()]}{mark}"
