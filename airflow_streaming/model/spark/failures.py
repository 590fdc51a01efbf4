"""
How an error text is read: its conditions, its kind, and when two failures are the same.

Spark wraps errors: a lost connection inside a Python ``foreachBatch`` arrives as a failed stream
around a failed function around the real cause, all in one message. A record gets the innermost
error, short, and without a secret that a message may quote.

Spark puts run ids, task numbers, host names, addresses, sizes and times into its messages, and the
checkpoint's path into many. They are replaced by a mark before the rest is hashed. Words stay: a
``KeyError: 'price'`` is another failure than a ``KeyError: 'amount'``.

Among signs of the same weight the last one wins, because causes come after their effects. Signs
have three weights: a distinctive one (a condition of the state store, an exception of the network)
beats a general one (a missing file), and both beat the fact that user code was running, since most
code that talks to a database fails with the database.

Older releases name no conditions for most of this; their sentences are in the same table.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import quote, quote_plus

from airflow_streaming.model.spark.failure_signs import WEIGHTS, Diagnosis, FailureKind, Sign
from airflow_streaming.model.spark.lost_records import lost_records
from airflow_streaming.model.spark.secrets import REDACTED, mask_text

MAX_TEXT: Final = 2_000
"""Characters of an error text that a record keeps."""
MAX_READ: Final = 200_000
"""Maximum characters of a message to read; Spark's own plan dumps reach megabytes."""
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9]*(?:[_.][A-Z0-9]+)+)\]")
_WRAPPER: Final = re.compile(
    r"^(?:\[STREAM_FAILED\] Query \[.*?\] terminated with exception: "
    r"|An error occurred while calling \S{1,100}\.\s{0,4}\n: )"
)
"""The prefix that Spark and py4j put before the error itself."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_PLAN: Final = "=== Streaming Query ==="
_AFTER_PLAN: Final = ("Caused by: ", _TRACEBACK, "JVM stacktrace:")
_CAUSE: Final = re.compile(r"^(?:Caused by)?: (.*)", re.MULTILINE)
"""Java's causes, and the Java error that py4j quotes after a colon of its own."""
_PYTHON_ERROR: Final = re.compile(r"([A-Za-z_][\w.]*)(?::\s?(.*))?")
_BAD_FILE: Final = re.compile(r"[Ee]ncountered error while reading file (\S{1,500}?)\.?(?=\s|$)")
_BAD_VALUE: Final = re.compile(
    r"The value '(.{1,200}?)' of the type \"?([A-Z ]{1,30})\"? cannot be cast to \"?([A-Z ]{1,30})"
)
_BAD_NUMBER: Final = re.compile(
    r"ValueError: (?:invalid literal for int\(\) with base \d{1,2}|could not convert string to float): "
    r"'([^'\n]{1,200})'"
)
_BAD_RECORD: Final = re.compile(r"detected in record parsing: \[(.{1,300}?)\]\.?(?=\s|$)")
_BAD_COLUMN: Final = re.compile(r"at \[Source: [^\n]{0,200}?line: (\d{1,9}), column: (\d{1,9})\]")
_MOST_READ: Final = 64_000
"""Characters of an error that are searched; the chain of causes comes first."""

_MAX_COMPARED: Final = 2_000
"""Characters of the core that are compared; what makes a failure stands at its beginning."""
_LENGTH: Final = 16
"""Hex digits of a signature."""
_TASK: Final = re.compile(r"\([^()\s]{1,255} executor [^()\s]{1,100}\)")
_URI: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}:/[^\s'\",;)\]]*", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w/])/[^\s'\",;)\]]*")
_ADDRESS: Final = re.compile(r"\b[\w.-]{1,255}(?:/[\d.:a-fA-F]{2,45})?:\d{1,5}\b")
_HEX: Final = re.compile(r"\b(?=[a-f-]{0,64}\d)[0-9a-f][0-9a-f-]{5,64}[0-9a-f]\b", re.IGNORECASE)
_JAVA_OBJECT: Final = re.compile(r"@[0-9a-f]{1,16}\b")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACE: Final = re.compile(r"\s+")

__all__ = ["Diagnosis", "FailureKind", "diagnose", "signature"]
_UNKNOWN: Final = Diagnosis(
    kind=FailureKind.UNKNOWN, evidence="", remedy=FailureKind.UNKNOWN.remedy
)


def conditions_in(text: str) -> tuple[str, ...]:
    """Return the Spark error conditions named in a message, outermost first, each once."""
    return tuple(dict.fromkeys(_CONDITION.findall(text[:MAX_READ])))


def python_error_in(text: str) -> tuple[str, str] | None:
    """Return class and message of the last Python traceback in a text; ``None`` without one."""
    for line in last_traceback(text[:MAX_READ]).splitlines():
        # Frames are indented; the first line that is not names the exception.
        if line and not line[0].isspace():
            match = _PYTHON_ERROR.fullmatch(line.strip())
            return (match[1].rpartition(".")[2], match[2] or "") if match else None
    return None


def last_traceback(text: str) -> str:
    """Return the frames of the last Python traceback in a text and what follows; empty without."""
    _, found, trace = text.rpartition(_TRACEBACK)
    return trace if found else ""


def with_core(message: str, core: str) -> str:
    """Return a message with the innermost error behind it, unless it quotes that already."""
    return message if not core or core in message else f"{message} ({core})"


def first_line(text: str) -> str:
    """Return the first line that says something, without the wrapper of Spark or py4j."""
    said = _WRAPPER.sub("", text.strip()[:MAX_READ])
    return next((line.strip() for line in said.splitlines() if line.strip()), "")


def speech_of(text: str) -> str:
    """
    Return an error text without its stack frames, quoted source and plans.

    They hold class names and the user's texts, which are unrelated to the failure.
    """
    kept: list[str] = []
    in_plan = False
    for line in text[:MAX_READ].splitlines():
        if line.startswith(_PLAN):
            in_plan = True
        elif line.startswith(_AFTER_PLAN):
            in_plan = False
        if not in_plan and line and not line[0].isspace():
            kept.append(line)
    return "\n".join(kept)


def core_of(text: str) -> str:
    """Return the one line that tells a failure from others: its innermost cause."""
    read = text[:MAX_READ]
    cause = _last_cause(read)
    python = python_error_in(read)
    if python is not None and (cause is None or cause.start() < read.rfind(_TRACEBACK)):
        return ": ".join(part for part in python if part)
    return cause[1] if cause is not None else first_line(read)


def _last_cause(text: str) -> re.Match[str] | None:
    last = None
    for match in _CAUSE.finditer(text):
        last = match
    return last


class _Hidden:
    """
    The secrets that this process knows, so that no text of it shows them.

    It is of the whole process, as a log's filter is: a text does not know whose secrets it quotes.
    """

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.forms: tuple[bytes, ...] = ()

    def add(self, values: Iterable[str]) -> None:
        self._values |= frozenset(values)
        forms = {form for value in self._values for form in _forms(value)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        self.forms = tuple(form.encode(errors="replace") for form in longest_first)

    def mask(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)


_HIDDEN: Final = _Hidden()


def hide(values: Iterable[str]) -> None:
    """Replace these secrets by a mark wherever a text is masked from now on."""
    _HIDDEN.add(values)


def hidden_forms() -> tuple[bytes, ...]:
    """Return every secret that was passed to ``hide``, in all its spellings, the longest first."""
    return _HIDDEN.forms


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as it is and as JSON, Python and URLs write it."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)


def mask_hidden(text: str) -> str:
    """Return the text with every secret that was passed to ``hide`` replaced by a mark."""
    return _HIDDEN.mask(text)


def mask_secrets(text: str) -> str:
    """Return the text with known secrets and values after secret-looking names marked."""
    return mask_text(mask_hidden(text))


def presentable(text: str) -> str:
    """Return the text as a record may keep it: masked, and at most 2,000 characters."""
    # Known secrets first: a cut would leave half of one, which is no longer recognized.
    masked = mask_secrets(mask_hidden(text[:MAX_READ])[: 2 * MAX_TEXT])
    return masked if len(masked) <= MAX_TEXT else masked[: MAX_TEXT - 1] + "…"


def signature(
    *,
    kind: FailureKind,
    query: str | None,
    exception_class: str | None,
    condition: str | None,
    text: str,
) -> str:
    """
    Return a short digest that is equal for the same failure of the same query.

    :param text: The message, as a whole or its one line.
    """
    parts = (kind.value, query or "", exception_class or "", condition or "", _likeness(text))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_LENGTH]


def _likeness(text: str) -> str:
    """Return the core of a message without what differs between attempts."""
    core = core_of(text)[:_MAX_COMPARED]
    for pattern in (_TASK, _URI, _PATH, _ADDRESS, _HEX, _JAVA_OBJECT, _NUMBER):
        core = pattern.sub("#", core)
    return _SPACE.sub(" ", core).strip()


def diagnose(
    *, text: str, exception_class: str | None = None, conditions: tuple[str, ...] = ()
) -> Diagnosis:
    """
    Return the kind of failure of a message; ``UNKNOWN`` without a known sign.

    :param text: Spark's whole message with the causes and tracebacks in it. The first 200,000
        characters are read.
    :param exception_class: The innermost exception's class, where the text may not name it.
    :param conditions: Spark's error conditions, where the text may not name them.
    """
    said = speech_of(text)
    named = [f"[{name}]" for name in conditions if name not in conditions_in(said)]
    # The class and conditions are no deeper than the text, so they come before it.
    searched = "\n".join([*named, said, f".{exception_class}:" if exception_class else ""])
    whole = text[:MAX_READ]
    for signs in WEIGHTS:
        found = _last([sign for sign in signs if sign.counts_in(whole)], searched)
        if found is not None:
            return _with_loss(found, whole)
    return _UNKNOWN


def _with_loss(found: Diagnosis, text: str) -> Diagnosis:
    """Return a diagnosis with the remedy for the records that a source has lost."""
    lost = lost_records(text) if found.kind is FailureKind.INCOMPATIBLE else None
    return found if lost is None else replace(found, remedy=lost.remedy)


def _last(signs: list[Sign], text: str) -> Diagnosis | None:
    """
    Return the diagnosis of the last sign in a text.

    A sign with the remedy of its kind gives way to the last one of that kind with a remedy of its own: the class
    of an exception follows its message and says less.
    """
    found = sorted(_places(signs, text), key=lambda place: place[0])
    if not found:
        return None
    kind = found[-1][1].kind
    _, sign, phrase = next(
        (one for one in reversed(found) if one[1].kind is kind and one[1].remedy), found[-1]
    )
    return Diagnosis(kind=kind, evidence=phrase.strip("[]: "), remedy=sign.remedy or kind.remedy)


def _places(signs: list[Sign], text: str) -> Iterator[tuple[int, Sign, str]]:
    """Return where each sign's last phrase ends: if one phrase ends with another, the longer one comes last."""
    for sign in signs:
        for phrase in sorted(sign.phrases, key=len):
            at = text.rfind(phrase)
            if at >= 0:
                yield at + len(phrase), sign, phrase


def bad_value(error: str) -> str | None:
    """Return the value that an error of a cast, or of Python's numbers, names; ``None`` without one."""
    text = error[:_MOST_READ]
    found = _BAD_VALUE.search(text) or _BAD_NUMBER.search(text)
    return None if found is None else found[1]


def bad_input(error: str) -> str:
    """
    Return the file, the value and the record that an error of Spark names, as sentences; empty for none.

    Sources: the error conditions FAILED_READ_FILE, CAST_INVALID_INPUT and MALFORMED_RECORD_IN_PARSING, as Spark
    3.5 and 4.1 to 4.3 write them, and Jackson's place in the record.
    """
    text = error[:_MOST_READ]
    found = []
    if file := _BAD_FILE.search(text):
        found.append(f"Spark names file {file[1]}.")
    if value := _BAD_VALUE.search(text):
        found.append(f"Spark names value {value[1]!r}, a {value[2]} that is no {value[3]}.")
    record = _BAD_RECORD.search(text)
    if record and set(record[1].split(",")) != {"null"}:
        found.append(f"Spark names record [{record[1]}].")
    if record and (place := _BAD_COLUMN.search(text)):
        found.append(f"The record cannot be read at line {place[1]}, column {place[2]}.")
    return " ".join(found)
