"""Statements of a module that define a value and do nothing else."""

from __future__ import annotations

import time

import pytest

from tests.unit.driver.test_code_closure import ScriptIn, script

__all__ = ["script"]

USE = "import lib\ndef f(x): return lib.g(x)"
TABLE = 'TABLE = {"a": 1.0, "b": 1.5}\ndef g(x): return TABLE[x]\n'
LITERAL = '{"a": 1.0, "b": 1.5}'
TIMED = """import functools
import logging
import time
log = logging.getLogger(__name__)

def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        log.debug("%s took %s s", function.__name__, time.perf_counter() - begin)
        return result
    return inner

def g(x):
    return x + 1
"""
BARE = TIMED.replace("def g", "@timed\ndef g")
CAPPED = """import functools

def capped(limit):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args):
            return min(limit, function(*args))
        return inner
    return wrap

class Price:
    @capped(12.0)
    def of(self, x):
        return x * 3

    def half(self, x):
        return x / 2

def g(x): return Price().of(x)
"""


@pytest.mark.parametrize(
    "table",
    [
        "{key: 1 + part / 100 for key, part in ((('a'), 0), ('b', 50))}",
        "{key: part for key, part in {'a': 1.0, 'b': 1.5}.items()}",
        "{key: part for key in 'ab' for part in [1.0, 1.5] if (key == 'b') == (part > 1)}",
        "{'a': 2.0 - 1, 'b': 3 * 0.5}",
    ],
)
def test_a_table_counts_by_its_content_however_it_is_computed(script: ScriptIn, table: str) -> None:
    assert script(USE, lib_py=TABLE.replace(LITERAL, table)).code == script(USE, lib_py=TABLE).code


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("{key: part for key, part in {'a': 1.0, 'b': 2.5}.items()}", id="content"),
        pytest.param("{key: 1.0 + 0.5 * (key == 'b') for key in {'b', 'a'}}", id="order of a set"),
        pytest.param("{key: float(part) for key, part in [('a', 1), ('b', 1.5)]}", id="a call"),
        pytest.param("{**{'a': 1.0}, 'b': 1.5}", id="another dict"),
        pytest.param("{(name := 'a'): 1.0, 'b': 1.5}", id="a further name"),
    ],
)
def test_a_table_counts_with_its_statement_where_more_may_happen(
    script: ScriptIn, table: str
) -> None:
    assert script(USE, lib_py=TABLE.replace(LITERAL, table)).code != script(USE, lib_py=TABLE).code


@pytest.mark.parametrize("name", ["perf_counter", "monotonic_ns", "time"])
def test_a_decorator_that_takes_times_and_logs_is_no_other_code(
    script: ScriptIn, name: str
) -> None:
    text = BARE.replace("perf_counter", name)

    assert script(USE, lib_py=text).code == script(USE, lib_py=TIMED).code


@pytest.mark.parametrize(
    "text",
    [
        BARE.replace(
            '        log.debug("%s took %s s", function.__name__, time.perf_counter() - begin)\n',
            "        took = time.perf_counter() - begin\n        log.debug('%s s', took)\n",
        ),
        BARE.replace(
            "        result = function(*args, **kwargs)\n",
            "        try:\n            return function(*args, **kwargs)\n        finally:\n            log.info('end')\n",
        ).replace("        return result\n", ""),
        BARE.replace("@timed\ndef g", "@timed\n@timed\ndef g"),
    ],
    ids=["a difference", "try", "twice"],
)
def test_a_decorator_may_measure_in_another_way(script: ScriptIn, text: str) -> None:
    assert script(USE, lib_py=text).code == script(USE, lib_py=TIMED).code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("return result", "return result or 0", id="result"),
        pytest.param("return result", "return begin", id="the time is returned"),
        pytest.param("function(*args, **kwargs)", "function(*args)", id="arguments"),
        pytest.param("function(*args, **kwargs)", "other(*args, **kwargs)", id="another function"),
        pytest.param("return inner\n", "log.setLevel(10)\n    return inner\n", id="more at import"),
        pytest.param("return inner\n", "return function if time else inner\n", id="a choice"),
        pytest.param("    @functools.wraps(function)\n", "", id="another name"),
        pytest.param(
            "time.perf_counter() - begin", "args[0].day", id="an attribute may be missing"
        ),
        pytest.param("begin = time.perf_counter()", "begin = time.localtime()", id="no clock"),
        pytest.param(
            "        begin =", "        global begin\n        begin =", id="a global time"
        ),
        pytest.param("@timed\n", "calls = []\ndef time(): pass\n@timed\n", id="another clock"),
        pytest.param("@timed\n", "time.perf_counter = list\n@timed\n", id="a replaced clock"),
        pytest.param(
            "@timed\ndef g(x):\n    return x + 1\n",
            "@timed\ndef g(x):\n    return x + 1\ng.tries = 3\n",
            id="an attribute of the wrapper",
        ),
    ],
)
def test_a_decorator_that_does_more_counts(
    script: ScriptIn, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    # The library replaces it, for all tests of this process.
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)
    assert BARE.count(old) >= 1
    lib = BARE.replace(old, new) + "\ndef other(x): return 3\n"
    unwrapped = script(USE, lib_py=TIMED + "\ndef other(x): return 3\n")

    assert script(USE, lib_py=lib).code != unwrapped.code


def test_a_wrapper_counts_where_code_looks_behind_it(script: ScriptIn) -> None:
    use = (
        "import lib\ndef f(x): return lib.g.__wrapped__(x) if hasattr(lib.g, '__wrapped__') else 0"
    )

    assert script(use, lib_py=BARE).code != script(use, lib_py=TIMED).code


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("def f(x): return x.applyInPandas(lib.g, 'a int')", id="handed on"),
        pytest.param("def f(x):\n    h = lib.g\n    return h(x)", id="another name"),
        pytest.param("def f(x): return getattr(lib, x)(x)", id="a computed name"),
        pytest.param("ALL = [lib.g]\ndef f(x): return ALL[0](x)", id="in a list"),
        pytest.param("def f(x): return x.call('g') + lib.g(x)", id="its name as a text"),
    ],
)
def test_a_wrapper_counts_where_code_does_more_than_call_it(script: ScriptIn, use: str) -> None:
    use = f"import lib\n{use}"

    assert script(use, lib_py=BARE).code != script(use, lib_py=TIMED).code


def test_what_a_wrapper_replaces_counts_where_code_looks_behind_it(script: ScriptIn) -> None:
    text = """import functools
def g(x): return 1
def other(x): return 3
one = functools.wraps(g)(lambda x: 2)
def f(x): return one.__wrapped__(x)
"""

    assert script(text).code != script(text.replace("return 1", "return 4")).code


def test_the_function_of_a_query_keeps_its_wrapper(script: ScriptIn) -> None:
    # Spark asks for the number of its arguments.
    assert script(BARE + "f = g").code != script(TIMED + "f = g").code


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("@capped(12.0)", "@capped(1.5 * 8)", True),
        ("        return x * 3", "        y = x * 3\n        return y", True),
        ("@capped(12.0)", "@capped(12.5)", False),
        ("@capped(12.0)", "@capped(float('12'))", False),
        ("min(limit", "max(limit", False),
        ("return x * 3", "return x * 2", False),
        ("    return wrap\n", "    Price = limit\n    return wrap\n", False),
    ],
)
def test_a_class_with_a_decorated_method_counts_by_its_content(
    script: ScriptIn, old: str, new: str, *, is_same: bool
) -> None:
    assert old in CAPPED
    after = script(USE, lib_py=CAPPED.replace(old, new))

    assert (after.code == script(USE, lib_py=CAPPED).code) is is_same
