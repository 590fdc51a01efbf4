"""The walks and copies of syntax trees, against those of Python."""

from __future__ import annotations

import ast
import copy
import inspect
import json.decoder
import textwrap
import typing

import pytest

from airflow_streaming.driver.code.code_trees import copied, nodes_of, texts_in


@pytest.fixture(
    params=[ast, copy, inspect, json.decoder, textwrap, typing], ids=lambda m: m.__name__
)
def tree(request: pytest.FixtureRequest) -> ast.Module:
    return ast.parse(inspect.getsource(request.param))


_WITHOUT_PARTS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


def test_the_nodes_and_their_order_are_pythons_without_operators(tree: ast.Module) -> None:
    assert nodes_of(tree) == [
        node for node in ast.walk(tree) if not isinstance(node, _WITHOUT_PARTS)
    ]


def test_every_kind_of_node_is_walked_in_each_field_that_may_hold_nodes() -> None:
    text = """
match x:
    case {"a": [b, *c], **d} | A(1, e=f) as g if h: pass
async def i(j: k, /, l=m, *n, o=p, **q) -> r: await s; yield t
with u as v, w: global y
try: raise z from aa
except* ab as ac: del ad, ae
class af(ag, ah=ai): aj: ak = 1
al = {**am, an: (ao := ap)}, ~aq, ar[as_:at:au], f"{av!r:{aw}}", lambda ax: ay if az else ba
"""
    tree = ast.parse(text)
    assert nodes_of(tree) == [
        node for node in ast.walk(tree) if not isinstance(node, _WITHOUT_PARTS)
    ]


def test_a_copy_equals_its_tree_and_shares_no_node_that_may_change(tree: ast.Module) -> None:
    before = ast.dump(tree, include_attributes=True)
    found = copied(tree)
    assert ast.dump(found, include_attributes=True) == before

    for one, _ in texts_in(nodes_of(found)):
        one.value = "another"
    for node in ast.walk(found):
        if isinstance(node, ast.Name):
            node.id = "another"
    assert ast.dump(found) != ast.dump(tree)
    assert ast.dump(tree, include_attributes=True) == before
