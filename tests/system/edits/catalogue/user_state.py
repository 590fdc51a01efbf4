"""State of the author's own: applyInPandasWithState and transformWithState."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import PROFILES, PROFILES_AVRO, PURSES
from tests.system.edits.catalogue.said import NO, UNKNOWN, YES, edit

_SPENT: Final = 'self._spent = handle.getValueState("spent", "amount long")'
_COUNT: Final = """\
        count = self._count.get()[0] + 1 if self._count.exists() else 1
        self._count.update((count,))
        yield pd.DataFrame("""
_COUNTED: Final = (
    _SPENT,
    f'{_SPENT}\n        self._count = handle.getValueState("count", "n long")',
)
_NO_KINDS: Final = """\
            for kind in frame["kind"]:
                at = (str(kind),)
                before = self._kinds.getValue(at)[0] if self._kinds.containsKey(at) else 0
                self._kinds.updateValue(at, (before + 1,))
"""
_WIDER: Final = (
    ('"amount long")', '"amount long, last long")'),
    ("self._spent.update((spent,))", "self._spent.update((spent, 1))"),
)

EDITS: Final = (
    edit(
        PURSES,
        "function_body",
        "function",
        UNKNOWN,
        "what it makes of its state is its own",
        (
            'yield pd.DataFrame({"user": [key[0]], "spent": [spent]})',
            'yield pd.DataFrame({"user": [key[0]], "spent": [-spent]})',
        ),
    ),
    edit(
        PURSES,
        "state_field_added",
        "user_state",
        NO,
        "the state has another schema",
        ('"spent long",\n        outputMode', '"spent long, seen long",\n        outputMode'),
        ("state.get if state.exists else (0,)", "state.get if state.exists else (0, 0)"),
        ("state.update((spent,))", "state.update((spent, 1))"),
    ),
    edit(
        PURSES,
        "state_field_type",
        "user_state",
        NO,
        "the state has another schema",
        ('"spent long",\n        outputMode', '"spent double",\n        outputMode'),
        ("state.update((spent,))", "state.update((float(spent),))"),
        ("spent = kept[0]", "spent = int(kept[0])"),
    ),
    edit(
        PURSES,
        "state_field_renamed",
        "user_state",
        YES,
        "the state is kept by place, and the function gets a tuple",
        ('"spent long",\n        outputMode', '"total long",\n        outputMode'),
    ),
    edit(
        PURSES,
        "timeout",
        "user_state",
        NO,
        "the timeout is part of the state",
        ("GroupStateTimeout.NoTimeout", "GroupStateTimeout.ProcessingTimeTimeout"),
    ),
    edit(
        PURSES,
        "output_column_added",
        "projection",
        UNKNOWN,
        "the state is what it was",
        ('"user string, spent long"', '"user string, spent long, twice long"'),
        ('"spent": [spent]})', '"spent": [spent], "twice": [2 * spent]})'),
    ),
    edit(
        PURSES,
        "other_key",
        "keys",
        NO,
        "a string is a string to Spark",
        (
            'events.groupBy("user")',
            'events.selectExpr("shop AS user", "kind", "amount").groupBy("user")',
        ),
    ),
    edit(
        PURSES,
        "key_added",
        "keys",
        NO,
        "the state has another key",
        ('events.groupBy("user")', 'events.groupBy("user", "shop")'),
    ),
    edit(
        PURSES,
        "filter_below",
        "filter",
        NO,
        "the state holds what is now left out",
        ("purses = events.groupBy", 'purses = events.where("amount > 20").groupBy'),
    ),
    edit(
        PURSES,
        "to_aggregation",
        "stateful",
        NO,
        "the state is of something else",
        ("purses.writeStream", 'events.groupBy("user").sum("amount").writeStream'),
    ),
    edit(
        PROFILES,
        "function_body",
        "function",
        UNKNOWN,
        "what it makes of its state is its own",
        ('"spent": [spent],', '"spent": [-spent],'),
    ),
    edit(
        PROFILES,
        "variable_added",
        "user_state",
        UNKNOWN,
        "it is empty for keys that were seen before",
        _COUNTED,
        ("        yield pd.DataFrame(", _COUNT),
    ),
    edit(
        PROFILES,
        "variable_removed",
        "user_state",
        UNKNOWN,
        "what it held stays behind, unread",
        ('\n        self._kinds = handle.getMapState("kinds", "kind string", "number long")', ""),
        (_NO_KINDS, ""),
        ("sum(number[0] for number in self._kinds.values())", "0"),
    ),
    edit(
        PROFILES,
        "variable_renamed",
        "user_state",
        NO,
        "under its new name it is empty",
        ('getValueState("spent"', 'getValueState("total"'),
    ),
    edit(
        PROFILES,
        "value_to_list",
        "user_state",
        NO,
        "a value is no list",
        (_SPENT, 'self._spent = handle.getListState("spent", "amount long")'),
        (
            "self._spent.get()[0] if self._spent.exists() else 0",
            "sum(one[0] for one in self._spent.get()) if self._spent.exists() else 0",
        ),
        ("self._spent.update((spent,))", "self._spent.put([(spent,)])"),
    ),
    edit(
        PROFILES,
        "value_column_added",
        "user_state",
        NO,
        "the rows of the state have another form",
        *_WIDER,
    ),
    edit(
        PROFILES,
        "value_type",
        "user_state",
        NO,
        "the rows of the state have another form",
        ('"amount long")', '"amount double")'),
        ("spent = self._spent.get()[0]", "spent = int(self._spent.get()[0])"),
        ("self._spent.update((spent,))", "self._spent.update((float(spent),))"),
    ),
    edit(
        PROFILES,
        "time_to_live",
        "user_state",
        NO,
        "the time mode is part of the state",
        ('"amount long")', '"amount long", ttlDurationMs=3600000)'),
        ('timeMode="None"', 'timeMode="ProcessingTime"'),
    ),
    edit(
        PROFILES,
        "time_mode",
        "user_state",
        NO,
        "the time mode is part of the state",
        ('timeMode="None"', 'timeMode="ProcessingTime"'),
    ),
    edit(
        PROFILES,
        "output_column_added",
        "projection",
        UNKNOWN,
        "the state is what it was",
        (
            '"user string, spent long, bought long"',
            '"user string, spent long, bought long, twice long"',
        ),
        ('"bought": [bought]}', '"bought": [bought], "twice": [2 * spent]}'),
    ),
    edit(
        PROFILES,
        "other_key",
        "keys",
        NO,
        "a string is a string to Spark",
        (
            'events.groupBy("user")',
            'events.selectExpr("shop AS user", "kind", "amount").groupBy("user")',
        ),
    ),
    edit(
        PROFILES_AVRO,
        "value_column_added",
        "user_state",
        UNKNOWN,
        "Avro state may gain a column",
        *_WIDER,
    ),
    edit(
        PROFILES_AVRO,
        "variable_added",
        "user_state",
        UNKNOWN,
        "it is empty for keys that were seen before",
        _COUNTED,
        ("        yield pd.DataFrame(", _COUNT),
    ),
)
