"""A named number is the number, and a cached look-up is the look-up, where nothing can change them."""

from __future__ import annotations

import pytest

from tests.unit.driver.test_code_closure import ScriptIn, script

__all__ = ["script"]

LIB = """from dataclasses import dataclass
from functools import lru_cache
RATE = 3
TABLE = {"a": 1, "b": 2}
class Limits:
    high = 900.0
@dataclass(frozen=True)
class Frozen:
    high: float = 900.0
LIMITS = Frozen()
@dataclass
class Open:
    high: float = 900.0
OPEN = Open()
@lru_cache(maxsize=None)
def looked_up(k): return TABLE.get(k, 0)
def use(k): return looked_up(k) + 1
"""
NUMBER = "import lib\ndef f(x): return x > 900.0"
CLASS = "from lib import Limits\ndef f(x): return x > Limits.high"
FROZEN = "from lib import LIMITS\ndef f(x): return x > LIMITS.high"
SAME = {
    "a class": (NUMBER, CLASS),
    "a frozen dataclass": (CLASS, FROZEN),
    "another name": (
        "LOW = -2\ndef f(x): return x * LOW",
        "from lib import RATE\nLEAST = -2\ndef f(x): return x * LEAST",
    ),
    "a constant that moves": (
        "import lib\nRATE = 3\ndef f(x): return [y * RATE for y in x]",
        "from lib import RATE\ndef f(x): return [y * RATE for y in x]",
    ),
    "a number of a helper": (
        "import lib\ndef h(a): return a * 20\ndef f(x): return h(x)",
        "import lib\nSTEPS = 20\ndef h(a): return a * STEPS\ndef f(x): return h(x)",
    ),
    "a default": (
        "import lib\ndef f(x):\n    def g(y, z=3): return y + z\n    return g(x)",
        "from lib import RATE\ndef f(x):\n    def g(y, z=RATE): return y + z\n    return g(x)",
    ),
}
OTHER = {
    "another number": (NUMBER, CLASS, "900.0\n@", "901.0\n@"),
    "another kind of number": (NUMBER, CLASS, "900.0\n@", "900\n@"),
    "an open dataclass": (FROZEN, FROZEN.replace("LIMITS", "OPEN"), "", ""),
    "a number that code sets": (NUMBER, CLASS + "\ndef later(): Limits.high = 1", "", ""),
    "a number of a module that sets any": (
        NUMBER,
        CLASS,
        "RATE = 3",
        "RATE = 3\ndef put(k, v): setattr(Limits, k, v)",
    ),
    "a number that a function binds": (
        "import lib\ndef f(x): return x * 3",
        "import lib\nMORE = 3\ndef more():\n    global MORE\n    MORE += 1\ndef f(x): return x * MORE",
        "",
        "",
    ),
    "a number that is bound twice": (
        "import lib\ndef f(x): return x * 3",
        "import lib\nMORE = 2\nMORE = 3\ndef f(x): return x * MORE",
        "",
        "",
    ),
    "a number of the environment": (
        NUMBER,
        CLASS,
        "    high = 900.0\n@",
        "    high = float(__import__('os').environ.get('HIGH', 900))\n@",
    ),
    "a number that is computed before": (
        NUMBER,
        CLASS,
        "class Limits:\n    high = 900.0\n@",
        "H = float(len('a') * 900)\nclass Limits:\n    high = H\n@",
    ),
    "a computed number of a module": (
        "import lib\ndef f(x): return x * 3",
        "from lib import RATE\ndef f(x): return x * RATE",
        "RATE = 3",
        "RATE = len('abc')",
    ),
    "a default that is computed": (
        NUMBER,
        FROZEN,
        "@dataclass(frozen=True)\nclass Frozen:\n    high: float = 900.0",
        "H = float(len('a') * 900)\n@dataclass(frozen=True)\nclass Frozen:\n    high: float = H",
    ),
    "a class of a module that does something": (
        NUMBER,
        CLASS,
        "RATE = 3",
        "RATE = 3\nimport math\nprint(math)",
    ),
    "a local of the name": (
        "import lib\nRATE = 3\ndef f(x): return [RATE for RATE in x]",
        "import lib\nRATE = 3\ndef f(x): return [3 for RATE in x]",
        "",
        "",
    ),
    "an enclosing name": (
        "import lib\nRATE = 3\ndef m(RATE):\n    def g(x): return x * RATE\n    return g\nf = m(4)",
        "import lib\nRATE = 3\ndef m(RATE):\n    def g(x): return x * 3\n    return g\nf = m(4)",
        "",
        "",
    ),
    "a name of a class body": (
        "import lib\nRATE = 3\ndef f(x):\n    class C:\n        RATE = x\n        y = RATE\n    return C.y",
        "import lib\nRATE = 3\ndef f(x):\n    class C:\n        RATE = x\n        y = 3\n    return C.y",
        "",
        "",
    ),
    "an object": (
        "import lib\nRATE = 3\nMORE = 3\ndef f(x): return x is RATE",
        "import lib\nRATE = 3\nMORE = 3\ndef f(x): return x is MORE",
        "",
        "",
    ),
    "a class with hooks": (
        NUMBER,
        CLASS,
        "class Limits:",
        "class Meta(type):\n    def __getattribute__(cls, k): return 1\nclass Limits(metaclass=Meta):",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_number_and_a_look_up_are_the_same_under_another_name(
    script: ScriptIn, name: str
) -> None:
    before, after = SAME[name]

    assert script(after, lib_py=LIB).code == script(before, lib_py=LIB).code


@pytest.mark.parametrize("name", OTHER)
def test_a_number_or_table_that_may_change_is_no_constant(script: ScriptIn, name: str) -> None:
    before, after, old, new = OTHER[name]
    assert LIB.count(old) == 1 or not old

    assert script(after, lib_py=LIB.replace(old, new)).code != script(before, lib_py=LIB).code


USE = "import lib\ndef f(x): return lib.use(x)"


@pytest.mark.parametrize(
    ("lib", "text"),
    [
        (LIB, USE),
        (LIB.replace("get(k, 0)", "get(k, RATE)"), USE),
        (LIB, f"{USE} if x != '*' else 0"),
        (LIB.replace("RATE = 3", "RATE = 3\ndef known(k): return k in TABLE and TABLE[k]"), USE),
    ],
)
def test_a_cache_of_a_look_up_changes_nothing(script: ScriptIn, lib: str, text: str) -> None:
    bare = lib.replace("@lru_cache(maxsize=None)\n", "")

    assert script(text, lib_py=lib).code == script(text, lib_py=bare).code


@pytest.mark.parametrize(
    ("lib", "text"),
    [
        pytest.param(LIB.replace("get(k, 0)", "get(k, k)"), USE, id="gives its argument"),
        pytest.param(LIB.replace('"a": 1', '"a": [1]'), USE, id="gives a list"),
        pytest.param(LIB.replace("get(k, 0)", "setdefault(k, 0)"), USE, id="adds"),
        pytest.param(LIB.replace("get(k, 0)", "get(k, len(TABLE))"), USE, id="looks at the table"),
        pytest.param(
            LIB.replace("RATE = 3", "RATE = 3\ndef put(k, v): TABLE[k] = v"), USE, id="is filled"
        ),
        pytest.param(LIB, USE.replace("def", "lib.TABLE['c'] = 3\ndef"), id="the script fills it"),
        pytest.param(
            LIB, USE.replace("def", "def g(k): return getattr(lib, k)\ndef"), id="a computed name"
        ),
        pytest.param(
            LIB.replace("def looked_up", "@staticmethod\ndef looked_up"),
            USE,
            id="another decorator",
        ),
    ],
)
def test_a_cache_that_may_show_counts(script: ScriptIn, lib: str, text: str) -> None:
    bare = lib.replace("@lru_cache(maxsize=None)\n", "")

    assert script(text, lib_py=lib).code != script(text, lib_py=bare).code


@pytest.mark.parametrize(
    "more",
    [
        "@lru_cache(maxsize=8)\ndef unused(k): return k",
        "@dataclass\nclass Unused:\n    a: int = 1\nUNUSED = Unused(a=2)",
        "import functools as ft\n@ft.cache\ndef unused(k): return k",
    ],
)
def test_a_cache_or_dataclass_that_nothing_names_does_not_count(
    script: ScriptIn, more: str
) -> None:
    text = "import lib\ndef f(x): return lib.use(x)"

    assert script(text, lib_py=f"{LIB}{more}\n").code == script(text, lib_py=LIB).code


@pytest.mark.parametrize(
    "more",
    [
        "def lru_cache(f): return f\n@lru_cache\ndef unused(k): return k",
        "@dataclass\nclass Unused:\n    a: int = 1\n    def __post_init__(self): print()\nU = Unused()",
        "@dataclass\nclass Unused:\n    a: int = len('a')",
        "U = Frozen(len('a'))",
        "def mark(f): return f\n@mark\ndef unused(k): return k",
    ],
)
def test_a_statement_that_runs_code_of_the_user_counts(script: ScriptIn, more: str) -> None:
    text = "import lib\ndef f(x): return lib.use(x)"

    assert script(text, lib_py=f"{LIB}{more}\n").code != script(text, lib_py=LIB).code


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("x * 3600", "x * (60 * 60)", True),
        ("x * 3600", "x * 60 * 60", False),
        ("x * 0.5", "x * (1 / 2)", True),
        ("x * 2", "x * (1 + 1.0)", False),
        ("x * 2", "x * (1 + True)", False),
        ("x * 3", "x * (1 / 0)", False),
        ("x + 'aa'", "x + 'a' * 2", False),
    ],
)
def test_numbers_that_python_computes_once_are_their_result(
    script: ScriptIn, old: str, new: str, *, is_same: bool
) -> None:
    text = "def f(x): return {}"

    assert (script(text.format(old)).code == script(text.format(new)).code) is is_same
