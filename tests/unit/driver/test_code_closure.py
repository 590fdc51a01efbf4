"""What counts in the closure of a function: everything that a result can depend on, and no wording."""

from __future__ import annotations

import base64
import decimal
import hashlib
import json
import linecache
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.code.code_imports import is_users
from airflow_streaming.driver.code.functions import Closure, closure_of
from airflow_streaming.model.spark.plan import OPAQUE


def _is_of_tests(name: str, module: object) -> bool:
    """Tell whether a module is of these tests or of a script that another test left behind."""
    file = str(getattr(module, "__file__", None) or "")
    own = name.partition(".")[0] in ("__main__", "airflow_streaming")
    return bool(file) and not own and is_users(name, file)


ScriptIn = Callable[..., Closure]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptIn]:
    """Return the closure of ``f`` in a script with modules and data beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = {*sys.modules}

    def forget() -> None:
        for name in {*sys.modules} - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]

    def made(text: str, *, in_driver: bool = False, **beside: str) -> Closure:
        forget()
        path = str(tmp_path / "script.py")
        monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=path))
        # Modules of the tests run a lot when they are imported.
        for name in [name for name, module in sys.modules.items() if _is_of_tests(name, module)]:
            monkeypatch.delitem(sys.modules, name)
        for name, content in beside.items():
            (tmp_path / name.replace("_py", ".py").replace("_json", ".json")).write_text(content)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, path, "exec", dont_inherit=True), scope)  # noqa: S102 - scripts of this test
        return closure_of(scope["f"], in_driver=in_driver)

    yield made
    forget()
    linecache.checkcache()


OTHER = {
    "items of a dict of its own": (
        "class R(dict):\n    pass\nr = R(a=1)\ndef f(x): return r[x]",
        "R(a=1)",
        "R(a=2)",
    ),
    "method of such a dict": (
        "class R(dict):\n    def __missing__(self, k): return 1\nr = R()\ndef f(x): return r[x]",
        "return 1",
        "return 2",
    ),
    "factory": (
        "import collections\nd = collections.defaultdict(lambda: 3)\ndef f(x): return d[x]",
        "lambda: 3",
        "lambda: 4",
    ),
    "length of a deque": (
        "import collections\nd = collections.deque([1], maxlen=3)\ndef f(x): return list(d)",
        "maxlen=3",
        "maxlen=4",
    ),
    "a generic class": (
        "from typing import *\nT = TypeVar('T')\nclass C(Generic[T]):\n    n = 1\ndef f(x): return C[int]().n",
        "n = 1",
        "n = 2",
    ),
    "a subclass of a generic one": (
        "from typing import *\nT = TypeVar('T')\nclass B(Generic[T]): pass\nclass C(B[int]): pass\ndef f(x): return C()",
        "B[int]",
        "B[str]",
    ),
    "bound of a type variable": (
        "from typing import TypeVar\nT = TypeVar('T', bound='int')\ndef f(x): return T.__bound__",
        "'int'",
        "'str'",
    ),
    "constraints of a type variable": (
        "from typing import TypeVar\nT = TypeVar('T', int, str)\ndef f(x): return T.__constraints__",
        "int, str",
        "str, int",
    ),
    "name of a type variable": (
        "from typing import ParamSpec\nP = ParamSpec('P')\ndef f(x): return P.__name__",
        "Spec('P')",
        "Spec('Q')",
    ),
    "a new type": (
        "from typing import NewType\nN = NewType('N', int)\ndef f(x): return N.__supertype__(x)",
        "int)\n",
        "str)\n",
    ),
    "metaclass": (
        "class M(type):\n    def __getitem__(cls, k): return k\nclass C(metaclass=M): pass\ndef f(x): return C[x]",
        "return k",
        "return -k",
    ),
    "descriptor": (
        "class D:\n    def __get__(self, o, k): return 1\nclass C:\n    d = D()\ndef f(x): return C().d",
        "return 1",
        "return 2",
    ),
    "made dataclass": (
        "import dataclasses\nP = dataclasses.make_dataclass('P', [('x', int, dataclasses.field(default=5))])\ndef f(x): return P().x",
        "default=5",
        "default=6",
    ),
    "default of a field": (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 3\ndef f(x): return P().x",
        "int = 3",
        "int = 4",
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y', defaults=[6])\ndef f(x): return P(x).y",
        "[6]",
        "[7]",
    ),
    "class made by type": (
        "C = type('C', (), {'rate': 7})\ndef f(x): return C().rate",
        "7",
        "8",
    ),
    "wrapper": (
        (
            "import functools\ndef t(n):\n    def d(g):\n        @functools.wraps(g)\n"
            "        def w(x): return g(x) * n\n        return w\n    return d\n@t(3)\ndef f(x): return x"
        ),
        "@t(3)",
        "@t(4)",
    ),
    "subclass that is registered": (
        "import abc\nclass S(abc.ABC): pass\nclass C: pass\nS.register(C)\ndef f(x): return isinstance(C(), S)",
        "S.register(C)",
        "",
    ),
    "attribute of a function": ("def f(x): return f.n\nf.n = 1", "f.n = 1", "f.n = 2"),
    "a text that a name is made of": (
        "import lib\nK = 'one'\ndef f(x): return getattr(lib, 'rule_' + K)(x)",
        "K = 'one'",
        "K = 'two'",
    ),
    "log line that changes something": (
        "import logging\nlog = logging.getLogger('x')\ndef f(x):\n    log.info('%s', 1)\n    return x",
        "1",
        "x.pop()",
    ),
    "log line that may fail": (
        "import logging\nlog = logging.getLogger('x')\ndef f(x):\n    log.info('%s', 1)\n    return x",
        "1",
        "never_bound",
    ),
    "a logger that is none": (
        "class L:\n    def info(self, x): x.append(1)\nlog = L()\ndef f(x):\n    log.info(x)\n    return x",
        "    log.info(x)\n",
        "",
    ),
    "annotation that makes a name local": (
        "N = 1\ndef f(x):\n    y = x\n    return y + N",
        "    y = x",
        "    y = x\n    N: int",
    ),
    "docstring that is read": ("def f(x):\n    'a'\n    return f.__doc__", "'a'", "'b'"),
    "name of a local that is read": (
        "def f(x):\n    y = x\n    return sorted(locals())",
        "y = x",
        "z = x",
    ),
    "line number that is read": (
        "import traceback\ndef f(x): return traceback.format_exc()",
        "import traceback",
        "import traceback\n\n",
    ),
    "name of a local in the text of a query": (
        "def f(x):\n    low = 1\n    return x.query('a > @low')",
        "low = 1",
        "top = 1",
    ),
    "name of a local in an expression of numexpr": (
        "def f(x):\n    import numexpr\n    low = 1\n    return numexpr.evaluate('low * 2')",
        "low = 1",
        "top = 1",
    ),
    "helper that an inner parameter hides": (
        "def h(a): return a + 1\ndef f(x):\n    def inner(h): return h(1)\n    return inner(str)",
        "return h(1)",
        "return 1 + 1",
    ),
    "helper that falls off its end": (
        "def g(x):\n    if x:\n        return 1\ndef f(x):\n    if x > 3:\n        return g(x)\n    return 2",
        "        return g(x)",
        "        if x:\n            return 1",
    ),
    "global that a helper changes": (
        "N = [1]\ndef h(n):\n    N.append(2)\n    return len(N) + n\ndef f(x): return h(len(N))",
        "    N.append(2)\n    return len(N) + n",
        "    m = len(N)\n    N.append(2)\n    return len(N) + m",
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_whatever_a_result_depends_on_counts(script: ScriptIn, name: str) -> None:
    text, old, new = OTHER[name]
    assert text.count(old) == 1
    lib = "def rule_one(x): return 1\ndef rule_two(x): return 2\n"
    before = script(text, lib_py=lib)

    assert before.code != script(text.replace(old, new), lib_py=lib).code
    assert before.code == script(text, lib_py=lib).code
    assert not before.code.startswith(OPAQUE)


BASE = """import logging
log = logging.getLogger("job")
RATE = 3

def inner(x):
    # a comment
    y = x + RATE
    return y * 2

def f(x):
    total = 0
    for step in [x, 2]:
        total += inner(step)
    result = total + len(str(total))
    return result
"""
SAME = {
    "comment": ("    # a comment\n", "    # another\n\n"),
    "docstring": ("def f(x):\n", 'def f(x):\n    """What it does."""\n'),
    "log line": (
        "    total = 0\n",
        '    total = 0\n    log.info("at %s", x)\n    print("here", x)\n',
    ),
    "hints": ("def inner(x):", "def inner(x: int) -> 'list[str]':"),
    "hint of a local": ("total = 0", "total: int = 0"),
    "local": ("total", "whole"),
    "format": ("[x, 2]", "[\n        x,\n        2,\n    ]"),
    "unused": ("RATE = 3\n", "RATE = 3\nOTHER = 4\ndef unused(x): return x\nimport textwrap\n"),
    "value in a name": ("    return y * 2", "    z = y * 2\n    return z"),
    "a helper of statements": (
        "    result = total + len(str(total))\n    return result\n",
        "    return rest(total)\n\ndef rest(t):\n    found = t + len(str(t))\n    return found\n",
    ),
    "a helper of an expression": (
        "        total += inner(step)",
        "        total += again(step)",
    ),
}


PATTERN = "import re\nPATTERN = re.compile('a')\n"
COUNTED = """import logging
log = logging.getLogger("job")

def f(x):
    parts = [one for one in x]
    return sorted(parts)
"""


@pytest.mark.parametrize("with_pattern", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_another_wording_is_the_same_code(
    script: ScriptIn, name: str, *, with_pattern: bool
) -> None:
    old, new = SAME[name]
    base = BASE.replace("    total = 0\n", "    total = 0\n    PATTERN.match('a')\n")
    base = PATTERN + base if with_pattern else BASE
    text = base.replace(old, new)
    assert text != base
    if "again" in new:
        text += "\ndef again(y): return inner(y)\n"

    assert script(text).code == script(base).code


def test_a_module_with_a_pattern_may_have_another_wording(script: ScriptIn) -> None:
    lib = f"{PATTERN}def g(x):\n    y = x\n    return PATTERN.sub('b', y + '1')\n"
    use = "import lib\ndef f(x): return lib.g(x)"
    new = lib.replace("def g(x):", "def g(x: str) -> str:\n    'Replace.'").replace("y", "z")

    assert new.count("z") == 2
    assert script(use, lib_py=new).code == script(use, lib_py=lib).code


@pytest.mark.parametrize(
    ("parts", "is_same"),
    [
        ("parts = [one for one in x]", True),
        ("parts = (one for one in x)", False),
        ("parts = x", False),
        ("global parts\n    parts = [one for one in x]", False),
        ("try: parts = []\n    except OSError as parts: pass", False),
        ("parts = [one for one in x]\n    for parts in x: pass", False),
    ],
)
def test_a_log_line_may_have_the_length_of_a_list(
    script: ScriptIn, parts: str, *, is_same: bool
) -> None:
    base = COUNTED.replace("parts = [one for one in x]", parts)
    text = base.replace("    return", "    log.info('%s of %s', len(parts), x)\n    return")

    assert (script(text).code == script(base).code) is is_same


def test_the_length_of_an_argument_may_fail(script: ScriptIn) -> None:
    base = COUNTED.replace("parts = [", "if len(x) > 3: x = [").replace("parts)", "x)")
    text = base.replace("    return", "    log.info('%s', len(x))\n    return")

    assert script(text).code != script(base).code


def test_the_length_of_a_log_line_is_pythons(script: ScriptIn) -> None:
    base = COUNTED.replace("def f", "def len(x): x.append(1)\n\ndef f")
    text = base.replace("    return", "    log.info('%s', len(parts))\n    return")

    assert script(text).code != script(base).code


LIB = """import logging
import json
from pathlib import Path
log = logging.getLogger(__name__)
LIMIT = 3
SEEN = []
TABLE = json.loads((Path(__file__).parent / "table.json").read_text())

def register(g):
    SEEN.append(g.__name__)
    return g

@register
def one(x):
    return x

def scaled(x):
    return x * LIMIT + len(SEEN) + TABLE["a"]

def unused(x):
    return x
"""
USES = {
    "loaded": "import lib\ndef f(x): return lib.scaled(x)",
    "taken out": "from lib import scaled\ndef f(x): return scaled(x)",
    "not loaded": "def f(x):\n    import lib\n    return lib.scaled(x)",
}


@pytest.mark.parametrize("use", USES)
def test_of_a_module_counts_what_its_import_runs_and_what_is_named(
    script: ScriptIn, use: str
) -> None:
    table = '{"a": 1}'
    before = script(USES[use], lib_py=LIB, table_json=table)

    for old, new, is_same in (
        ("return x\n\ndef scaled", "return -x\n\ndef scaled", False),
        ("@register\n", "", False),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("x * LIMIT", "x + LIMIT", False),
        ("def unused(x):\n    return x", "def unused(x):\n    return 9", True),
        ("    return x * LIMIT", "    log.info('here')\n    return x * LIMIT", True),
        ("def scaled(x):", "def scaled(x: int) -> int:\n    '''Scale.'''", True),
    ):
        assert old in LIB
        after = script(USES[use], lib_py=LIB.replace(old, new), table_json=table)
        assert (after.code == before.code) is is_same, old
        assert after.pieces == before.pieces
    other = script(USES[use], lib_py=LIB, table_json='{"a": 2}')
    assert before.pieces.keys() == {"file table.json"}
    assert other.pieces != before.pieces


def test_a_module_of_the_same_script_counts_when_it_shadows_nothing(script: ScriptIn) -> None:
    before = script("import lib\ndef f(x): return lib.g(x)", lib_py="def g(x): return 1")

    assert (
        before.code
        != script("import lib\ndef f(x): return lib.g(x)", lib_py="def g(x): return 2").code
    )


def test_variables_of_the_environment_count_by_their_names(
    script: ScriptIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os\ndef f(x): return os.environ['RATE'], os.getenv('LEVEL', 1), 'DEBUG' in os.environ"
    monkeypatch.setenv("RATE", "1")
    before = script(text)
    monkeypatch.setenv("OTHER", "1")
    assert script(text) == before
    monkeypatch.setenv("RATE", "2")
    after = script(text)

    assert before.pieces.keys() == {"environment RATE", "environment LEVEL", "environment DEBUG"}
    assert before.pieces["environment LEVEL"] == "not set"
    assert {name for name in before.pieces if before.pieces[name] != after.pieces[name]} == {
        "environment RATE"
    }
    assert "1" not in before.pieces.values()


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("import os\ndef f(x): return os.environ[x]", "environment"),
        ("import os\ndef f(x): return dict(os.environ)", "environment"),
        ("import os\ndef f(x): return os.environ.get('A'), os.environ.items()", "environment"),
        ("import os\ndef f(x): return os.path.expandvars(x)", "environment"),
        ("def f(x): return open(x).read()", "files"),
        ("def g(p): return open(p).read()\ndef f(x): return g(x)", "files"),
        ("import os\ndef g(k): return os.environ[k]\ndef f(x): return g(x)", "environment"),
        ("from pathlib import Path\ndef f(x): return Path(x).read_text()", "files"),
    ],
)
def test_a_read_by_a_computed_name_is_no_known_piece(
    script: ScriptIn, text: str, piece: str
) -> None:
    assert script(text).pieces[piece].startswith(OPAQUE)


READ = "import json\nfrom pathlib import Path\nHERE = Path('.').resolve()\nNAME = 'a.json'\nALL = ('a.json', 'b.json')\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return open('a.json').read(), open('b' + '.json').read()",
        "def f(x): return open('a.json').read(), open(f'{x}.json').read()",
        "def f(x): return [(HERE / one).read_text() for one in ('a.json', x)]",
        "def f(x): return open('a.json').read(), [p.name for p in HERE.iterdir()]",
        "def g(p): return open(p).read()\ndef f(x): return g('a.json'), g(x)",
        "def f(x):\n    p = 'a.json'\n    if x: p = x\n    return open(p).read()",
    ],
)
def test_a_read_by_a_computed_name_beside_a_literal_is_no_known_piece(
    script: ScriptIn, text: str
) -> None:
    found = script(READ + text, a_json="1", b_json="2").pieces

    assert "file a.json" in found
    assert found["files"].startswith(OPAQUE)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return open('a.json').read()",
        "def f(x): return (HERE / NAME).read_text()",
        "def f(x): return open(Path(__file__).with_name('a.json')).read()",
        "def f(x): return [open(HERE / one).read() for one in ALL]",
        "def g(p): return open(p).read()\ndef f(x): return g('a.json'), g(p='b.json')",
        "def g(p='a.json'): return open(p).read()\ndef f(x): return g()",
        "class R:\n    def __init__(self, p): self.p = p\nr = R('a.json')\ndef f(x): return open(r.p).read()",
        "import os\ndef f(x):\n    p = os.path.join(str(HERE), NAME)\n    with open(p) as file: return json.load(file)",
    ],
)
def test_a_read_through_variables_and_parameters_is_known_by_its_literal(
    script: ScriptIn, text: str
) -> None:
    found = script(READ + text, a_json="1", b_json="2").pieces

    assert "file a.json" in found
    assert "files" not in found


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("import os\ndef f(x): return getattr(os, 'envi' + 'ron')['A']", "environment"),
        ("import os\ndef f(x): return os.popen('echo $A').read()", "other programs"),
        ("import subprocess\ndef f(x): return subprocess.run(x)", "other programs"),
        ("import os\ndef f(x): return os.listdir('.')", "files"),
    ],
)
def test_what_code_reads_around_its_names_is_no_known_piece(
    script: ScriptIn, text: str, piece: str
) -> None:
    assert script(text).pieces[piece].startswith(OPAQUE)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): open(x, 'w').write('a')",
        "def f(x): open(x, mode='ab').write('a')",
        "from pathlib import Path\ndef f(x): Path(x).open('a').write('a')",
    ],
)
def test_a_file_that_is_written_is_no_piece(script: ScriptIn, text: str) -> None:
    assert not script(text).pieces


def test_variables_that_spark_gives_its_workers_count_by_their_names(
    script: ScriptIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os, datetime\ndef f(x): return os.environ['RATE'], datetime.datetime.fromtimestamp(x)"

    def pieces(**variables: str) -> dict[str, str]:
        active = SimpleNamespace(environment={"PYTHONHASHSEED": "0", **variables})
        spark = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=active))
        monkeypatch.setitem(sys.modules, "pyspark", spark)
        return dict(script(text).pieces)

    before = pieces(RATE="1")
    assert pieces(RATE="1", OTHER="2") == before
    for variables, differing in (
        ({"RATE": "2"}, "environment RATE"),
        ({}, "environment RATE"),
        ({"RATE": "1", "TZ": "Asia/Tokyo"}, "time zone"),
    ):
        after = pieces(**variables)
        assert {name for name in before if before[name] != after[name]} == {differing}


def test_the_zone_counts_where_code_works_with_times(
    script: ScriptIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        found.append(script("import datetime\ndef f(x): return datetime.datetime.fromtimestamp(x)"))
    monkeypatch.undo()
    time.tzset()

    assert found[0].code == found[1].code
    assert found[0].pieces["time zone"] != found[1].pieces["time zone"]


def test_an_installed_package_counts_by_its_recorded_files(
    script: ScriptIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.driver.code import code_world

    site = tmp_path / "site-packages"
    notes = site / "some_lib-1.0.dist-info"
    notes.mkdir(parents=True)
    (site / "somelib.py").write_text("def g(x): return x\n")
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: some_lib\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    found = []
    for digest in ("sha256=a", "sha256=b"):
        (notes / "RECORD").write_text(
            f"somelib.py,{digest},9\nsome_lib-1.0.dist-info/INSTALLER,sha256={os.urandom(2).hex()},4\n"
        )
        code_world._distribution.cache_clear()
        code_world._distributions_of.cache_clear()
        found.append(script("import somelib\ndef f(x): return somelib.g(x)"))
        sys.modules.pop("somelib", None)

    assert found[0].pieces.keys() == {"package some-lib"}
    assert found[0].pieces != found[1].pieces
    assert found[0].code == found[1].code


def test_an_installed_file_that_was_edited_in_place_counts_by_its_content(
    script: ScriptIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.driver.code import code_world

    site = tmp_path / "site-packages"
    notes = site / "some_lib-1.0.dist-info"
    notes.mkdir(parents=True)
    file, text = site / "somelib.py", b"def g(x): return x\n"
    sha = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    file.write_bytes(text)
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: some_lib\nVersion: 1.0\n")
    (notes / "RECORD").write_text(
        f"somelib.py,sha256={sha},{len(text)}\nsome_lib-1.0.dist-info/RECORD,,\n"
    )
    monkeypatch.syspath_prepend(str(site))

    def seen() -> Mapping[str, str]:
        code_world._distribution.cache_clear()
        code_world._distributions_of.cache_clear()
        sys.modules.pop("somelib", None)
        return script("import somelib\ndef f(x): return somelib.g(x)").pieces

    recorded = (notes / "RECORD").stat().st_mtime_ns
    installed = seen()
    os.utime(file, ns=(recorded + 10**9, recorded + 10**9))
    touched = seen()
    file.write_bytes(text.replace(b"return x", b"return 1"))
    edited = seen()
    file.write_bytes(text.replace(b"return x", b"return x + 1"))
    os.utime(file, ns=(recorded, recorded))
    longer = seen()

    assert installed == touched
    assert len({one["package some-lib"] for one in (installed, edited, longer)}) == 3


@pytest.mark.parametrize(
    "record",
    [
        "/dev/zero,sha256=a,1\n",
        "somelib.py,sha256=a\n",
        "some\0lib.py,sha256=a,1\n",
        '"some,lib.py",sha256=a,1\n',
    ],
)
def test_a_hostile_record_of_a_package_neither_hangs_nor_fails(
    script: ScriptIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    from airflow_streaming.driver.code import code_world

    site = tmp_path / "site-packages"
    notes = site / "some_lib-1.0.dist-info"
    notes.mkdir(parents=True)
    (site / "somelib.py").write_text("def g(x): return x\n")
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: some_lib\nVersion: 1.0\n")
    (notes / "RECORD").write_text(f"{record}somelib.py,sha256=b,9\n")
    monkeypatch.syspath_prepend(str(site))
    code_world._distribution.cache_clear()
    code_world._distributions_of.cache_clear()

    found = script("import somelib\ndef f(x): return somelib.g(x)")
    sys.modules.pop("somelib", None)

    assert found.pieces["package some-lib"].startswith("1.0 ")


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("decimal.getcontext().prec = 5", True),
        ("json.dumps = str", True),
        ("setattr(json, 'dumps', str)", True),
        ("def main():\n    lib.configure(5)", True),
        ("import patches", True),
        ("import quiet", False),
        ("print(json.dumps(1))", False),
        ("import logging\nlogging.basicConfig()", False),
    ],
)
def test_what_a_script_changes_in_the_driver_counts_for_a_function_that_runs_there(
    script: ScriptIn, line: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decimal.getcontext(), "prec", 28)
    monkeypatch.setattr(json, "dumps", json.dumps)
    modules = {
        "lib_py": "def configure(x): pass\n",
        "patches_py": "import json\njson.extra = 1\n",
        "quiet_py": "VALUE = 1\n",
    }
    found = []
    for more in ("pass", line):
        text = f"import decimal, json, lib\n{more}\ndef f(x, n): return json.dumps(x)\n"
        found.append(script(text, in_driver=True, **modules))

    assert (found[0].code != found[1].code) is counts


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("def f(x, n): open('rows.json', 'a').write('a')", set()),
        ("import sqlite3\ndef f(x, n): sqlite3.connect('rows.json')", set()),
        ("def f(x, n): return open('rows.json').read()", {"file rows.json"}),
        ("def f(x, n): return open('other.json').read()", {"files"}),
    ],
)
def test_a_file_that_the_function_of_a_sink_writes_is_no_input(
    script: ScriptIn, text: str, pieces: set[str]
) -> None:
    assert script(text, in_driver=True, rows_json="1").pieces.keys() == pieces
