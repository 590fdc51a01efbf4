"""Small projects of user code, each with a function ``f`` and what it is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DAGS: Final = Path(__file__).parents[2] / "dags"


@dataclass(frozen=True, kw_only=True)
class Project:
    """
    A script and what is beside it.

    :param files: Texts by path; ``script.py`` defines the function ``f``.
    :param calls: Arguments of each call of it.
    """

    name: str
    files: Mapping[str, str]
    calls: tuple[tuple[Any, ...], ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def _project(
    name: str,
    script: str,
    *calls: Any,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Project:
    return Project(
        name=name,
        files={"script.py": script.lstrip(), **(files or {})},
        calls=tuple(one if isinstance(one, tuple) else (one,) for one in calls),
        environment=environment or {},
    )


BUILTIN_BASES = '''
import logging

log = logging.getLogger("prices")

class Rates(dict):
    step = 2
    def __missing__(self, key):
        return len(key) * self.step

class Limits(list):
    def top(self):
        return max(self)

class Amount(float):
    def __add__(self, other):
        return Amount(float(self) + other * 3)

class Code(str):
    def twice(self):
        return self + self

rates = Rates(eur=4, usd=5)
limits = Limits([7, 9, 11])
base = Amount(2.5)
code = Code("x")

def f(key):
    """Price of a key."""
    price = rates[key]
    log.info("a price for %s", key)
    if price > limits.top():
        price = limits[0]
    total = base + price
    return code.twice() + str(total)
'''

FACTORIES = """
import collections
import array

weights = collections.defaultdict(lambda: 3, a=1, b=2)
counts = collections.Counter(a=4, b=5)
ordered = collections.OrderedDict([("z", 1), ("y", 2), ("a", 3)])
recent = collections.deque([1, 2, 3], maxlen=3)
chain = collections.ChainMap({"a": 10}, {"a": 20, "b": 30})
numbers = array.array("i", [3, 1, 2])
kinds = {"a", "b"}
frozen = frozenset(["c", "d"])

def f(key):
    recent.append(weights[key])
    first = next(iter(ordered))
    total = weights[key] * counts[key] + sum(recent) + numbers[0]
    if key in kinds:
        total = total + chain.get(key, 7)
    elif key in frozen:
        total -= 2
    return first, total
"""

META = """
class Scaled(type):
    factor = 3
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.value = made.value * cls.factor
        return made
    def __getitem__(cls, key):
        return key * 2

class Clamped:
    def __init__(self, low, high):
        self.low = low
        self.high = high
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, owner, kind=None):
        return min(max(getattr(owner, self.name), self.low), self.high)
    def __set__(self, owner, value):
        setattr(owner, self.name, value + 1)

class Registered:
    known = []
    def __init_subclass__(cls, weight=1, **more):
        cls.weight = weight
        Registered.known.append(cls.__name__)

class Point(metaclass=Scaled):
    __slots__ = ("value", "_level")
    level = Clamped(0, 40)
    def __init__(self, value):
        self.value = value
        self.level = value
    @property
    def double(self):
        return self.value * 2
    def __getattr__(self, name):
        return len(name)

class First(Registered, weight=4):
    pass

class Second(Registered):
    pass

def f(x):
    point = Point(x)
    return point.value, point.level, point.double, point.missing, Point[x], First.weight, Registered.known
"""

GENERATED = """
import dataclasses
import enum
from typing import NamedTuple
from collections import namedtuple

@dataclasses.dataclass(frozen=True, order=True)
class Order:
    price: int = 3
    pieces: int = 2
    tags: list = dataclasses.field(default_factory=lambda: ["a", "b"], compare=False)
    def total(self):
        return self.price * self.pieces

Made = dataclasses.make_dataclass("Made", [("x", int), ("y", int, dataclasses.field(default=5))])
Pair = namedtuple("Pair", ["left", "right"], defaults=[6])
Typed = type("Typed", (object,), {"rate": 7, "of": lambda self, x: x * self.rate})

class Place(NamedTuple):
    name: str
    number: int = 8

class Kind(enum.Enum):
    LOW = 1
    HIGH = 2
    @classmethod
    def of(cls, x):
        return cls.HIGH if x > 3 else cls.LOW

class Flag(enum.IntFlag):
    READ = 1
    WRITE = 2

def f(x):
    order = Order(x)
    made = Made(x)
    kind = Kind.of(x)
    return order.total(), order.tags, made.y, Pair(x).right, Typed().of(x), Place("p").number, kind.name, Flag.READ | x, order < Order()
"""

DECORATED = """
import functools
import contextlib
from tools import Worker, cached

def times(number, more=1):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * number + more
        return wrapper
    return decorate

def traced(function):
    calls = []
    def wrapper(x):
        calls.append(x)
        return function(x), len(calls)
    return wrapper

def shown(x):
    return x * 3 if isinstance(x, int) else x + "!"

@times(3)
def tripled(x):
    return x + 1

@contextlib.contextmanager
def shifted(x):
    yield x + 6

add = functools.partial(lambda a, b, c=0: a + b * 2 + c, 10, c=4)

@traced
def f(x):
    with shifted(x) as y:
        return tripled(y), shown(x), shown("a"), Worker().work(x), Worker().twice(), cached(x), add(x)
"""

TOOLS = """
import functools

@functools.lru_cache(maxsize=None)
def cached(x):
    return x * 11

def sealed(cls):
    cls.extra = 5
    old = cls.work
    cls.work = lambda self, x: old(self, x) + self.extra
    return cls

@sealed
class Worker:
    @functools.cached_property
    def slow(self):
        return 4
    def work(self, x):
        return x + self.slow
    twice = functools.partialmethod(work, 2)

"""

MODULE_STATE = """
import lib
from lib import registry, scaled
import settings as s

START = 3

def f(x):
    table = lib.load(x)
    return scaled(x), registry["one"](x), lib.LIMIT, s.RATES.get("eur"), table, START, lib.counter.next()
"""
LIB = '''
"""What the job needs."""
import json
import settings
from pathlib import Path

LIMIT = 10
registry = {}
NAMES = []
_TABLE = json.loads((Path(__file__).parent / "table.json").read_text())

def register(name):
    def inner(function):
        registry[name] = function
        return function
    return inner

@register("one")
def one(x):
    return x + 1

@register("two")
def two(x):
    return x + 2

for number in range(3):
    NAMES.append(number * 2)

class Counter:
    def __init__(self, start):
        self.value = start
    def next(self):
        self.value += 2
        return self.value

counter = Counter(5)

def unused(x):
    return x * 1000

def scaled(x):
    return x * settings.SCALE + NAMES[-1]

def load(x):
    return _TABLE.get(str(x), 0)

settings.configure(4)
'''
SETTINGS = """
SCALE = 2
RATES = {"eur": 5, "usd": 6}
EXTRA = 1

def configure(number):
    global SCALE
    SCALE = SCALE + number
"""

PACKAGE = """
def f(x):
    from shop import price
    import shop.rules as rules
    from shop.late import lazily
    return price(x), rules.check(x), lazily(x)
"""

ENVIRONMENT = """
import os
import datetime
import conf

RATE = int(os.environ.get("RATE", "3"))

def f(x):
    level = os.getenv("LEVEL", "low")
    day = datetime.datetime.fromtimestamp(x * 3600).hour
    return x * RATE, level, "DEBUG" in os.environ, conf.REGION, day
"""

INSTALLED = """
import fakelib
from fakelib.inner import work

def f(x):
    return fakelib.scale(x) + work(x)
"""

CLOSURES = """
import re
import operator
from decimal import Decimal
from datetime import timedelta, timezone, datetime

PATTERN = re.compile(r"([a-z]+)(\\d+)", re.I)
TABLE = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}
RULES = [(lambda x: x > 3, "high"), (lambda x: True, "low")]
ZONE = timezone(timedelta(hours=2))
PRICE = Decimal("2.50")
pick = operator.itemgetter(1)
up = operator.methodcaller("replace", "a", "b")

def made(n, more=4):
    total = n
    def inner(x, y=1):
        nonlocal total
        total += y
        return x + total + more
    return inner

add = made(5)

def stream(limit):
    number = 0
    while number < limit:
        yield number * 2
        number += 1

def f(x):
    values = [v for v in stream(x) if v != 2]
    names = {name for test, name in RULES if test(x)}
    try:
        first = values[1]
    except IndexError as error:
        first = len(str(error))
    finally:
        add(x)
    match x:
        case 1:
            kind = "one"
        case 2 | 3:
            kind = "few"
        case _:
            kind = "many"
    if (size := len(values)) > 2:
        kind += str(size)
    found = PATTERN.match("ab12")
    at = datetime(2026, 1, 1, tzinfo=ZONE).astimezone(timezone.utc).hour
    return add(x), sorted(names), first, kind, found.group(1), TABLE["-"](x, 1), str(PRICE * x), pick((x, x + 1)), up("aaa"), at
"""

PATCHED = """
import helper

class Tool:
    scale = 2
    def work(self, x):
        return x * self.scale

def other(self, x):
    return x - self.scale

Tool.scale = 5
Tool.work = other
tool = Tool()
tool.extra = lambda x: x + 100
tool.scale = 6

def f(x):
    f.calls = f.calls + 1
    return tool.work(x), tool.extra(x), f.calls, helper.answer(x), helper.twice(x)

f.calls = 7
"""
HELPER = """
import math

def answer(x):
    return 40 + x

def twice(x):
    return math.floor(x * 2.5)

old = answer
def wrapped(x):
    return old(x) * 2
answer = wrapped
"""

DYNAMIC = """
import rules

KINDS = ["low", "high"]

def f_low(x):
    return x + 1

def f_high(x):
    return x + 2

class Holder:
    one = 1
    two = 2

def f(x):
    name = "rule_" + KINDS[x % 2]
    held = {k: v for k, v in vars(Holder).items() if not k.startswith("_")}
    return getattr(rules, name)(x), sorted(held.items()), rules.__dict__["LIMIT"]
"""

ABSTRACT = """
import abc
import copy

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
    def told(self):
        return type(self).__name__ + str(self.area())

class Square(Shape):
    def __init__(self, side):
        self.side = side
    def area(self):
        return self.side ** 2
    def __getstate__(self):
        return {"side": self.side + 1}

class Circle:
    def area(self):
        return 3

Shape.register(Circle)

class Money:
    __slots__ = ("cents",)
    def __init__(self, cents):
        self.cents = cents
    def __reduce__(self):
        return (Money, (self.cents + 7,))
    def __eq__(self, other):
        return self.cents // 10 == other.cents // 10
    def __hash__(self):
        return 1
    def __bool__(self):
        return self.cents > 12

square = Square(3)
money = Money(12)

def f(x):
    return square.told(), isinstance(Circle(), Shape), money.cents, Money(x) == money, bool(Money(x)), copy.copy(square).side
"""

LOCALS = '''
import inspect

LEVEL = 4

def described(a, b):
    """Add two."""
    first = a + b
    second = first * LEVEL
    return sorted(locals())

def noted(a: int, b: "str" = 3) -> float:
    return a

def f(x):
    return described(x, 2), described.__doc__, noted.__annotations__["b"], eval_like(x)

def eval_like(x):
    return "{first} {x}".format(first=LEVEL, **vars_of(x))

def vars_of(x):
    return {"x": x}
'''

STATEFUL = '''
import json

class State:
    """What a group remembers."""
    def __init__(self, seen=0, total=0.0):
        self.seen, self.total = seen, total
    def update(self, value):
        self.seen += 1
        self.total += value
        return self
    @property
    def mean(self):
        return self.total / self.seen if self.seen else None

class Processor:
    limit = 3
    def init(self, handle):
        self.handle = handle
    def handle_rows(self, key, rows):
        state = State()
        for row in rows:
            if row > self.limit * 10:
                continue
            state.update(row)
        yield key, state.seen, state.mean

def f(x):
    processor = Processor()
    processor.init(None)
    return json.dumps([*processor.handle_rows("k", [x, x + 1, 40])])
'''


SHOP = {
    "shop/__init__.py": "from .prices import price\nVERSION = 3\n",
    "shop/prices.py": """
from . import base

def price(x):
    return x * base.FACTOR + 1

def discount(x):
    return x // 2
""",
    "shop/base.py": """
import csv
from pathlib import Path

FACTOR = 3

def rows():
    return list(csv.reader(open(Path(__file__).parent / "data" / "rates.json")))
""",
    "shop/rules.py": """
from shop.base import rows

LIMIT = 4

def check(x):
    return x > LIMIT, rows()
""",
    "shop/late.py": """
def lazily(x):
    import late_helper
    return late_helper.add(x)
""",
    "shop/data/rates.json": "1,2\n3,4\n",
    "late_helper.py": """
STEP = 2

def add(x):
    return x + STEP

def sub(x):
    return x - STEP
""",
}
FAKELIB = {
    "site-packages/fakelib/__init__.py": "def scale(x):\n    return x * 2\n",
    "site-packages/fakelib/inner.py": "def work(x):\n    return x + 9\n",
}
RULES = """
LIMIT = 3

def rule_low(x):
    return x

def rule_high(x):
    return x * LIMIT
"""


def _of_fraud() -> Project:
    rule = (DAGS / "fraud/jobs/fraud_rule.py").read_text()
    script = (DAGS / "fraud/jobs/fraud_alerts.py").read_text()
    calls = """

class _State:
    hasTimedOut = False
    exists = True
    get = ('[["p0", 1000, 52.5, 13.4]]',)
    def update(self, values): self.kept = values
    def setTimeoutTimestamp(self, at): self.at = at

def f(minutes, lat):
    frame = pd.DataFrame({"id": ["p1", "p2"], "ts": pd.to_datetime([1000 + minutes * 60, 2000], unit="s"), "lat": [lat, 52.5], "lon": [13.0, 13.4]})
    state = _State()
    found = [one.to_dict("list") for one in with_pandas_state(("card",), iter([frame]), state)]
    return found, state.kept, state.at
"""
    script = script.replace('if __name__ == "__main__":\n    main()\n', "") + calls
    return Project(
        name="dags_fraud",
        files={"script.py": script, "fraud_rule.py": rule},
        calls=((10, 48.1), (5, 52.5), (600, 40.0)),
    )


def _of_scoring() -> Project:
    script = (DAGS / "scoring/jobs/score_readings.py").read_text()
    calls = """

class _Stage:
    mean, std, coefficients, intercept = [20.0], [4.0], [1.5], -0.25

class _Model:
    stages = [None, _Stage, _Stage]

class _Readings:
    def withColumn(self, name, column): return column

class _Functions:
    @staticmethod
    def pandas_udf(kind): return lambda function: lambda name: function

F = _Functions
score = with_pandas(_Readings(), _Model)

def f(x):
    return score(pd.Series([x, x + 1.0])).tolist()
"""
    script = script.replace('if __name__ == "__main__":\n    main()\n', "") + calls
    return Project(name="dags_scoring", files={"script.py": script}, calls=((18.0,), (25.5,)))


def projects() -> Iterator[Project]:
    """Yield every project."""
    yield _project("builtin_bases", BUILTIN_BASES, "eur", "nothing", "y")
    yield _project("factories", FACTORIES, "a", "c", "zz")
    yield _project("metaclass", META, 3, 50)
    yield _project("generated", GENERATED, 3, 4)
    yield _project("decorated", DECORATED, 3, 4, files={"tools.py": TOOLS})
    table = '{"1": 11, "2": 12, "3": 13}'
    files = {"lib.py": LIB, "settings.py": SETTINGS, "table.json": table}
    yield _project("module_state", MODULE_STATE, 1, 2, files=files)
    yield _project("package", PACKAGE, 1, 5, files=SHOP)
    environment = {"RATE": "5", "LEVEL": "high", "REGION": "eu", "TZ": "UTC"}
    files = {"conf.py": 'import os\nREGION = os.environ["REGION"]\nOTHER = 3\n'}
    yield _project("environment", ENVIRONMENT, 1, 30, files=files, environment=environment)
    yield _project("installed", INSTALLED, 1, 2, files=FAKELIB)
    yield _project("closures", CLOSURES, 1, 2, 5)
    yield _project("patched", PATCHED, 1, 2, files={"helper.py": HELPER})
    yield _project("dynamic", DYNAMIC, 1, 2, files={"rules.py": RULES})
    yield _project("abstract", ABSTRACT, 1, 25)
    yield _project("locals", LOCALS, 1)
    yield _project("stateful", STATEFUL, 1, 30)
    yield _of_fraud()
    yield _of_scoring()
