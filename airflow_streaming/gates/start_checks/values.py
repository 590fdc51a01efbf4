"""Whether the value of an option has the form that a check asks for, as Spark reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_streaming.gates.start_checks.table import Form, StartCheck

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_ESCAPED: Final = re.compile(r"\\.")
_CLASS: Final = re.compile(r"\[\^?\]?[^\]]*\]")


def fits(check: StartCheck, value: str) -> bool:
    """Tell whether a value has the form of a check."""
    return check.form is None or _FORMS[check.form](check, value)


def _integer(check: StartCheck, value: str) -> bool:
    # Scala's toInt and toLong trim nothing.
    return _INTEGER.fullmatch(value) is not None and (
        check.least is None or int(value) >= check.least
    )


def _boolean(_: StartCheck, value: str) -> bool:
    return value.lower() in ("true", "false")


def _word(check: StartCheck, value: str) -> bool:
    return value.lower() in check.values


def _pattern(check: StartCheck, value: str) -> bool:
    return re.fullmatch(check.values[0], value, re.IGNORECASE) is not None


def _not_blank(_: StartCheck, value: str) -> bool:
    return bool(value.strip(" ,"))


def _regular_expression(_: StartCheck, value: str) -> bool:
    # Java and Python agree on brackets that do not close only.
    bare = _CLASS.sub("", _ESCAPED.sub("", value))
    return "[" not in bare and bare.count("(") == bare.count(")")


def _offsets(_: StartCheck, value: str) -> bool:
    return value.strip().lower() in ("earliest", "latest") or _of_numbers(_, value)


def _of_numbers(_: StartCheck, value: str) -> bool:
    return all(
        isinstance(partitions, Mapping)
        and all(number.isdecimal() for number in partitions)
        and all(isinstance(one, int) for one in partitions.values())
        for partitions in _topics(value)
    )


def _of_lists(_: StartCheck, value: str) -> bool:
    return all(
        isinstance(partitions, list) and all(isinstance(one, int) for one in partitions)
        for partitions in _topics(value)
    )


_FORMS: Final[Mapping[Form, Callable[[StartCheck, str], bool]]] = {
    Form.INTEGER: _integer,
    Form.BOOLEAN: _boolean,
    Form.WORD: _word,
    Form.PATTERN: _pattern,
    Form.NOT_BLANK: _not_blank,
    Form.REGULAR_EXPRESSION: _regular_expression,
    Form.OFFSETS: _offsets,
    Form.PARTITION_NUMBERS: _of_numbers,
    Form.PARTITION_LISTS: _of_lists,
}


def _topics(value: str) -> list[Any]:
    """Return the values of a JSON object by topic; ``[None]``, which every check refuses, for other text."""
    try:
        topics = json.loads(value)
    except ValueError:
        return [None]
    return list(topics.values()) if isinstance(topics, Mapping) else [None]
