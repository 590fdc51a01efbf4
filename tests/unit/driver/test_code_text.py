"""The walks and copies of syntax trees, against those of Python."""

from __future__ import annotations

import ast
import copy
import inspect
import json.decoder
import textwrap
import typing

import pytest

from airflow_streaming.driver.code.code_text import copied, nodes_of, texts_in


@pytest.fixture(
    params=[ast, copy, inspect, json.decoder, textwrap, typing], ids=lambda m: m.__name__
)
def tree(request: pytest.FixtureRequest) -> ast.Module:
    return ast.parse(inspect.getsource(request.param))


def test_the_nodes_and_their_order_are_pythons(tree: ast.Module) -> None:
    assert nodes_of(tree) == [*ast.walk(tree)]


def test_a_copy_equals_its_tree_and_shares_no_node_that_may_change(tree: ast.Module) -> None:
    before = ast.dump(tree, include_attributes=True)
    found = copied(tree)
    assert ast.dump(found, include_attributes=True) == before

    for one, _ in texts_in(found):
        one.value = "another"
    for node in ast.walk(found):
        if isinstance(node, ast.Name):
            node.id = "another"
    assert ast.dump(found) != ast.dump(tree)
    assert ast.dump(tree, include_attributes=True) == before
