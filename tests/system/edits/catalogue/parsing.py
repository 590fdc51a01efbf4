"""Which fields are parsed out of a text in front of state."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import PARSED, PARSED_ONCE
from tests.system.edits.catalogue.said import NO, YES_BUT, edit

_LAST: Final = "ts timestamp"
_TEXT: Final = (_LAST, f"{_LAST}, coupon string")
_KEPT: Final = '.where("_corrupt is null")'

EDITS: Final = (
    edit(PARSED, "text_field", "expression", YES_BUT, "every value is a text", _TEXT),
    edit(
        PARSED,
        "text_field_first",
        "expression",
        YES_BUT,
        "fields are known by their name",
        ('"id string', '"coupon string, id string'),
    ),
    edit(
        PARSED,
        "two_text_fields",
        "expression",
        YES_BUT,
        "every value is a text",
        (_LAST, f"{_LAST}, coupon string, kind string"),
    ),
    edit(
        PARSED,
        "text_field_and_comment",
        "expression",
        YES_BUT,
        "a comment is no change",
        _TEXT,
        ('    """Leave out', '    # Those that do not fit.\n    """Leave out'),
    ),
    edit(
        PARSED,
        "number_field",
        "expression",
        NO,
        "a record whose value is no number is corrupt now",
        (_LAST, f"{_LAST}, coupon int"),
    ),
    edit(
        PARSED,
        "struct_field",
        "expression",
        NO,
        "a record whose value is no struct is corrupt now",
        (_LAST, f"{_LAST}, coupon struct<of: string>"),
    ),
    edit(
        PARSED,
        "text_field_for_a_number",
        "expression",
        YES_BUT,
        "a number is a text",
        (_LAST, f"{_LAST}, price string"),
    ),
    edit(
        PARSED,
        "text_field_that_is_filtered",
        "filter",
        NO,
        "totals for ever hold what is now left out",
        _TEXT,
        (_KEPT, f'{_KEPT}.where("coupon is null")'),
    ),
    edit(
        PARSED,
        "text_field_in_the_key",
        "keys",
        NO,
        "state has another key",
        _TEXT,
        ('groupBy("shop")', 'groupBy("shop", "coupon")'),
    ),
    edit(
        PARSED,
        "text_field_and_mode",
        "expression",
        NO,
        "a record that does not fit ends the query",
        _TEXT,
        ('"mode": "PERMISSIVE"', '"mode": "FAILFAST"'),
    ),
    edit(
        PARSED,
        "field_renamed",
        "expression",
        NO,
        "the field that is summed up is another one",
        ("amount long", "price long"),
        ('F.sum("amount")', 'F.sum("price")'),
    ),
    edit(
        PARSED_ONCE,
        "text_field",
        "expression",
        YES_BUT,
        "the column is new behind the state",
        _TEXT,
    ),
    edit(
        PARSED_ONCE,
        "number_field",
        "expression",
        NO,
        "a record whose value is no number is corrupt now",
        (_LAST, f"{_LAST}, coupon int"),
    ),
)
