"""What the text of a plan does not show: functions, options in expressions, tables, variables."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import FRAMES, HIDDEN
from tests.system.edits.catalogue.said import NO, UNKNOWN, YES, YES_BUT, edit

_BODY: Final = "return (amount or 0) * factor + FEE"
_JSON: Final = '"n int, m int")'
_CSV: Final = '"a string, b string")'
_LABEL: Final = 'F.to_json(F.struct("user"))'
_APP: Final = 'appName("hidden")'


def _conf(key: str, value: str) -> tuple[str, str]:
    return _APP, f'{_APP}.config("{key}", "{value}")'


EDITS: Final = (
    edit(
        HIDDEN,
        "function_body",
        "function",
        NO,
        "what was summed up was weighed in another way",
        (_BODY, "return (amount or 1) * factor - FEE"),
    ),
    edit(
        HIDDEN,
        "function_commented",
        "function",
        YES,
        "a comment is no change",
        (_BODY, f"# In cents.\n        {_BODY}"),
    ),
    edit(
        HIDDEN,
        "constant_of_module",
        "function",
        NO,
        "the function reaches it",
        ("FEE = 3", "FEE = 4"),
    ),
    edit(
        HIDDEN,
        "constant_in_closure",
        "function",
        NO,
        "the function has closed over it",
        ("weight(5)", "weight(6)"),
    ),
    edit(
        HIDDEN,
        "function_with_arrow",
        "function",
        YES,
        "this Spark hands values over so without being asked",
        ('F.udf(weighed, "bigint")', 'F.udf(weighed, "bigint", useArrow=True)'),
    ),
    edit(
        HIDDEN,
        "function_behind_state",
        "function",
        YES_BUT,
        "what was written is not revised",
        ('town.upper() if town else "NONE"', 'town.lower() if town else "none"'),
    ),
    edit(
        HIDDEN,
        "json_mode",
        "expression",
        NO,
        "a broken text ends the query instead of being nothing",
        (_JSON, '"n int, m int", {"mode": "FAILFAST"})'),
    ),
    edit(
        HIDDEN,
        "json_quotes",
        "expression",
        NO,
        "the same texts are nothing now",
        (_JSON, '"n int, m int", {"allowSingleQuotes": "false"})'),
    ),
    edit(
        HIDDEN,
        "json_field_type",
        "expression",
        NO,
        "the same texts are read as something else",
        (_JSON, '"n byte, m int")'),
    ),
    edit(
        HIDDEN,
        "json_field_renamed",
        "expression",
        NO,
        "the field that is summed up is another one",
        (_JSON, '"m int, n1 int")'),
        ('"parsed.n"', '"parsed.n1"'),
    ),
    edit(
        HIDDEN,
        "csv_separator",
        "expression",
        NO,
        "the pieces are others",
        (_CSV, '"a string, b string", {"sep": "k"})'),
    ),
    edit(
        HIDDEN,
        "csv_fields_swapped",
        "expression",
        NO,
        "the pieces are known by their place",
        (_CSV, '"b string, a string")'),
    ),
    edit(
        HIDDEN,
        "json_of_nulls",
        "expression",
        NO,
        "the keys of the state are spelled in the old way",
        (_LABEL, 'F.to_json(F.struct("user"), {"ignoreNullFields": "false"})'),
    ),
    edit(
        HIDDEN,
        "json_of_nulls_by_setting",
        "conf",
        NO,
        "the keys of the state are spelled in the old way",
        _conf("spark.sql.jsonGenerator.ignoreNullFields", "false"),
    ),
    edit(
        HIDDEN,
        "sum_that_overflows_to_null",
        "aggregates",
        NO,
        "an overflow is null instead of an error, and the state looks the same",
        ('"sum(weighed)"', '"try_sum(weighed)"'),
    ),
    edit(
        HIDDEN,
        "addition_that_overflows_to_null",
        "expression",
        NO,
        "an overflow is null instead of an error",
        (
            "amount * rate + (SELECT min(size) FROM shops)",
            "try_add(amount * rate, (SELECT min(size) FROM shops))",
        ),
    ),
    edit(
        HIDDEN,
        "without_ansi",
        "conf",
        NO,
        "an overflow is another number instead of an error",
        _conf("spark.sql.ansi.enabled", "false"),
    ),
    edit(
        HIDDEN,
        "another_table_joined",
        "table",
        NO,
        "totals for ever hold what the other table said",
        ('spark.table("shops")', 'spark.table("towns")'),
    ),
    edit(
        HIDDEN,
        "another_table_in_scalar_query",
        "table",
        NO,
        "totals for ever hold what the other table said",
        ("(SELECT min(size) FROM shops)", "(SELECT min(size) FROM towns)"),
    ),
    edit(
        HIDDEN,
        "another_table_in_condition",
        "table",
        NO,
        "totals for ever hold what is now left out",
        ("shop IN (SELECT shop FROM shops)", "shop IN (SELECT shop FROM towns)"),
    ),
    edit(
        HIDDEN,
        "view_of_other_files",
        "table",
        NO,
        "the name is the same, the files are not",
        ('json(f"{folder}/{name}").create', 'json(f"{folder}/towns").create'),
    ),
    edit(
        HIDDEN,
        "variable_of_session",
        "table",
        NO,
        "totals for ever hold what it was before",
        ("DEFAULT 2", "DEFAULT 3"),
    ),
    edit(
        FRAMES,
        "filter_of_frames",
        "function",
        NO,
        "totals for ever hold what is now left out",
        ('frame["amount"] > 20', 'frame["amount"] > 40'),
    ),
    edit(
        FRAMES,
        "function_of_series",
        "function",
        NO,
        "what was summed up was the double",
        ("return amounts * 2", "return amounts * 3"),
    ),
    edit(
        FRAMES,
        "function_commented",
        "function",
        YES,
        "a comment is no change",
        ("    return amounts * 2", "    # Twice.\n    return amounts * 2"),
    ),
    edit(
        FRAMES,
        "filter_of_frames_renamed",
        "function",
        YES,
        "the name of a function is no value",
        ("def dear(frames)", "def expensive(frames)"),
        ("mapInPandas(dear,", "mapInPandas(expensive,"),
    ),
    edit(
        FRAMES,
        "frames_in_another_way",
        "function",
        UNKNOWN,
        "another code that gives the same rows, as a run shows",
        (
            '        yield frame[frame["amount"] > 20]',
            '        yield frame.loc[frame["amount"].gt(20)]',
        ),
    ),
)
