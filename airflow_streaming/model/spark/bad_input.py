"""The input that Spark's error names: a file, a value or a record. Pure, over the text of the error."""

from __future__ import annotations

import re
from typing import Final

_FILE: Final = re.compile(r"[Ee]ncountered error while reading file (\S{1,500}?)\.?(?=\s|$)")
_VALUE: Final = re.compile(
    r"The value '(.{1,200}?)' of the type \"?([A-Z ]{1,30})\"? cannot be cast to \"?([A-Z ]{1,30})"
)
_RECORD: Final = re.compile(r"detected in record parsing: \[(.{1,300}?)\]\.?(?=\s|$)")
_COLUMN: Final = re.compile(r"at \[Source: [^\n]{0,200}?line: (\d{1,9}), column: (\d{1,9})\]")
_MOST_READ: Final = 64_000
"""Characters of an error that are searched; the chain of causes comes first."""


def bad_input(error: str) -> str:
    """
    Return the file, the value and the record that an error of Spark names, as sentences; empty for none.

    Sources: the error conditions FAILED_READ_FILE, CAST_INVALID_INPUT and MALFORMED_RECORD_IN_PARSING, as Spark
    3.5 and 4.1 to 4.3 write them, and Jackson's place in the record.
    """
    text = error[:_MOST_READ]
    found = []
    if file := _FILE.search(text):
        found.append(f"Spark names file {file[1]}.")
    if value := _VALUE.search(text):
        found.append(f"Spark names value {value[1]!r}, a {value[2]} that is no {value[3]}.")
    record = _RECORD.search(text)
    if record and set(record[1].split(",")) != {"null"}:
        found.append(f"Spark names record [{record[1]}].")
    if record and (place := _COLUMN.search(text)):
        found.append(f"The record cannot be read at line {place[1]}, column {place[2]}.")
    return " ".join(found)
