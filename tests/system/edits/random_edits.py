"""
Edits that nobody listed: one thing of a script is changed at random, and the same seed makes the
same edit.

One series knows Python, Spark's functions and the columns of the input; the other (``mutations``)
knows Python's grammar only. Neither knows the gate's rules. ``python -m tests.system.edits --random
--runtime .runtimes/spark-4.3`` tries them.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.bases import BASES
from tests.system.edits.edit import Base, Edit
from tests.system.edits.mutations import MUTATIONS, Mutation

SHAPES: Final = (
    "totals",
    "windows",
    "windows_updated",
    "pairs",
    "pairs_outer",
    "clicks",
    "desk",
    "first_seen",
    "first_ever",
    "sessions",
    "chained",
)
EACH: Final = 10
MUTANTS: Final = 40
_SEED: Final = 4_711
_COLUMNS: Final = ("id", "user", "kind", "shop", "amount", "ts")
_FUNCTIONS: Final = ("sum", "max", "min", "count", "avg", "first", "last", "upper", "lower")
_WORDS: Final = ("append", "update", "complete", "inner", "left_outer", "right_outer", "full_outer")
_PREDICATES: Final = (
    "amount > 25",
    "user IS NOT NULL",
    "shop <> 'north'",
    "kind = 'buy'",
    "length(id) > 2",
    "amount % 2 = 0",
    "ts > timestamp'2026-01-01 00:00:30'",
)
_COMPUTED: Final = (
    ("amount", 'F.col("amount") + 1'),
    ("amount", 'F.expr("try_add(amount, 1)")'),
    ("user", 'F.upper("user")'),
    ("shop", 'F.coalesce("shop", F.lit("none"))'),
    ("ts", 'F.date_trunc("minute", "ts")'),
    ("extra", 'F.lit(b"x")'),
    ("extra", 'F.udf(lambda n: (n or 0) * 2, "bigint")("amount")'),
    ("amount", 'F.udf(lambda n: (n or 0) * 2, "bigint")("amount")'),
    ("extra", 'F.from_json("id", "a int", {"mode": "PERMISSIVE"})'),
)
_OPTIONS: Final = (
    ("maxFilesPerTrigger", "2"),
    ("dateFormat", "yyyy/MM/dd"),
    ("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss"),
    ("mode", "DROPMALFORMED"),
    ("multiLine", "true"),
    ("latestFirst", "true"),
    ("pathGlobFilter", "*.json"),
    ("allowComments", "true"),
)
_SETTINGS: Final = (
    ("spark.sql.caseSensitive", "true"),
    ("spark.sql.ansi.enabled", "false"),
    ("spark.sql.session.timeZone", "Asia/Tokyo"),
    ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
    ("spark.sql.files.ignoreCorruptFiles", "true"),
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.optimizer.excludedRules", ""),
    ("spark.sql.jsonGenerator.ignoreNullFields", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
)


def _calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (not names or node.func.attr in names)
    ]


def _constants(tree: ast.AST, kind: type) -> list[ast.Constant]:
    inside = [*_calls(tree)]
    return [
        node
        for call in inside
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and type(node.value) is kind
    ]


def another_column(tree: ast.Module, chance: random.Random) -> bool:
    """Name another column somewhere."""
    found = [one for one in _constants(tree, str) if one.value in _COLUMNS]
    if not found:
        return False
    one = chance.choice(found)
    one.value = chance.choice([name for name in _COLUMNS if name != one.value])
    return True


def another_number(tree: ast.Module, chance: random.Random) -> bool:
    """Change a number in a text, such as that of a duration or a condition."""
    found = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Constant)
        and isinstance(one.value, str)
        and any(c.isdigit() for c in one.value)
        and len(one.value) < 100
    ]
    if not found:
        return False
    one = chance.choice(found)
    digit = chance.choice([c for c in one.value if c.isdigit()])
    one.value = one.value.replace(digit, str((int(digit) + chance.randint(1, 8)) % 10), 1)
    return True


def another_function(tree: ast.Module, chance: random.Random) -> bool:
    """Call another function of Spark's."""
    found = [
        call
        for call in _calls(tree, *_FUNCTIONS)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "F"
    ]
    if not found:
        return False
    called = chance.choice(found).func
    assert isinstance(called, ast.Attribute)
    called.attr = chance.choice([name for name in _FUNCTIONS if name != called.attr])
    return True


def another_word(tree: ast.Module, chance: random.Random) -> bool:
    """Say another mode or join type."""
    found = [one for one in _constants(tree, str) if one.value in _WORDS]
    if not found:
        return False
    one = chance.choice(found)
    one.value = chance.choice([word for word in _WORDS if word != one.value])
    return True


def _frames(tree: ast.AST) -> list[ast.Call]:
    return _calls(
        tree, "where", "select", "groupBy", "agg", "join", "withWatermark", "dropDuplicates", "json"
    )


def _behind(tree: ast.AST, chance: random.Random, text: str) -> bool:
    # A frame is a call that the script writes; "json" only of a reader.
    places = [
        call
        for call in _frames(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr != "groupBy"
    ]
    if not places:
        return False
    call = chance.choice(places)
    inner = ast.Call(func=call.func, args=call.args, keywords=call.keywords)
    made = ast.parse(f"x{text}", mode="eval").body
    assert isinstance(made, ast.Call)
    assert isinstance(made.func, ast.Attribute)
    made.func.value = inner
    call.func, call.args, call.keywords = made.func, made.args, made.keywords
    return True


def one_more_filter(tree: ast.Module, chance: random.Random) -> bool:
    """Filter behind any call."""
    return _behind(tree, chance, f".where({chance.choice(_PREDICATES)!r})")


def one_more_column(tree: ast.Module, chance: random.Random) -> bool:
    """Compute a column behind any call."""
    name, text = chance.choice(_COMPUTED)
    return _behind(tree, chance, f".withColumn({name!r}, {text})")


def harmless_call(tree: ast.Module, chance: random.Random) -> bool:
    """Call what changes no row."""
    text = chance.choice(('.select("*")', ".repartition(3)", ".alias('t')", ".hint('broadcast')"))
    return _behind(tree, chance, text)


def one_option(tree: ast.Module, chance: random.Random) -> bool:
    """Set an option of a reader."""
    readers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "readStream"
    ]
    if not readers:
        return False
    one = chance.choice(readers)
    key, value = chance.choice(_OPTIONS)
    inner = ast.Attribute(value=one.value, attr="readStream", ctx=ast.Load())
    made = ast.Call(
        func=ast.Attribute(value=inner, attr="option", ctx=ast.Load()),
        args=[ast.Constant(key), ast.Constant(value)],
        keywords=[],
    )
    for node in ast.walk(tree):
        for field, old in ast.iter_fields(node):
            if old is one:
                setattr(node, field, made)
                return True
    return False


def one_setting(tree: ast.Module, chance: random.Random) -> bool:
    """Set a setting of the session."""
    key, value = chance.choice(_SETTINGS)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for place, one in enumerate(body if isinstance(body, list) else []):
            if isinstance(one, ast.Assign) and "getOrCreate" in ast.unparse(one):
                name = ast.unparse(one.targets[0])
                made = ast.parse(f"{name}.conf.set({key!r}, {value!r})").body
                body[place + 1 : place + 1] = made
                return True
    return False


def one_call_less(tree: ast.Module, chance: random.Random) -> bool:
    """Leave a call out of a chain."""
    found = [
        call
        for call in _calls(tree, "where", "withWatermark", "select", "dropDuplicates", "alias")
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    ]
    if not found:
        return False
    call = chance.choice(found)
    assert isinstance(call.func, ast.Attribute)
    inner = call.func.value
    assert isinstance(inner, ast.Call)
    call.func, call.args, call.keywords = inner.func, inner.args, inner.keywords
    return True


def another_comment(tree: ast.Module, chance: random.Random) -> bool:
    """Add a line that does nothing."""
    tree.body.insert(chance.randint(1, len(tree.body) - 1), ast.parse("_unused = 1").body[0])
    return True


CHANGES: Final[tuple[Mutation, ...]] = (
    another_column,
    another_number,
    another_function,
    another_word,
    one_more_filter,
    one_more_filter,
    one_more_column,
    one_more_column,
    harmless_call,
    one_option,
    one_setting,
    one_setting,
    one_call_less,
    another_comment,
)


def random_edits() -> list[Edit]:
    """Return both series, all bases in turn, so that a part of them has seen every base."""
    made: list[Edit] = []
    for base in BASES:
        if base.name in SHAPES:
            made += _drawn(base, CHANGES, f"{base.name}.random_{{:02}}", EACH)
        made += _drawn(base, MUTATIONS, f"{base.name}.mutant_{{:02}}", MUTANTS)
    return sorted(made, key=lambda edit: (edit.name.rpartition("_")[2], edit.name))


def _drawn(base: Base, changes: Sequence[Mutation], name: str, count: int) -> Iterator[Edit]:
    seen = {ast.unparse(ast.parse(base.source))}
    chance = random.Random(f"{_SEED} {base.name}")
    while len(seen) <= count:
        tree = ast.parse(base.source)
        change = chance.choice(changes)
        if not change(tree, chance):
            continue
        source = ast.unparse(ast.fix_missing_locations(tree))
        if source not in seen:
            was = ast.unparse(ast.parse(base.source))
            yield Edit(
                name=name.format(len(seen) - 1),
                base=base,
                theme=change.__name__,
                changes=((base.source, source),),
                says=GateDecision.UNKNOWN,
                why=_difference(was, source),
            )
            seen.add(source)


def _difference(old: str, new: str) -> str:
    """Return the smallest piece of both scripts that differs, with a little of what is around it."""
    first = _same(old, new)
    last = _same(old[first:][::-1], new[first:][::-1])
    begin, pieces = max(0, first - 24), (old[first : len(old) - last], new[first : len(new) - last])
    was, now = (f"[{' '.join(piece.split())}]" for piece in pieces)
    around = " ".join(old[begin:first].split()), " ".join(old[len(old) - last :][:16].split())
    return f"{around[0]} {was} -> {now} {around[1]}"


def _same(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    places = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in places if a != b), min(len(one), len(other)))
