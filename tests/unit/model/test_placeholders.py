"""Placeholders of arguments and statements."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from jinja2 import Template

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.placeholders import (
    LITERALLY,
    OF_ARGUMENTS,
    OF_STATEMENTS,
    check_placeholders,
    fill,
    placeholders_in,
)
from airflow_streaming.spec import StreamSpec


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{output}/x", "/lake/o/x"),
        ("{stream}{stream}", "ss"),
        ("${output}", "$/lake/o"),
        ('{"stream": "{stream}"}', '{"stream": "s"}'),
        ("{unknown} {} {0} { stream } {Stream}", "{unknown} {} {0} { stream } {Stream}"),
        ("{{stream}}", "{s}"),
    ],
)
def test_what_is_known_is_replaced_and_nothing_else(text: str, filled: str) -> None:
    assert fill(text, {"stream": "s", "output": "/lake/o"}) == filled


def test_a_value_is_not_filled_in_again() -> None:
    assert fill("{stream}", {"stream": "{output}", "output": "x"}) == "{output}"


def test_the_placeholders_of_a_text() -> None:
    assert placeholders_in("{lane} {x} {output}{lane}", OF_STATEMENTS) == ["lane", "output", "lane"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{outptu}", "output"),
        ("--out={outupt}", "output"),
        ("{chekcpoint}/x", "checkpoint"),
        ("{replay_form}", "replay_from"),
        ("{# a comment #}{straem}", "stream"),
    ],
)
def test_a_slip_is_refused_with_what_is_meant(text: str, meant: str) -> None:
    with pytest.raises(SpecError, match=rf"^args has \{{\w+\}}, .* mean \{{{meant}\}}\?"):
        check_placeholders("args", ["--plain", text], OF_ARGUMENTS, literally=LITERALLY)


@pytest.mark.parametrize(
    "text",
    [
        *("{output}", "{replay_from_ms}", "{date}/{hour}", "{name}", "{path}", "{table}", "{id}"),
        *('{"output": 1}', "{}", "{0}", "{stream_name}", "${HOME}", "{ outptu }", "{{ outptu }}"),
        *(
            "{team}",
            "{steam}",
            "{stream_id}",
            "{replay_to}",
            "{streams}",
            "{checkpoints}",
            "{Output}",
        ),
        *("@{outputs}", "{master}", "{lean}", "{# {outptu} #}", "{chekpoint}", "{# {outptu}\n#}"),
    ],
)
def test_a_scripts_own_braces_stay(text: str) -> None:
    check_placeholders("args", [text, 5, None], OF_ARGUMENTS, literally=LITERALLY)
    check_placeholders("sql", [text], OF_STATEMENTS, literally=LITERALLY)


def test_what_the_message_advises_is_taken_as_it_stands() -> None:
    spec = StreamSpec(
        name="orders",
        application="a.py",
        home="/h",
        runtime="r",
        application_args=["{output}", "{outptu}", "{{ xs['{outptu}'] }}"],
    )
    advised = "{{ '{outptu}' }}"
    with pytest.raises(SpecError, match=re.escape(advised)):
        spec.check_written()
    replace(spec, application_args=[advised]).check_written()
    assert Template(advised).render() == "{outptu}"
    replace(spec, application_args=("{outptu}",)).check()
