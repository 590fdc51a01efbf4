"""
The old and the new plan of one query, and how their texts and columns are compared.

A column whose name several sources have carries the number of its source, as in ``k@0``. A text
that cannot be split is compared as a whole, and counts as naming every column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.spark.plan import OPAQUE, Column, OperatorPlan, QueryPlan, type_name

QUOTED: Final = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'")
"""A quoted name or a literal."""
_NAME: Final = r"`(?:[^`]|``)+`(?:@\d+)?|[^()\[\],`]+"
_ALIAS: Final = re.compile(rf"(?P<text>.*) AS (?P<name>{_NAME})", re.DOTALL)
_TAG: Final = re.compile(r"@(\d+)")
_TAGGED: Final = re.compile(r"(?P<base>.+)@(?P<number>\d+)", re.DOTALL)
_CUT: Final = re.compile(r"\.\.\. \(\d+ characters, digest")
"""How a text continues that was too long to be kept whole."""


def items_of(text: str) -> dict[str, str] | None:
    """
    Return each column's expression in a projection, in order; ``None`` if unknown.

    ``k, (v + 1) AS w`` gives ``{"k": "k", "w": "(v + 1)"}``.
    """
    if _CUT.search(text):
        return None
    found: dict[str, str] = {}
    for item in split(text):
        match = _ALIAS.fullmatch(item)
        name, expression = (match["name"], match["text"]) if match else (item, item)
        if name in found:
            return None
        found[name] = expression
    return found or None


def names_in(texts: Iterable[str], names: Iterable[str]) -> set[str] | None:
    """Return the columns that texts name; ``None`` if a text is incomplete."""
    whole = " ".join(map(without_literals, texts))
    if _CUT.search(whole):
        return None
    return {name for name in names if pattern_of(name).search(whole)}


def pattern_of(name: str) -> re.Pattern[str]:
    """
    Return the pattern that finds a column in a text; without a number, of any source.

    Texts quote unusual names, lists of columns do not: both are found.
    """
    tagged = _TAGGED.fullmatch(name)
    plain = unquoted(tagged["base"] if tagged else name)
    forms = "|".join(map(re.escape, dict.fromkeys((plain, plain.replace("`", "``")))))
    number = tagged["number"] if tagged else r"\d+"
    return re.compile(rf"(?<![\w@])(?:{forms})(?:`?@{number})?(?!\w|`?@)")


def unquoted(name: str) -> str:
    """Return a column's name as lists of columns have it."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def tags_in(texts: Iterable[str]) -> list[int]:
    """Return the numbers of sources that texts name, rising."""
    return sorted({int(tag) for text in texts for tag in _TAG.findall(without_literals(text))})


def without_literals(text: str) -> str:
    """Blank out text in single quotes; names in backquotes stay."""
    return QUOTED.sub(lambda found: found[0] if found[0].startswith("`") else " ", text)


def split(text: str) -> list[str]:
    """Split a text at its commas, except inside brackets and quotes."""
    found, depth, start = [], 0, 0
    # Commas and brackets inside quotes do not count.
    bare = QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    for place, letter in enumerate(bare):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [item for item in (*found, text[start:].strip()) if item]


def conjuncts(text: str) -> list[str]:
    """Return the conditions of a filter that must all hold."""
    inner = text
    if text.startswith("(") and text.endswith(")"):
        inner = text[1:-1]
    # Brackets and words inside quotes do not count.
    bare = QUOTED.sub(lambda quoted: "_" * len(quoted[0]), inner)
    depth, ends = 0, []
    for place, letter in enumerate(bare):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            return [text]
        if depth == 0 and bare.startswith(" AND ", place):
            ends.append(place)
        elif depth == 0 and bare.startswith(" OR ", place):
            return [text]
    if not ends:
        return [text]
    starts = [0, *(end + len(" AND ") for end in ends)]
    parts = [inner[begin:end] for begin, end in zip(starts, [*ends, None], strict=True)]
    return [one for part in parts for one in conjuncts(part.strip())]


_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """
    How two lists of columns differ.

    :param retyped: Columns of another type, old and new.
    :param is_reordered: Whether columns that both have come in another order.
    """

    added: tuple[Column, ...] = ()
    removed: tuple[Column, ...] = ()
    retyped: tuple[tuple[Column, Column], ...] = ()
    is_reordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.retyped or self.is_reordered)


def column_change(old: Sequence[Column], new: Sequence[Column]) -> ColumnChange:
    """Compare columns by name."""
    was = {column.name: column for column in old}
    now = {column.name: column for column in new}
    kept = [column for column in old if column.name in now]
    return ColumnChange(
        added=tuple(column for column in new if column.name not in was),
        removed=tuple(column for column in old if column.name not in now),
        retyped=tuple(
            (column, now[column.name])
            for column in kept
            if plain_type(column.type) != plain_type(now[column.name].type)
        ),
        is_reordered=[c.name for c in kept] != [c.name for c in new if c.name in was],
    )


def same_columns(old: Sequence[Column], new: Sequence[Column]) -> bool:
    """Tell whether names, types and order are equal."""
    return signature(old) == signature(new)


def signature(columns: Iterable[Column]) -> tuple[tuple[str, str], ...]:
    """Return what two lists of columns are compared by."""
    return tuple((column.name, plain_type(column.type)) for column in columns)


def types_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the types alone."""
    return tuple(plain_type(column.type) for column in columns)


def plain_type(text: str) -> str:
    """Return a type's name without spaces, in Spark's short form."""
    return type_name("".join(text.split()))


def is_wider(old: str, new: str) -> bool:
    """Tell whether every value of the old type is one of the new."""
    return plain_type(new) in _WIDER.get(plain_type(old), ())


def shown(columns: Iterable[Column]) -> str:
    """Return columns for readers."""
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"


SameFiles = frozenset[tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    An old and a new plan to compare.

    :param checkpoint: ``None`` if it was not read.
    :param schemas: Columns of its state.
    :param same_code: The script is known to be the same, byte for byte.
    :param same_files: Old and new paths of file sources that list the same files, in one spelling.
    """

    old: QueryPlan
    new: QueryPlan
    checkpoint: Checkpoint | None = None
    schemas: tuple[StoreSchema, ...] = ()
    same_code: bool = False
    same_files: SameFiles = frozenset()

    @property
    def is_stateful(self) -> bool:
        """Tell whether either plan keeps state."""
        return self.old.is_stateful or self.new.is_stateful

    @property
    def other_spark(self) -> bool:
        """Tell whether two Sparks analyzed the plans; they may word the same code differently."""
        return minor(self.old.spark) != minor(self.new.spark)

    def same_body(self, old: str, new: str) -> bool:
        """
        Tell whether two fingerprints are known to be of one code.

        The modules beside a script may change while the script is the same. Two Sparks may have another
        Python, whose fingerprints differ.
        """
        is_unread = not old or not new or OPAQUE in old or OPAQUE in new
        if is_unread or self.other_spark:
            return self.same_code or (not is_unread and old == new)
        return old == new

    def pinned(self, key: str) -> str | None:
        """Return a configuration that the checkpoint pins; without one, the old plan's."""
        if self.checkpoint is not None and key in self.checkpoint.conf:
            return self.checkpoint.conf[key]
        return self.old.conf.get(key)

    @property
    def shown_by_plan(self) -> str:
        """Say which plans show a difference."""
        if self.other_spark:
            return (
                f"the recorded plan (Spark {self.old.spark}) and the new one (Spark "
                f"{self.new.spark}); compare plans of one Spark to rule out another wording"
            )
        return "the recorded plan and the new one"

    def shown_at(self, at: str) -> str:
        """Say at which place of which plans a difference is seen, e.g. ``operators[0].window_us``."""
        return f"{at} in {self.shown_by_plan}"

    @property
    def shown_by_offsets(self) -> str:
        """Say which file of the checkpoint shows its sources and configuration."""
        return offsets_file(self.checkpoint) or self.shown_at("sources")

    def shown_by_state(self, operator: int) -> str:
        """Say which files of the checkpoint show an operator's state."""
        files = sorted({each.path for each in self.schemas if each.operator == operator})
        return ", ".join(files) or self.shown_at(f"operators[{operator}]")


def ends_by_itself(plan: QueryPlan, operator: OperatorPlan) -> bool:
    """Tell whether the watermark ends every part of an operator's state, as Spark plans it."""
    return bool(plan.watermarks) and plan.output_mode != "complete" and operator.ends


def has_endless_state(plan: QueryPlan) -> bool:
    """Tell whether some state of a query keeps for ever what went into it."""
    return not all(ends_by_itself(plan, operator) for operator in plan.operators)


def offsets_file(checkpoint: Checkpoint | None) -> str:
    """Return the file with the newest plan of a checkpoint; empty without one."""
    if checkpoint is None or checkpoint.last_planned_batch is None:
        return ""
    return f"offsets/{checkpoint.last_planned_batch}"


def minor(version: str) -> tuple[str, ...]:
    """Return major and minor number of a Spark version."""
    return tuple(version.split(".")[:2])


def is_at_least(version: str, floor: tuple[int, int]) -> bool:
    """Return whether a Spark version is at least this one; false for invalid versions."""
    parts = minor(version)
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        return False
    return (int(parts[0]), int(parts[1])) >= floor
