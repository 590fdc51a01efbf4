"""
One thing of a script changed at random, as tools of mutation testing do it.

The mutations know Python's grammar and nothing else: no function of Spark's, no column and no rule
of the gate. Only what reads the script's arguments is left alone.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

Mutation: TypeAlias = Callable[[ast.Module, random.Random], bool]
"""Changes one thing of a tree in place; ``False`` where there is nothing of that kind."""

_OPERATORS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.GtE: (ast.Gt,),
    ast.LtE: (ast.Lt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.In: (ast.NotIn,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}


def _reads_arguments(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt) and "parse" in ast.unparse(node).partition("\n")[0]


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Return everything that may be changed: no imports, docstrings, headings and arguments."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.arguments):
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.If) and "__main__" in ast.unparse(child.test):
            continue
        if not isinstance(child, ast.FunctionDef | ast.ClassDef) and _reads_arguments(child):
            continue
        yield from _nodes(child)


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in _nodes(tree) if isinstance(node, ast.Call)]


def _methods(tree: ast.AST) -> list[ast.Call]:
    return [
        call
        for call in _calls(tree)
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    ]


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    return [
        node.body
        for node in _nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.For | ast.If) and len(node.body) > 1
    ]


def _become(old: ast.Call, new: ast.Call) -> None:
    old.func, old.args, old.keywords = new.func, new.args, new.keywords


def _texts(tree: ast.AST) -> list[ast.Constant]:
    return [n for n in _nodes(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def another_constant(tree: ast.Module, chance: random.Random) -> bool:
    """Change a number or a truth value."""
    found = [
        node
        for node in _nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    ]
    if not found:
        return False
    one = chance.choice(found)
    assert isinstance(one.value, int | float)
    one.value = (
        (not one.value)
        if isinstance(one.value, bool)
        else chance.choice((one.value + 1, one.value - 1, one.value * 2, 0))
    )
    return True


def another_text(tree: ast.Module, chance: random.Random) -> bool:
    """Put another text of the script in a text's place."""
    found = _texts(tree)
    one = chance.choice(found)
    one.value = chance.choice([other.value for other in found if other.value != one.value])
    return True


def words_of_text(tree: ast.Module, chance: random.Random) -> bool:
    """Leave a word out of a text of several, say it twice, or swap two that follow."""
    found = [one for one in _texts(tree) if len(str(one.value).split(" ")) > 2]
    if not found:
        return False
    one = chance.choice(found)
    words = str(one.value).split(" ")
    place = chance.randrange(len(words) - 1)
    words[place : place + 2] = chance.choice(
        ([words[place]], [words[place + 1], words[place]], [words[place + 1]])
    )
    one.value = " ".join(words)
    return True


def another_operator(tree: ast.Module, chance: random.Random) -> bool:
    """Add where it subtracted, compare the other way round."""
    found = [
        node
        for node in _nodes(tree)
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare)
        and type(_operator(node)) in _OPERATORS
    ]
    if not found:
        return False
    one = chance.choice(found)
    other = chance.choice(_OPERATORS[type(_operator(one))])()
    if isinstance(one, ast.Compare):
        assert isinstance(other, ast.cmpop)
        one.ops[0] = other
    else:
        # Parsed trees share one object for all uses of an operator.
        setattr(one, "op", other)  # noqa: B010 - of either kind
    return True


def _operator(node: ast.BinOp | ast.BoolOp | ast.Compare) -> ast.AST:
    return node.ops[0] if isinstance(node, ast.Compare) else node.op


def other_branch(tree: ast.Module, chance: random.Random) -> bool:
    """Turn a condition round."""
    found = [node for node in _nodes(tree) if isinstance(node, ast.If | ast.IfExp)]
    if not found:
        return False
    one = chance.choice(found)
    one.test = ast.UnaryOp(op=ast.Not(), operand=one.test)
    return True


def argument_less(tree: ast.Module, chance: random.Random) -> bool:
    """Leave an argument out."""
    found = [call for call in _calls(tree) if call.args or call.keywords]
    if not found:
        return False
    call = chance.choice(found)
    if call.keywords and chance.random() < len(call.keywords) / (
        len(call.args) + len(call.keywords)
    ):
        call.keywords.pop(chance.randrange(len(call.keywords)))
    else:
        call.args.pop(chance.randrange(len(call.args)))
    return True


def arguments_swapped(tree: ast.Module, chance: random.Random) -> bool:
    """Swap two arguments."""
    found = [call for call in _calls(tree) if len(call.args) > 1]
    if not found:
        return False
    args = chance.choice(found).args
    first, second = chance.sample(range(len(args)), 2)
    args[first], args[second] = args[second], args[first]
    return True


def argument_of_another(tree: ast.Module, chance: random.Random) -> bool:
    """Give a call one more argument, which another call has."""
    found = [call for call in _calls(tree) if call.args]
    taker, giver = chance.choice(found), chance.choice(found)
    given = ast.parse(ast.unparse(chance.choice(giver.args)), mode="eval").body
    taker.args.insert(chance.randint(0, len(taker.args)), given)
    return True


def call_less(tree: ast.Module, chance: random.Random) -> bool:
    """Leave a call out of a chain."""
    found = _methods(tree)
    if not found:
        return False
    call = chance.choice(found)
    assert isinstance(call.func, ast.Attribute)
    assert isinstance(call.func.value, ast.Call)
    _become(call, call.func.value)
    return True


def calls_swapped(tree: ast.Module, chance: random.Random) -> bool:
    """Swap two calls that follow each other in a chain."""
    found = _methods(tree)
    if not found:
        return False
    outer = chance.choice(found)
    assert isinstance(outer.func, ast.Attribute)
    inner = outer.func.value
    assert isinstance(inner, ast.Call)
    if not isinstance(inner.func, ast.Attribute):
        return False
    outer.func.attr, inner.func.attr = inner.func.attr, outer.func.attr
    outer.args, inner.args = inner.args, outer.args
    outer.keywords, inner.keywords = inner.keywords, outer.keywords
    return True


def call_twice(tree: ast.Module, chance: random.Random) -> bool:
    """Make a call of a chain twice."""
    found = _methods(tree)
    if not found:
        return False
    call = chance.choice(found)
    assert isinstance(call.func, ast.Attribute)
    inner = ast.Call(func=call.func, args=call.args, keywords=call.keywords)
    call.func = ast.Attribute(value=inner, attr=call.func.attr, ctx=ast.Load())
    return True


def another_method(tree: ast.Module, chance: random.Random) -> bool:
    """Call what the script calls elsewhere on the same module or frame."""
    found = [node for node in _calls(tree) if isinstance(node.func, ast.Attribute)]
    kinds = {ast.unparse(call.func.value) for call in found if isinstance(call.func, ast.Attribute)}
    owner = chance.choice(sorted(kinds))
    same = [
        call.func
        for call in found
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == owner
    ]
    one = chance.choice(same)
    others = sorted({node.attr for node in same} - {one.attr})
    if not others:
        return False
    one.attr = chance.choice(others)
    return True


def statement_less(tree: ast.Module, chance: random.Random) -> bool:
    """Leave a statement out."""
    body = chance.choice(_bodies(tree))
    one = chance.choice(body)
    if _reads_arguments(one):
        return False
    body.remove(one)
    return True


def statements_swapped(tree: ast.Module, chance: random.Random) -> bool:
    """Swap two statements that follow each other."""
    body = chance.choice(_bodies(tree))
    place = chance.randrange(len(body) - 1)
    if _reads_arguments(body[place]) or _reads_arguments(body[place + 1]):
        return False
    body[place], body[place + 1] = body[place + 1], body[place]
    return True


MUTATIONS: Final[tuple[Mutation, ...]] = (
    another_constant,
    another_constant,
    another_text,
    another_text,
    words_of_text,
    another_operator,
    another_operator,
    other_branch,
    argument_less,
    arguments_swapped,
    argument_of_another,
    call_less,
    calls_swapped,
    call_twice,
    another_method,
    statement_less,
    statements_swapped,
)
