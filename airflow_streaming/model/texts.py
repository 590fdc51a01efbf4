"""Texts that others wrote, made fit for logs, terminals and pages."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text whose escapes, bidirectional marks and control characters do nothing; lines stay."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def one_line(text: str) -> str:
    """Return the same as one line, so that a log has no line that its program did not write."""
    return " ".join(printable(text.replace("\r", "\n")).split())
