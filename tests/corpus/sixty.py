"""
Sixty edits of one script by hand, that the rules were not written against: answers and truth in a table.

    python -m tests.corpus.sixty
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.corpus.generate import run
from tests.corpus.projects import Project

SCRIPT: Final = '''
"""Bills of electric meters."""
from __future__ import annotations

import datetime as dt
import functools
import itertools
import logging
import operator
from collections import ChainMap, UserDict
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import tariffs
from tariffs import seasons
from tariffs.rules import RULES, Rule, rule

logger = logging.getLogger("bills")
CURRENCY = "EUR"
SCALES = {"k": 1000, "m": 1_000_000}

class Priced(Protocol):
    def price(self, kwh: float) -> float: ...

class Registry(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)
    def __contains__(self, key):
        return key.lower() in self.data

@dataclass(slots=True)
class Reading:
    meter: str
    kwh: float = 0.0
    tags: list[str] = field(default_factory=list)
    limit: ClassVar[int] = 100
    def __post_init__(self):
        self.kwh = min(self.kwh, self.limit)

@functools.total_ordering
class Level:
    def __init__(self, number):
        self.number = number
    def __eq__(self, other):
        return self.number == other.number
    def __lt__(self, other):
        return self.number < other.number

class Lazy:
    def __init__(self, make):
        self.make = make
    def __get__(self, owner, kind=None):
        return self.make(owner)

class Bill:
    vat = 0.19
    total = Lazy(lambda self: self.net * (1 + self.vat))
    def __init__(self, net):
        self.net = net
    def __format__(self, spec):
        return f"{self.total:.2f} {spec or CURRENCY}"

registry = Registry({"Base": tariffs.Flat(0.30), "Night": tariffs.Stepped([(10, 0.2), (99, 0.1)])})
defaults = ChainMap({"tariff": "base"}, {"tariff": "night", "zone": "de"})

def checked(least):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args):
            value = function(*args)
            return value if value >= least else least
        return inner
    return decorate

@checked(0.5)
def net_price(reading, name):
    tariff = registry[name]
    base = tariff.price(reading.kwh)
    factor = seasons.factor(reading.meter)
    return base * factor

@rule("rebate")
def rebate(value):
    return value - 1 if value > 20 else value

def parse(text):
    """Return a reading of a text."""
    meter, _, rest = text.partition(":")
    number = rest[:-1] if rest[-1:] in SCALES else rest
    kwh = float(number) * SCALES.get(rest[-1:], 1)
    return Reading(meter, kwh)

def apply_rules(value):
    for name in sorted(RULES):
        value = RULES[name](value)
    return value

def bucket(value):
    if Level(value) < Level(10):
        size = "small"
    elif Level(value) >= Level(25):
        size = "large"
    else:
        size = "middle"
    return size

def f(text):
    reading = parse(text)
    name = defaults["tariff"] if reading.kwh < 50 else defaults["zone"] and "night"
    net = apply_rules(net_price(reading, name))
    bill = Bill(net)
    steps = list(itertools.accumulate([1, 2, 3], operator.mul))
    other = replace(reading, meter="x")
    return f"{bill}", bucket(net), steps, other.meter, reading.tags, "NIGHT" in registry
'''
FILES: Final = {
    "tariffs/__init__.py": '''
"""Tariffs."""
import json
from pathlib import Path
from .steps import walk

SURCHARGE = json.loads((Path(__file__).parent / "surcharge.json").read_text())["value"]

class Flat:
    def __init__(self, rate):
        self.rate = rate
    def price(self, kwh):
        return kwh * self.rate + SURCHARGE

class Stepped:
    def __init__(self, steps):
        self.steps = steps
    def price(self, kwh):
        return walk(self.steps, kwh)

def obsolete(kwh):
    return kwh * 99
''',
    "tariffs/steps.py": """
def walk(steps, kwh):
    cost, rest = 0.0, kwh
    for size, rate in steps:
        part = min(rest, size)
        cost += part * rate
        rest -= part
    return cost
""",
    "tariffs/seasons.py": """
import os

WINTER = float(os.environ.get("WINTER", "1.5"))
_KNOWN = {}

def factor(meter):
    if meter not in _KNOWN:
        _KNOWN[meter] = WINTER if meter.startswith("w") else 1.0
    return _KNOWN[meter]
""",
    "tariffs/rules.py": """
RULES = {}
Rule = callable

def rule(name):
    def keep(function):
        RULES[name] = function
        return function
    return keep

@rule("round")
def rounded(value):
    return round(value, 3)
""",
    "tariffs/surcharge.json": '{"value": 0.05}',
}
PROJECT: Final = Project(
    name="bills",
    files={"script.py": SCRIPT.lstrip(), **FILES},
    calls=(("w1:12",), ("a2:60",), ("w3:0.1k",), ("b:1",)),
    environment={"WINTER": "1.25"},
)
S, T = "script.py", "tariffs/"
CHANGES: Final = [
    (S, "return value if value >= least else least", "return value"),
    (S, "@checked(0.5)", "@checked(5)"),
    (S, "@checked(0.5)\n", ""),
    (S, "key.lower(), value", "key.upper(), value"),
    (S, "return key.lower() in self.data", "return key in self.data"),
    (S, "class Registry(UserDict):", "class Registry(dict):"),
    (S, "limit: ClassVar[int] = 100", "limit: ClassVar[int] = 40"),
    (S, "kwh: float = 0.0", "kwh: float = 1.0"),
    (S, "field(default_factory=list)", "field(default_factory=lambda: ['new'])"),
    (S, "        self.kwh = min(self.kwh, self.limit)", "        pass"),
    (S, "return self.number < other.number", "return self.number > other.number"),
    (S, "return self.make(owner)", "return self.make(owner) + 1"),
    (S, "vat = 0.19", "vat = 0.07"),
    (S, "self.net * (1 + self.vat)", "self.net * (2 + self.vat)"),
    (S, ":.2f}", ":.1f}"),
    (S, 'CURRENCY = "EUR"', 'CURRENCY = "CHF"'),
    (S, "tariffs.Flat(0.30)", "tariffs.Flat(0.31)"),
    (S, "[(10, 0.2), (99, 0.1)]", "[(20, 0.2), (99, 0.1)]"),
    (S, 'ChainMap({"tariff": "base"}, {', "ChainMap({}, {"),
    (S, "operator.mul", "operator.add"),
    (S, '"k": 1000', '"k": 100'),
    (S, "value - 1 if value > 20", "value - 2 if value > 20"),
    (S, '@rule("rebate")', '@rule("Rebate")'),
    (S, '@rule("rebate")\n', ""),
    (S, "for name in sorted(RULES):", "for name in sorted(RULES)[:1]:"),
    (S, 'meter="x"', 'meter="y"'),
    (S, "Level(10)", "Level(12)"),
    (T + "__init__.py", "kwh * self.rate + SURCHARGE", "kwh * self.rate"),
    (T + "__init__.py", 'read_text())["value"]', 'read_text())["value"] * 2'),
    (T + "steps.py", "cost += part * rate", "cost = part * rate"),
    (T + "seasons.py", "else 1.0", "else 0.9"),
    (T + "seasons.py", '"WINTER", "1.5"', '"SUMMER", "1.5"'),
    (T + "seasons.py", "_KNOWN = {}", '_KNOWN = {"a2": 3.0}'),
    (T + "rules.py", "round(value, 3)", "round(value, 0)"),
    (T + "rules.py", '@rule("round")\n', ""),
    (T + "surcharge.json", "0.05", "0.06"),
    (S, 'logger = logging.getLogger("bills")', "tariffs.Flat.price = lambda self, kwh: kwh"),
    (S, "SCALES = {", "tariffs.SURCHARGE = 3\nSCALES = {"),
]
HARMLESS: Final = [
    (S, '"""Return a reading of a text."""', '"""Parse it.\n\n    More.\n    """'),
    (S, "    base = tariff", "    # The price before the season.\n    base = tariff"),
    (S, "def parse(text):", "def parse(text: str) -> Reading:"),
    (S, "def bucket(value):", "def bucket(value: float) -> str:"),
    (S, "    net = apply", '    logger.info("a reading of %s", text)\n    net = apply'),
    (S, "    kwh = float(", '    logger.debug("number %s", number)\n    kwh = float('),
    (S, "    bill = Bill(net)", '    print("net", net)\n    bill = Bill(net)'),
    (S, "size", "group"),
    (S, "steps = list(", "products: list[int] = list("),
    (S, "    return base * factor", "    price = base * factor\n    return price"),
    (
        S,
        "    base = tariff.price(reading.kwh)\n    factor = seasons.factor(reading.meter)\n    return base * factor",
        "    return _priced(tariff, reading)\n\ndef _priced(tariff, reading):\n    base = tariff.price(reading.kwh)\n    factor = seasons.factor(reading.meter)\n    return base * factor",
    ),
    (
        S,
        "    return value - 1 if value > 20 else value",
        "    return _less(value)\n\ndef _less(amount):\n    return amount - 1 if amount > 20 else amount",
    ),
    (S, "def apply_rules", "def nobody_calls_it(x):\n    return x\n\ndef apply_rules"),
    (S, "import operator\n", "import operator\nimport statistics\n"),
    (S, "import datetime as dt\n", ""),
    (S, '"k": 1000, "m": 1_000_000', '"k": 1_000,\n    "m": 1000000,\n'),
    (S, "Rule, rule", "rule"),
    (T + "__init__.py", "    return kwh * 99", "    return kwh * 98"),
    (T + "__init__.py", '"""Tariffs."""', '"""All tariffs."""'),
    (T + "steps.py", "def walk(steps, kwh):", "def walk(steps: list, kwh: float) -> float:"),
    (T + "steps.py", "    return cost", '    print("done")\n    return cost'),
    (T + "steps.py", "rest", "left"),
]


def main() -> None:
    """Try every edit and print the table."""
    root = Path(tempfile.mkdtemp(prefix="sixty-"))
    old = run(PROJECT, root)
    assert not old.error, old
    assert "Traceback" not in old.output, old
    counts: Counter[str] = Counter()
    for is_harmless, edits in ((False, CHANGES), (True, HARMLESS)):
        for file, before, after in edits:
            text = PROJECT.files[file]
            assert before in text, before
            if before == "steps = list(":
                text = text.replace("steps, other", "products, other")
            new = run(
                replace(PROJECT, files={**PROJECT.files, file: text.replace(before, after)}), root
            )
            same = not new.error and new.output == old.output
            is_opaque = "opaque:" in f"{old.code} {new.code} {old.pieces} {new.pieces}"
            allowed = (
                not is_opaque and not new.error and (old.code, old.pieces) == (new.code, new.pieces)
            )
            answer = "allowed" if allowed else "not allowed to pass"
            truth = "same" if same else "other"
            kind = "harmless" if is_harmless else "change"
            counts[f"{kind}, {truth}, {answer}"] += 1
            print(
                f"| {kind} | {file} | `{after.strip().splitlines()[0][:60] if after.strip() else 'without ' + before.strip()[:50]}` | {truth} | {answer} |"
            )
    print(len(CHANGES) + len(HARMLESS), dict(counts))
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
