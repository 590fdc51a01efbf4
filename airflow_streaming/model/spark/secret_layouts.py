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
    # ``<entry key="password">x</entry>``
    re.compile(
        rf"<\w{{1,40}}\s(?:[^<>\n]{{0,100}}?\s)?(?:key|name)=['\"]{_NAME}['\"][^<>\n]{{0,100}}>(?P<value>[^<>]{{1,2000}})"
    ),
    # ``password: !vault x`` and ``password;x1``
    re.compile(
        rf"(?<![\w.$-]){_NAME}(?:\s{{0,4}}[:=]\s{{0,4}}![\w-]{{1,30}}\s{{1,4}}|;{_RANDOM})(?P<value>[^\s;]{{1,2000}})"
    ),
)
_ENCODED_LOGIN: Final = re.compile(
    r"(://[^\s/:@%]{1,200}(?:%3[Aa]|:))(?:(?!%40)[^\s/@]){1,400}(?=%40)"
)
_PGPASS: Final = re.compile(
    r"((?<![\w.:-])[\w.-]{1,200}+:\d{3,5}:(?!\d{1,9}:)[\w*-]{1,60}+:(?!\d{1,9}:)[\w.*-]{1,60}+:)[^\s:]{4,400}"
)
"""A line of ``.pgpass``: host, port, database, user, password."""

_PIPED: Final = re.compile(
    r"((?<![\w-])(?:echo|printf)\s{1,4}(?:-\w{1,4}\s{1,4}|['\"]?%s(?:\\{1,2}n)?['\"]?\s{1,4})?)[^\s|]{1,400}"
    r"(?=\s{0,4}\|[^|\n]{0,200}?(?:--password-stdin|--with-token|\skinit\s|\ssudo\s[^|\n]{0,60}?-S\b))"
    r"|((?:--password-stdin|--with-token)\b[^|\n]{0,200}?<<<\s{0,4})\S{1,400}"
    r"|((?<![\w-])cat\s{1,4}<<<\s{0,4})[^\s|]{1,400}(?=\s{0,4}\|[^|\n]{0,200}?(?:--password-stdin|--with-token))"
)
"""A password that one command writes and another reads."""
_COMMANDS: Final = re.compile(
    r"((?<![\w.-])(?:(?:mongo(?:sh|dump|restore|export|import)?|beeline|cqlsh)\s[^\n|;]{0,200}?(?<!\S)-p\s{1,4}"
    r"|(?:sqlcmd|bcp|zip|unzip)\s[^\n|;]{0,200}?(?<!\S)-P\s{0,4}"
    r"|ldap(?:add|delete|modify|search|whoami)\s[^\n|;]{0,200}?(?<!\S)-w\s{1,4}"
    r"|openssl\s[^\n|;]{0,200}?(?<!\S)-[kK]\s{1,4}|7za?\s[^\n|;]{0,200}?(?<!\S)-p"
    r"|ssh-keygen\s[^\n|;]{0,200}?(?<!\S)-[NP]\s{1,4}"
    r"|https?\s[^\n|;]{0,100}?(?<!\S)(?:-a|--auth)[\s=]{1,4}[\w.@-]{1,100}:"
    r"|(?:smbclient|rpcclient)\s[^\n|;]{0,200}?(?<!\S)(?:-U|--user)[\s=]{1,4}[\w.@\\-]{1,100}%"
    r"|sqlplus\s{1,4}(?:-\w{1,4}\s{1,4})?[\w.]{1,100}/|htpasswd\s{1,4}-\w{0,4}b\w{0,4}\s{1,4}\S{1,200}\s{1,4}\S{1,100}\s{1,4}"
    r"|net\s{1,4}use\s{1,4}[A-Za-z*]:?\s{1,4}\S{1,200}\s{1,4}(?!/)|AUTH\s{1,4}default\s{1,4}"
    r"|gcloud\s{1,4}auth\s{1,4}activate-refresh-token\s{1,4}\S{1,200}\s{1,4}"
    r"|curl\s[^\n|;]{0,200}?(?<!\S)(?:-b|--cookie)[\s=]{1,4}['\"]?[\w.-]{1,100}=)"
    r"|(?<!\S)--from-literal[\s=]{1,4}['\"]?[\w.-]{1,100}=)[^\s'\"@]{1,400}"
)
"""Options and places of passwords of programs, which no name marks."""
_PAIR: Final = re.compile(
    r"((?:(?<![\w.])auth\s{0,4}=\s{0,4}|(?:Basic|Digest|Proxy)Auth|(?<!\w)(?:login|basic_auth))\(\s{0,4}"
    r"(?:'[^'\n]{0,200}'|\"[^\"\n]{0,200}\")\s{0,4},\s{0,4})(?:'[^'\n]{1,400}'|\"[^\"\n]{1,400}\")"
)
"""``auth=("user", "password")``, as Python's clients take a login."""
_IDENTIFIED: Final = re.compile(
    r"((?<!\w)IDENTIFIED\s{1,4}WITH\s{1,4}\S{1,60}\s{1,4}(?:AS|BY)\s{1,4})(?:'[^'\n]{1,400}'|\S{1,400})",
    re.IGNORECASE,
)
_PIN: Final = re.compile(
    r"((?:(?<![A-Za-z])[Pp]in|(?<=[a-z])Pin|(?<![A-Za-z])PIN)(?![A-Za-z])['\"]?(?:[ ]?[:=]|(?<=PIN)[ ])[ ]{0,4}['\"]?)\d{4,12}(?![\w.])"
)
_SHAPES: Final = (_ENCODED_LOGIN, _PGPASS, _PIPED, _COMMANDS, _PAIR, _IDENTIFIED, _PIN)


def plain_layout(text: str) -> str:
    """Return a text without colors and invisible characters, with signs of other widths as ASCII."""
    if text.isascii():
        return _COLOR.sub("", text) if "[" in text else text
    return _COLOR.sub("", text).translate({**_UNSEEN, **_WIDE})


def mask_layouts(text: str, is_secret: Callable[[str], bool], mark: str) -> str:
    """Return a text with the value of every secret name in these layouts as a mark."""
    for layout in _LAYOUTS:
        text = layout.sub(partial(_masked, is_secret, mark), text)
    for shape in _SHAPES:
        text = shape.sub(lambda found: f"{_front(found)}{mark}", text)
    return text


def _front(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None)


def _masked(is_secret: Callable[[str], bool], mark: str, found: re.Match[str]) -> str:
    if not is_secret(found["name"]) or found["value"].startswith(mark):
        return found[0]
    return f"{found[0][: found.start('value') - found.start()]}{mark}"
