"""
Reading an output as it is at one moment, while somebody may be writing it.

The files are listed once, when the output is opened, and every count is made of these. Where a file
sink keeps a log, Spark lists what the log has committed, so that a batch is there with all of its
files or with none. What other writers replace while it is read is gone, and is read again.
"""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_streaming.core.cutover.terms import CompareTerms
from airflow_streaming.core.uris import to_hadoop

_ABSENT: Final = re.compile(r"PATH_NOT_FOUND|Path does not exist|DELTA_(PATH|TABLE)_(DOES_)?NOT_")
_EMPTY: Final = re.compile(r"UNABLE_TO_INFER_SCHEMA|Unable to infer schema")
_REPLACED: Final = re.compile(
    r"FileNotFoundException|FILE_NOT_EXIST|FAILED_READ_FILE\.FILE_NOT|batch \d+ doesn't exist"
)


class Absent(Exception):
    """
    There is no output to read.

    :param exists: A place is there, and it has no row yet.
    """

    def __init__(self, *, exists: bool) -> None:
        super().__init__("There is no output.")
        self.exists = exists


def open_output(session: Any, uri: str, terms: CompareTerms) -> Any:
    """
    Return the rows of an output, as they are committed now.

    :raises Absent: nothing was written yet.
    """
    options = dict(terms.options)
    reader = session.read.format(terms.format)
    schema = options.pop("schema", None)
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return reader.options(**options).load(to_hadoop(uri))
    except Exception as err:
        told = str(err)
        if _ABSENT.search(told) or _EMPTY.search(told):
            raise Absent(exists=_EMPTY.search(told) is not None) from err
        raise


def was_replaced(err: Exception) -> bool:
    """Tell whether reading failed because files were taken away meanwhile."""
    return _REPLACED.search(str(err)) is not None
