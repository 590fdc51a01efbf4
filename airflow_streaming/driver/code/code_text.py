"""
The normal form of a function's source: equal for two functions only if they do the same.

A function is found in its file by its code object: the file is compiled again, and the code must be
in the result. Then the syntax tree is taken, without details that no caller can see: docstring,
annotations, log lines, names of locals. A call of a simple helper is replaced
by the helper's body. A step that is not proved to keep the meaning is not made.
"""

from __future__ import annotations

import ast
import linecache
import logging
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

from airflow_streaming.driver.code.code_imports import codes_of

Node = TypeVar("Node", bound=ast.AST)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Lookup: TypeAlias = Callable[[str], Any]
"""Returns the value of a name that is not local, ``None`` without one."""

NAMES_MATTER: Final = frozenset(
    {"locals", "vars()", "dir()", "eval", "exec", "globals", "_getframe", "currentframe"}
    | {"inspect", "query(@)", "numexpr", "duckdb"}
    | {"f_locals", "__code__", "co_names", "co_varnames", "__doc__", "getdoc", "__annotations__"}
    | {"get_type_hints", "get_annotations", "signature", "getfullargspec", "getsource", "gc"}
    | {"__wrapped__", "__closure__", "marshal", "dis"}
)
"""Code with one of these names may see details that the normal form omits."""
LINES_MATTER: Final = frozenset(
    {"traceback", "format_exc", "tb_lineno", "f_lineno", "co_firstlineno", "getsourcelines"}
    | {"_getframe", "currentframe", "inspect", "stack", "__traceback__", "exc_info"}
)
"""Code with one of these names may see numbers of lines."""
_LOG_METHODS: Final = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log"}
)
_MOST_INLINED: Final = 50
_WITHOUT_NODES: Final = frozenset(
    {"ctx", "op", "ops", "id", "arg", "attr", "module", "level", "asname", "rest", "kwd_attrs"}
    | {"kind", "simple", "conversion", "is_async", "type_comment"}
)
"""Fields of nodes without statements, expressions and their parts."""
_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    kind: tuple(name for name in kind._fields if name not in _WITHOUT_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: ()}
"""By kind of node, its fields that may hold other nodes."""
_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of statements with statements in them."""
_DISPLAYS: Final = (
    *(ast.List, ast.Dict, ast.Set, ast.Tuple),
    *(ast.ListComp, ast.DictComp, ast.SetComp),
)
"""Expressions whose value is a container of Python's own."""
_HINTED: Final = frozenset(
    {
        "staticmethod",
        "classmethod",
        "property",
        "abstractmethod",
        "cached_property",
        "contextmanager",
    }
    | {"lru_cache", "cache", "wraps", "udf", "pandas_udf"}
)
"""Decorators whose result reads no annotations when it is called."""

_UNUSUAL: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Flags of code: several arguments in one, a generator, a coroutine."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_VISITED_APART: Final = (ast.stmt, ast.Lambda, *_COMPREHENSIONS)
"""Statements within a statement, and expressions whose names may have other values when they run."""

_NOT_INLINED: Final = (
    *_SCOPES,
    *_COMPREHENSIONS,
    ast.Lambda,
    ast.Global,
    ast.Nonlocal,
    ast.Import,
    ast.ImportFrom,
    ast.NamedExpr,
    ast.Match,
    ast.Delete,
)


class Normal(NamedTuple):
    """
    A function in normal form.

    :param text: Its syntax tree as text.
    :param names: Its names; some of them are globals.
    :param identifiers: Every name in it: variables, attributes, imports, texts that are a name.
    :param texts: Every text in it.
    :param more: Globals of its inlined helpers, by name.
    :param helpers: These helpers as they are written.
    """

    text: str
    names: frozenset[str]
    identifiers: frozenset[str]
    texts: frozenset[str]
    more: Mapping[str, Any] = MappingProxyType({})
    helpers: tuple[Function, ...] = ()


@lru_cache(maxsize=4096)
def node_of_code(code: types.CodeType) -> Function | ast.Lambda | None:
    """Return the syntax tree of a function's code; ``None`` without a source that compiles to it."""
    found = _file(code.co_filename)
    if found is None or code not in found.codes:
        return None
    nodes = found.nodes.get((code.co_name, code.co_firstlineno), ())
    return nodes[0] if len(nodes) == 1 else None


def normal_form(function: types.FunctionType, mark: Callable[[str], str] = str) -> Normal | None:
    """
    Return a function in normal form; ``None`` where its source is not known for certain.

    :param mark: Puts marks in the place of a lane's own places in a text.
    """
    code = function.__code__
    node = node_of_code(code)
    if node is None or any(
        name.startswith("__") and not name.endswith("__") for name in code.co_names
    ):
        return None  # names of a class that are private are looked up by another name
    found = as_function(node)
    frees = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))

    def lookup(name: str) -> Any:
        return _contents(frees[name]) if name in frees else function.__globals__.get(name)

    # The function object holds the values of the defaults.
    found.args.defaults = [ast.Constant(value=None) for _ in found.args.defaults]
    found.args.kw_defaults = [one and ast.Constant(value=None) for one in found.args.kw_defaults]
    inlining = _Inlining(function, lookup)
    found.body = inlining.body(cleaned(found, lookup).body)
    return told(found, mark)._replace(more=inlining.values, helpers=tuple(inlining.helpers))


def as_function(node: Function | ast.Lambda) -> Function:
    """Return a copy of a function's tree, of a lambda as a function that returns its value."""
    if isinstance(node, ast.Lambda):
        arguments = copied(node.args)
        body: list[ast.stmt] = [ast.Return(value=copied(node.body))]
        return ast.FunctionDef(name="<lambda>", args=arguments, body=body, decorator_list=[])
    found = copied(node)
    found.name = ""
    return found


def copied(node: Node) -> Node:
    """Return a copy of a tree that shares the operators, faster than ``copy.deepcopy``."""
    kind = node.__class__
    found = kind.__new__(kind)
    values = found.__dict__
    values.update(node.__dict__)
    for name in _PARTS[kind]:
        value = values.get(name)
        if value.__class__ is list:
            values[name] = [copied(one) if isinstance(one, ast.AST) else one for one in value]
        elif isinstance(value, ast.AST):
            values[name] = copied(value)
    return found


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a tree in the order of ``ast.walk``, without operators and contexts."""
    nodes = [tree]
    for node in nodes:
        values = node.__dict__
        for name in _PARTS[node.__class__]:
            value = values.get(name)
            if value.__class__ is list:
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def texts_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield each constant that is a text, with the text."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def told(node: Function, mark: Callable[[str], str] = str) -> Normal:
    """Return a cleaned function as text, with its locals renamed by their order."""
    nodes = nodes_of(node)
    names = {one.id for one in nodes if isinstance(one, ast.Name)}
    words = {*identifiers_in(nodes)}
    if not words & NAMES_MATTER:
        _rename_locals(node, nodes)
    if node.decorator_list:
        node.decorator_list = []
        nodes = nodes_of(node)
    texts: set[str] = set()
    for one, text in texts_in(nodes):
        texts.add(text)
        one.value = mark(text)
    return Normal(ast.dump(node), frozenset(names), frozenset(words), frozenset(texts))


def identifiers_of(tree: ast.AST) -> Iterator[str]:
    """Yield every name in a tree."""
    return identifiers_in(nodes_of(tree))


def identifiers_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name: variables, attributes, imports, and texts that are a name."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Call):
            if not node.args:
                yield f"{getattr(node.func, 'id', '')}()"  # vars() and dir() see locals, vars(x) does not
            elif getattr(node.func, "attr", "") == "query" and _may_name_locals(node.args[0]):
                yield "query(@)"
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (part for part in node.value.split(".") if part.isidentifier())


# -- Invisible details --------------------------------------------------------------------------------------------


def cleaned(node: Function, lookup: Lookup) -> Function:
    """
    Return a function without docstring, annotations and log lines, changed in place.

    Annotations stay where a decorator may read them.
    """
    hinted = all(_name_of(one) in _HINTED for one in node.decorator_list)
    _Cleaner(lookup, drop_hints=hinted).clean(node)
    return node


def is_logger(value: Any) -> bool:
    """Tell whether a value is Python's own logger, so that its calls change no result."""
    if value is not logging and type(value) not in (logging.Logger, logging.RootLogger):
        return False
    logger: logging.Logger | None = logging.getLogger() if value is logging else value
    while logger is not None:
        if logger.filters or not all(map(_is_known_handler, logger.handlers)):
            return False
        logger = logger.parent
    return True


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its first statement, where this is a text."""
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[1:] if isinstance(first.value.value, str) else body
    return body


class _File(NamedTuple):
    codes: frozenset[types.CodeType]
    nodes: Mapping[tuple[str, int], tuple[Function | ast.Lambda, ...]]


@lru_cache(maxsize=512)
def _parsed(name: str, text: str) -> _File | None:
    try:
        tree = ast.parse(text)
        whole = compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    nodes: dict[tuple[str, int], tuple[Function | ast.Lambda, ...]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Lambda):
            key = ("<lambda>", node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            key = (node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)]))
        else:
            continue
        nodes[key] = (*nodes.get(key, ()), node)
    return _File(frozenset(codes_of(whole)), nodes)


def _file(name: str) -> _File | None:
    linecache.checkcache(name)  # the file may have changed since the last read
    lines = linecache.getlines(name)
    return _parsed(name, "".join(lines)) if lines else None


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name in _PARTS[node.__class__]:
        value = node.__dict__.get(name)
        if value.__class__ is list:
            yield from (one for one in value if isinstance(one, ast.AST))
        elif isinstance(value, ast.AST):
            yield value


def _may_name_locals(query: ast.expr) -> bool:
    """Tell whether the text of a query in pandas may name locals."""
    return not isinstance(query, ast.Constant) or "@" in str(query.value)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _name_of(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        return _name_of(decorator.func)
    return str(getattr(decorator, "attr", None) or getattr(decorator, "id", ""))


class _Cleaner:
    """Cleans statements; no expression has a detail that is left out."""

    def __init__(self, lookup: Lookup, *, drop_hints: bool) -> None:
        self._lookup, self._drop = lookup, drop_hints
        self._bound: set[str] = set()

    def clean(self, node: Function) -> None:
        outer = self._bound
        arguments = _arguments(node.args)
        nodes = nodes_of(node)
        bare = {id(n.target) for n in nodes if isinstance(n, ast.AnnAssign) and not n.value}
        stores = Counter(n.id for n in nodes if _is_store(n) and id(n) not in bare)
        self._locals = {*stores}
        self._containers = {*_containers(nodes, stores)}
        self._bound = {*outer, *(one.arg for one in arguments)}
        if self._drop:
            node.returns = None
            for one in arguments:
                one.annotation = None
        node.body = self._block(without_docstring(node.body))
        self._bound = outer

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        bound = {*self._bound}
        for one in body:
            if self._is_log_line(one):
                continue
            new = self._statement(one)
            if new is None:
                continue
            kept.append(new)
            if isinstance(one, ast.Assign | ast.AnnAssign):
                self._bound |= {n.id for n in nodes_of(one) if _is_store(n)}
        self._bound = bound
        return kept or [ast.Pass()]

    def _statement(self, node: ast.stmt) -> ast.stmt | None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._inner(node)
            case ast.ClassDef():
                return node  # its annotations may be fields
            case ast.AnnAssign(target=ast.Name()):
                return self._annotated(node)
        self._within(node)
        return node

    def _within(self, node: ast.AST) -> None:
        for field in _BLOCKS:
            inner = getattr(node, field, None)
            if isinstance(inner, list) and inner:
                if isinstance(inner[0], ast.stmt):
                    setattr(node, field, self._block(inner))
                else:
                    for one in inner:
                        self._within(one)

    def _inner(self, node: Function) -> Function:
        inner = _Cleaner(self._lookup, drop_hints=not node.decorator_list)
        inner._bound = self._bound - {one.id for one in nodes_of(node) if _is_store(one)}
        inner.clean(node)
        return node

    def _annotated(self, node: ast.AnnAssign) -> ast.stmt | None:
        # In a function they are not evaluated, but an annotated name is local.
        if node.value is None:
            return None if _name_of(node.target) in self._locals else node
        return ast.Assign(targets=[node.target], value=node.value, lineno=0)

    def _is_log_line(self, node: ast.stmt) -> bool:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        call = node.value
        if not all(self._is_plain(one) for one in call.args):
            return False
        function = call.func
        if isinstance(function, ast.Name) and function.id == "print":
            is_builtin = self._lookup("print") is None and "print" not in self._bound | self._locals
            return is_builtin and not call.keywords
        if not isinstance(function, ast.Attribute) or function.attr not in _LOG_METHODS:
            return False
        owner = function.value
        if not isinstance(owner, ast.Name) or owner.id in self._bound | self._locals:
            return False
        hints = all(
            k.arg == "exc_info" and isinstance(k.value, ast.Constant) for k in call.keywords
        )
        return hints and is_logger(self._lookup(owner.id))

    def _is_plain(self, node: ast.AST) -> bool:
        """Tell whether an argument of a log line has no effect and cannot fail."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id in self._bound or (
                node.id not in self._locals and self._lookup(node.id) is not None
            )
        if isinstance(node, ast.JoinedStr):
            return all(self._is_plain(one) for one in node.values)
        if isinstance(node, ast.Call):
            return self._is_length(node)
        if isinstance(node, ast.FormattedValue):
            return (
                node.format_spec is None
                and isinstance(node.value, ast.Name)
                and self._is_plain(node.value)
            )
        return False

    def _is_length(self, call: ast.Call) -> bool:
        match call:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                return (
                    name in self._containers & self._bound
                    and "len" not in self._bound | self._locals
                    and self._lookup("len") is None
                )
        return False


def _containers(nodes: Collection[ast.AST], stores: Counter[str]) -> Iterator[str]:
    """
    Yield the locals that hold nothing but containers of Python.

    :param stores: Number of statements that bind each local.
    """
    found: Counter[str] = Counter()
    kept = {*_kept_names(nodes)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] += isinstance(value, _DISPLAYS)
            case ast.ExceptHandler(name=str(name)):
                kept.add(name)
    if None not in kept:
        yield from (n for n, count in found.items() if count == stores[n] and n not in kept)


def _is_known_handler(handler: logging.Handler) -> bool:
    top = type(handler).__module__.partition(".")[0]
    return not handler.filters and top in ("logging", "airflow_streaming", "_pytest")


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _is_store(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


# -- Names of locals ----------------------------------------------------------------------------------------------


def _rename_locals(node: Function, nodes: Iterable[ast.AST]) -> None:
    """Rename the locals of a function, whose nodes are given."""
    kept = {*_kept_names(nodes)}
    if None in kept:
        return
    renamed: dict[str, str] = {}
    for one in _in_order(node):
        if isinstance(one, ast.Name) and _is_store(one) and one.id not in kept:
            renamed.setdefault(one.id, f"_{len(renamed)}")
        elif isinstance(one, ast.ExceptHandler) and one.name and one.name not in kept:
            renamed.setdefault(one.name, f"_{len(renamed)}")
    if not renamed:
        return
    for one in nodes:
        if isinstance(one, ast.Name):
            one.id = renamed.get(one.id, one.id)
        elif isinstance(one, ast.ExceptHandler) and one.name:
            one.name = renamed.get(one.name, one.name)
        elif isinstance(one, ast.Nonlocal):
            one.names = [renamed.get(name, name) for name in one.names]


def _kept_names(nodes: Iterable[ast.AST]) -> Iterator[str | None]:
    """Yield the names that stay; ``None`` where all stay."""
    for one in nodes:
        if isinstance(one, ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.MatchMapping):
            yield None
        elif isinstance(one, ast.arg):
            yield one.arg
        elif isinstance(one, ast.Global):
            yield from one.names
        elif isinstance(one, ast.Nonlocal):
            yield None
        elif isinstance(one, ast.alias):
            yield (one.asname or one.name).partition(".")[0]
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed([*_children(one)])


# -- Helpers in the place of their calls --------------------------------------------------------------------------


class _Inlining:
    """
    Replaces calls of helpers by their bodies.

    :param root: The function; its helpers are in the same module.
    """

    def __init__(self, root: types.FunctionType, lookup: Lookup) -> None:
        self._root, self._lookup = root, lookup
        code = root.__code__
        self._taken = {
            name for one in codes_of(code) for name in (*one.co_varnames, *one.co_cellvars)
        }
        self._sure = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        self._sure -= {*code.co_cellvars}
        self._shared = {*code.co_cellvars, *code.co_freevars}
        self._within: list[types.CodeType] = [code]
        self._count = 0
        self.values: dict[str, Any] = {}
        self.helpers: list[Function] = []

    def body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return _without_last_name(self._block(body))

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            found += self._statement(one)
            if isinstance(one, ast.Assign):
                stored = {node.id for node in nodes_of(one) if _is_store(node)}
                self._sure |= stored - self._shared
        return found

    def _statement(self, one: ast.stmt) -> list[ast.stmt]:
        value = getattr(one, "value", None)
        if isinstance(one, ast.Return | ast.Expr | ast.Assign) and isinstance(value, ast.Call):
            helper = self._helper(value)
            if helper is not None:
                replaced = self._replaced(one, helper)
                if replaced is not None:
                    return replaced
        for field, inner in ast.iter_fields(one):
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                sure = {*self._sure}
                if isinstance(one, ast.For) and field == "body":
                    self._sure |= {
                        n.id for n in nodes_of(one.target) if _is_store(n)
                    } - self._shared
                setattr(one, field, self._block(inner))
                self._sure = sure
        if not isinstance(one, _SCOPES):
            _with_parts(one, self._expression)
        return [one]

    def _replaced(self, one: ast.stmt, body: list[ast.stmt]) -> list[ast.stmt] | None:
        last = body[-1] if body else None
        returns = [n for n in _own_nodes(body) if isinstance(n, ast.Return)]
        if isinstance(one, ast.Return):
            is_ended = isinstance(last, ast.Return | ast.Raise)
            return body if is_ended else [*body, ast.Return(value=ast.Constant(value=None))]
        if isinstance(one, ast.Expr) and not returns:
            return body
        if isinstance(last, ast.Return) and last.value is not None and returns == [last]:
            if isinstance(one, ast.Assign):
                return [*body[:-1], ast.Assign(targets=one.targets, value=last.value, lineno=0)]
            return [*body[:-1], ast.Expr(value=last.value)]
        return None

    def _expression(self, node: ast.AST) -> ast.AST:
        """Return an expression with the values of helpers that are one expression in place of their calls."""
        if isinstance(node, _VISITED_APART):
            return node
        if isinstance(node, ast.Call):
            body = self._helper(node, is_one=True)
            if body and isinstance(body[0], ast.Return) and body[0].value is not None:
                return body[0].value
        return _with_parts(node, self._expression)

    def _helper(self, call: ast.Call, *, is_one: bool = False) -> list[ast.stmt] | None:
        if not isinstance(call.func, ast.Name) or call.keywords or call.func.id in self._taken:
            return None
        helper = self._lookup(call.func.id)
        if type(helper) is not types.FunctionType or not self._is_simple(helper, call):
            return None
        node = node_of_code(helper.__code__)
        if (
            not isinstance(node, ast.FunctionDef)
            or node.decorator_list
            or self._count >= _MOST_INLINED
        ):
            return None
        found = cleaned(as_function(node), helper.__globals__.get)
        if any(isinstance(one, _NOT_INLINED) for one in _own_nodes(found.body)):
            return None
        nodes = nodes_of(found)
        if not NAMES_MATTER.isdisjoint(identifiers_in(nodes)):
            return None
        if is_one and not (len(found.body) == 1 and isinstance(found.body[0], ast.Return)):
            return None
        self._count += 1
        given = dict(zip((one.arg for one in found.args.args), call.args, strict=True))
        stored = {one.id for one in nodes if _is_store(one)}
        stored |= {one.name for one in nodes if isinstance(one, ast.ExceptHandler) and one.name}
        if stored & given.keys():
            return None
        names = {one.id for one in nodes if isinstance(one, ast.Name)}
        if (names - stored - given.keys()) & self._taken:
            return None  # a global of the helper, and a local of the caller
        known = {
            n: helper.__globals__[n]
            for n in names - stored - given.keys()
            if n in helper.__globals__
        }
        if any(
            value is not self._root.__globals__.get(name, value) for name, value in known.items()
        ):
            return None
        self.values |= known
        self.helpers.append(node)
        return self._placed(found, given, stored, helper, is_one=is_one)

    def _placed(
        self,
        found: Function,
        given: Mapping[str, ast.expr],
        stored: set[str],
        helper: types.FunctionType,
        *,
        is_one: bool,
    ) -> list[ast.stmt]:
        fresh = {name: f"{name} {self._count}" for name in stored}
        for one in nodes_of(found):
            if isinstance(one, ast.ExceptHandler) and one.name:
                one.name = fresh[one.name]
        self._taken |= {*fresh.values()}

        def place(node: ast.AST) -> ast.AST:
            if not isinstance(node, ast.Name):
                return _with_parts(node, place)
            if node.id in given:
                return copied(given[node.id])
            return ast.Name(id=fresh.get(node.id, node.id), ctx=node.ctx)

        body = [_with_parts(one, place) for one in found.body]
        self._within.append(helper.__code__)
        placed = (
            [_with_parts(one, self._expression) for one in body] if is_one else self._block(body)
        )
        self._within.pop()
        return placed

    def _is_simple(self, helper: types.FunctionType, call: ast.Call) -> bool:
        code, root = helper.__code__, self._root
        of_one_module = helper.__globals__ is root.__globals__ or (
            helper.__module__ == root.__module__ and code.co_filename == root.__code__.co_filename
        )
        return (
            of_one_module
            and code not in self._within
            and not helper.__dict__
            and not code.co_freevars
            and not code.co_kwonlyargcount
            and not code.co_flags & _UNUSUAL
            and code.co_argcount == len(call.args)
            and all(self._is_atom(one) for one in call.args)
        )

    def _is_atom(self, node: ast.expr) -> bool:
        """Tell whether an argument has one value for as long as the helper runs."""
        return isinstance(node, ast.Constant) or (
            isinstance(node, ast.Name) and node.id in self._sure
        )


def _with_parts(node: Node, replace: Callable[[ast.AST], ast.AST]) -> Node:
    """Return a node after its direct parts are replaced."""
    values = node.__dict__
    for name in _PARTS[node.__class__]:
        value = values.get(name)
        if value.__class__ is list:
            value[:] = [replace(one) if isinstance(one, ast.AST) else one for one in value]
        elif isinstance(value, ast.AST):
            values[name] = replace(value)
    return node


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for one in body:
        yield from nodes_of(one)


def _without_last_name(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body whose last two statements ``x = value; return x`` are one."""
    if (
        len(body) < 2
        or not isinstance(body[-1], ast.Return)
        or not isinstance(body[-2], ast.Assign)
    ):
        return body
    last, before = body[-1], body[-2]
    if not isinstance(last.value, ast.Name) or len(before.targets) != 1:
        return body
    target = before.targets[0]
    if not isinstance(target, ast.Name) or target.id != last.value.id:
        return body
    lasting = (
        ast.Global,
        ast.Nonlocal,
        ast.Lambda,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.GeneratorExp,
    )
    if any(isinstance(node, lasting) for node in _own_nodes(body)):
        return body
    return [*body[:-2], ast.Return(value=before.value)]
