"""How files are read in front of state that never ends: formats, modes, settings of the session."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import LEDGER, MINUTES
from tests.system.edits.catalogue.said import NO, YES_BUT, edit

_FORMAT: Final = '"timestampFormat", "yyyy-MM-dd HH:mm:ss"'
_HEADER: Final = '.option("header", "true")'
_READ: Final = "spark.readStream.schema(EVENT)"


def _option(key: str, value: str) -> tuple[str, str]:
    return _HEADER, f'{_HEADER}\n        .option("{key}", "{value}")'


def _conf(app: str, key: str, value: str) -> tuple[str, str]:
    return f'appName("{app}")', f'appName("{app}").config("{key}", "{value}")'


EDITS: Final = (
    edit(
        LEDGER,
        "time_format",
        "source",
        NO,
        "the same texts are other days, or none",
        (_FORMAT, '"timestampFormat", "yyyy-dd-MM HH:mm:ss"'),
    ),
    edit(
        LEDGER,
        "time_format_in_other_words",
        "source",
        NO,
        "the formats differ, whatever they mean",
        (_FORMAT, '"timestampFormat", "yyyy-M-d H:m:s"'),
    ),
    edit(
        LEDGER,
        "date_format",
        "source",
        NO,
        "the formats differ, whatever is read with them",
        _option("dateFormat", "dd.MM.yyyy"),
    ),
    edit(
        LEDGER,
        "separator",
        "source",
        NO,
        "the columns are others",
        _option("sep", ";"),
    ),
    edit(
        LEDGER,
        "null_value",
        "source",
        NO,
        "a country is none now",
        _option("nullValue", "France"),
    ),
    edit(
        LEDGER,
        "comment_sign",
        "source",
        NO,
        "lines of canceled invoices are left out",
        _option("comment", "C"),
    ),
    edit(
        LEDGER,
        "header",
        "source",
        NO,
        "the first line of every file is counted",
        ('"header", "true"', '"header", "false"'),
    ),
    edit(
        LEDGER,
        "broken_lines_dropped",
        "source",
        NO,
        "broken lines are not counted any more",
        _option("mode", "DROPMALFORMED"),
    ),
    edit(
        LEDGER,
        "column_of_broken_lines",
        "source",
        NO,
        "another column would hold what is broken",
        _option("columnNameOfCorruptRecord", "broken"),
    ),
    edit(
        LEDGER,
        "key_in_another_format",
        "keys",
        NO,
        "days would be months",
        ('"yyyy-MM-dd").alias', '"yyyy-MM").alias'),
    ),
    edit(
        LEDGER,
        "old_time_parser",
        "conf",
        NO,
        "times are read by other rules",
        _conf("ledger", "spark.sql.legacy.timeParserPolicy", "LEGACY"),
    ),
    edit(
        LEDGER,
        "time_zone",
        "conf",
        NO,
        "times are read in another zone",
        _conf("ledger", "spark.sql.session.timeZone", "Asia/Tokyo"),
    ),
    edit(
        LEDGER,
        "case_sensitive",
        "conf",
        NO,
        "a name may find another column",
        _conf("ledger", "spark.sql.caseSensitive", "true"),
    ),
    edit(
        LEDGER,
        "corrupt_files_ignored",
        "conf",
        NO,
        "rows of files that cannot be read are missing for ever",
        _conf("ledger", "spark.sql.files.ignoreCorruptFiles", "true"),
    ),
    edit(
        LEDGER,
        "adaptive",
        "conf",
        YES_BUT,
        "the function of the sink gets rows in another order",
        _conf("ledger", "spark.sql.adaptive.enabled", "false"),
    ),
    edit(
        MINUTES,
        "time_format",
        "source",
        NO,
        "the same texts are other days, or none",
        (_READ, f'{_READ}.option("timestampFormat", "yyyy-dd-MM\'T\'HH:mm:ssXXX")'),
    ),
    edit(
        MINUTES,
        "time_zone",
        "conf",
        NO,
        "minutes are shown in another zone",
        _conf("totals", "spark.sql.session.timeZone", "Asia/Tokyo"),
    ),
    edit(
        MINUTES,
        "numbers_as_texts",
        "source",
        NO,
        "the same texts are read as something else",
        (_READ, f'{_READ}.option("primitivesAsString", "true")'),
    ),
)
