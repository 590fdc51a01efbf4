"""
What an error text says: its Spark conditions, the Python error in it, its first line.

Spark wraps errors: a state store error inside a Python ``foreachBatch`` arrives as a failed stream
around a failed function around the real cause, all in one message. The reader of a record wants the
innermost one, short, and without a secret that a message may quote.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_streaming.core.conf import REDACTED, SECRET_KEY

MAX_TEXT: Final = 2_000
"""Characters of an error text that a record keeps."""

MAX_READ: Final = 200_000
"""Characters of a message that are looked at; Spark's own plan dumps reach megabytes."""

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9]*(?:[_.][A-Z0-9]+)+)\]")
_VALUE: Final = r"""(?:'[^']{0,500}'|"[^"]{0,500}"|\S+)"""
_SECRET: Final = re.compile(
    rf"((?:{SECRET_KEY.pattern})[^\s=:]{{0,80}}\s{{0,4}}[=:]\s{{0,4}}){_VALUE}", re.IGNORECASE
)
_AUTHORIZATION: Final = re.compile(
    r"(authorization['\"]?\s{0,4}[=:]\s{0,4}['\"]?)(?:(?:basic|bearer|digest|negotiate)\s{1,4})?\S+",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"(://[^/\s:@]{1,200}:)[^\s/]{1,200}@")
_WRAPPER: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_TRACEBACK: Final = "Traceback (most recent call last):"
_PLAN: Final = "=== Streaming Query ==="
_AFTER_PLAN: Final = ("Caused by: ", _TRACEBACK, "JVM stacktrace:")
_CAUSE: Final = re.compile(r"^(?:Caused by)?: (.*)", re.MULTILINE)
"""Java's causes, and the Java error that py4j quotes after a colon of its own."""
_PYTHON_ERROR: Final = re.compile(r"([A-Za-z_][\w.]*)(?::\s?(.*))?")


def conditions_in(text: str) -> tuple[str, ...]:
    """Return the Spark error conditions named in a message, outermost first, each once."""
    return tuple(dict.fromkeys(_CONDITION.findall(text[:MAX_READ])))


def python_error_in(text: str) -> tuple[str, str] | None:
    """Return class and message of the last Python traceback in a text; ``None`` without one."""
    _, found, trace = text[:MAX_READ].rpartition(_TRACEBACK)
    if not found:
        return None
    for line in trace.splitlines():
        # Frames are indented; the first line that is not names the exception.
        if line and not line[0].isspace():
            match = _PYTHON_ERROR.fullmatch(line.strip())
            return (match[1].rpartition(".")[2], match[2] or "") if match else None
    return None


def first_line(text: str) -> str:
    """Return the first line that says something, without Spark's wrapper around it."""
    said = _WRAPPER.sub("", text.strip()[:MAX_READ])
    return next((line.strip() for line in said.splitlines() if line.strip()), "")


def speech_of(text: str) -> str:
    """
    Return what an error text says, without the stack frames, quoted source and plans in it.

    They hold names of classes and texts of the user that have nothing to do with the failure.
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


def mask_secrets(text: str) -> str:
    """Return the text with values after secret-looking names replaced by a mark."""
    masked = _AUTHORIZATION.sub(rf"\1{REDACTED}", _SECRET.sub(rf"\1{REDACTED}", text))
    return _USER_INFO.sub(rf"\1{REDACTED}@", masked)


def presentable(text: str) -> str:
    """Return the text as a record may keep it: masked, and at most 2,000 characters."""
    masked = mask_secrets(text[: 2 * MAX_TEXT])
    return masked if len(masked) <= MAX_TEXT else masked[: MAX_TEXT - 1] + "…"
