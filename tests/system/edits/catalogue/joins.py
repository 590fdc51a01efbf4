"""Joins of two streams: type, keys, bounds, columns, sides."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import PAIRS, PAIRS_OUTER
from tests.system.edits.catalogue.said import NO, YES, YES_BUT, edit

_LEFT: Final = '.select("id", "user", "amount", "ts")'
_TAIL: Final = '.select("id", "amount", "paid", "means")'

EDITS: Final = (
    edit(
        PAIRS,
        "inner_to_outer",
        "join",
        NO,
        "pairs already made would come as lonely",
        ('"inner"', '"left_outer"'),
    ),
    edit(
        PAIRS,
        "inner_to_semi",
        "join",
        NO,
        "another sort of join",
        ('"inner"', '"left_semi"'),
        (_TAIL, '.select("id", "amount")'),
    ),
    edit(
        PAIRS,
        "bound_longer",
        "join",
        NO,
        "what was thrown away could have matched",
        ("INTERVAL 5 SECONDS", "INTERVAL 9 SECONDS"),
    ),
    edit(
        PAIRS,
        "bound_shorter",
        "join",
        NO,
        "another condition",
        ("INTERVAL 5 SECONDS", "INTERVAL 2 SECONDS"),
    ),
    edit(
        PAIRS,
        "key_added",
        "join",
        NO,
        "the state has another key",
        ("id = sale AND", "id = sale AND user = payer AND"),
    ),
    edit(
        PAIRS,
        "other_key",
        "join",
        NO,
        "a string is a string to Spark",
        ("id = sale AND", "user = payer AND"),
    ),
    edit(
        PAIRS,
        "sides_swapped",
        "join",
        NO,
        "left and right have stores of their own",
        ("left.join(right", "right.join(left"),
    ),
    edit(
        PAIRS,
        "left_column_added",
        "join",
        NO,
        "the rows of the state have another column",
        (_LEFT, '.select("id", "user", "amount", "ts", "shop")'),
        (_TAIL, '.select("id", "amount", "paid", "means", "shop")'),
    ),
    edit(
        PAIRS,
        "left_column_unused_removed",
        "join",
        YES,
        "what nobody reads is not kept",
        (_LEFT, '.select("id", "amount", "ts")'),
    ),
    edit(
        PAIRS,
        "right_column_no_longer_read",
        "join",
        NO,
        "Spark leaves out what nobody reads",
        (_TAIL, '.select("id", "amount", "paid")'),
    ),
    edit(
        PAIRS,
        "unread_column_read",
        "join",
        NO,
        "the rows of the state do not have it",
        (_TAIL, '.select("id", "amount", "paid", "means", "user")'),
    ),
    edit(
        PAIRS,
        "projection_above",
        "projection",
        YES_BUT,
        "what was written is not revised",
        (_TAIL, '.selectExpr("id", "amount - paid AS amount", "paid", "means")'),
    ),
    edit(
        PAIRS,
        "filter_above",
        "filter",
        YES_BUT,
        "what was written is not revised",
        (_TAIL, f"{_TAIL}.where(\"means = 'card'\")"),
    ),
    edit(
        PAIRS,
        "filter_below",
        "filter",
        YES_BUT,
        "kept rows passed the old filter",
        (_LEFT, f'.where("amount > 20"){_LEFT}'),
    ),
    edit(
        PAIRS,
        "watermark_longer",
        "watermark",
        YES_BUT,
        "what was forgotten stays so",
        ('withWatermark("ts", "10 seconds")', 'withWatermark("ts", "40 seconds")'),
    ),
    edit(
        PAIRS_OUTER,
        "outer_to_inner",
        "join",
        NO,
        "another sort of join",
        ('"left_outer"', '"inner"'),
    ),
    edit(
        PAIRS_OUTER,
        "left_to_right_outer",
        "join",
        NO,
        "another sort of join",
        ('"left_outer"', '"right_outer"'),
    ),
    edit(
        PAIRS_OUTER,
        "bound_longer",
        "join",
        NO,
        "what was thrown away could have matched",
        ("INTERVAL 5 SECONDS", "INTERVAL 9 SECONDS"),
    ),
)
