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
    ],
)
def test_a_line_that_may_do_something_counts(script: ScriptIn, line: str) -> None:
    assert script(with_line(line)).code != script(BASE).code
