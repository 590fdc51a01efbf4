"""Annotations and log lines that a caller cannot see, and those that may do something."""

from __future__ import annotations

import pytest

from tests.unit.driver.test_code_closure import ScriptIn, script

__all__ = ["script"]

BASE = """import logging
log = logging.getLogger("job")
class Own(logging.Logger): pass
own = Own("own")
RATE = [3]

def f(x):
    total = [x]
    return total + RATE
"""
PRINTED = """import contextlib, io
def f(x):
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print('at')
    return buffer.getvalue()
"""
LOGGED = """import io, logging
log = logging.getLogger('job')
def f(x):
    buffer = io.StringIO()
    log.addHandler(logging.StreamHandler(buffer))
    log.error('at')
    return buffer.getvalue()
"""


def with_line(line: str) -> str:
    return BASE.replace("    return", f"    {line}\n    return")


@pytest.mark.parametrize(
    "line",
    [
        "total: list",
        "logging.info('at %s', x)",
        "log.warning('at %s', total)",
        "log.log(10, f'at {x}')",
        "log.error('bad', exc_info=True)",
    ],
)
def test_a_line_that_no_caller_sees_is_left_out(script: ScriptIn, line: str) -> None:
    assert script(with_line(line)).code == script(BASE).code


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("RATE: list", id="a global becomes a local"),
        pytest.param("log.setLevel(10)", id="no line of the log"),
        pytest.param("log.info('at %s', x.day)", id="an attribute may be missing"),
        pytest.param("log.info('at %s', x[0])", id="an item may be missing"),
        pytest.param("log.info(f'at {x:.2f}')", id="a format may fail"),
        pytest.param("own.info('at %s', x)", id="a logger of the user's class"),
        pytest.param("log.info('at %s', x, extra=RATE)", id="another keyword"),
        pytest.param("log.info('at %s', other)", id="an unknown name"),
        pytest.param("print('at', file=RATE)", id="printed elsewhere"),
        pytest.param("log.info('at %(a)s', x)", id="an item that a mapping may add"),
        pytest.param("log.info('at %s', time.time())", id="a clock that is not imported"),
    ],
)
def test_a_line_that_may_do_something_counts(script: ScriptIn, line: str) -> None:
    assert script(with_line(line)).code != script(BASE).code


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("log.info('at %s', x.day)", "log.info('on %s', x.day)", True),
        ("log.info('at %s', x.day)", "log.info('on %s', x.month)", False),
        ("log.log(10, 'at %s', x.day)", "log.log(10, 'on %s', x.day)", True),
        ("log.log(10, 'at %s', x.day)", "log.log('on', 'at %s', x.day)", False),
        ("log.info('at %s', x.day)", "log.info('at %(a)s', x.day)", False),
        ("log.info('at %s', x.day)", "log.info(4, x.day)", False),
        ("log.info('at %s', x.day)", "log.info('at', x.day)", False),
        ("log.info('at %s', x.day)", "log.info('at %5r', x.day)", False),
        ("print('at', x.day)", "print('on', x.day)", True),
    ],
)
def test_the_text_of_a_log_line_may_change_where_its_values_stay(
    script: ScriptIn, old: str, new: str, *, is_same: bool
) -> None:
    assert (script(with_line(old)).code == script(with_line(new)).code) is is_same


@pytest.mark.parametrize(
    ("branches", "flat", "is_same"),
    [
        (
            "    if x: return 1\n    elif total: return 2\n    else: total = 3\n",
            "    if x: return 1\n    if total: return 2\n    total = 3\n",
            True,
        ),
        (
            "    for y in total:\n        if y: continue\n        else: x = y\n",
            "    for y in total:\n        if y: continue\n        x = y\n",
            True,
        ),
        (
            "    if x: raise KeyError\n    else: x = 1\n",
            "    if x: raise KeyError\n    x = 1\n",
            True,
        ),
        (
            "    if x: x = 1\n    elif total: x = 2\n",
            "    if x: x = 1\n    if total: x = 2\n",
            False,
        ),
        ("    try: x = 1\n    finally: log.info('here')\n", "    x = 1\n", True),
        ("    try: x = 1\n    finally: x = 2\n", "    x = 1\n    x = 2\n", False),
        ("    try: x = 1\n    except KeyError: pass\n", "    x = 1\n", False),
    ],
)
def test_a_branch_after_a_block_that_leaves_may_stand_behind_it(
    script: ScriptIn, branches: str, flat: str, *, is_same: bool
) -> None:
    with_branches = BASE.replace("    return", branches + "    return")
    without = BASE.replace("    return", flat + "    return")

    assert (script(with_branches).code == script(without).code) is is_same


@pytest.mark.parametrize("text", [PRINTED, LOGGED], ids=["print", "log"])
def test_a_line_counts_where_code_reads_the_output(script: ScriptIn, text: str) -> None:
    assert script(text).code != script(text.replace("'at'", "'on'")).code
