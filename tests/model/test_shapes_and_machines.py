# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shapes that cannot be are refused; machines and grants count their CPUs."""

from __future__ import annotations

import pytest

from tf_malleable.model import NO_GRANT, Cpu, Grant, Machine, Shape


@pytest.mark.parametrize(("least", "preferred", "most"), [(1, 1, 1), (1, 4, 8), (3, 3, 9)])
def test_shapes_in_order(least, preferred, most):
    shape = Shape(least, preferred, most)
    assert (shape.min, shape.preferred, shape.max) == (least, preferred, most)


@pytest.mark.parametrize(
    ("least", "preferred", "most"), [(0, 1, 1), (-1, 1, 1), (2, 1, 3), (1, 4, 3), (5, 5, 4)]
)
def test_shapes_that_cannot_be(least, preferred, most):
    with pytest.raises(ValueError, match="1 ≤ min ≤ preferred ≤ max") as refused:
        Shape(least, preferred, most)
    assert f"min {least}, preferred {preferred}, max {most}" in str(refused.value)


def test_a_flat_machine_has_a_core_for_each_cpu():
    machine = Machine.flat(3)
    assert machine.cpuset == {0, 1, 2}
    assert [cpu.core for cpu in machine.cpus] == [0, 1, 2]
    assert {cpu.node for cpu in machine.cpus} == {0}


def test_what_is_left_of_a_machine():
    machine = Machine((Cpu(0, core=0, node=0), Cpu(5, core=0, node=0), Cpu(2, core=1, node=1)))
    left = machine.without(frozenset({0, 99}))
    assert left.cpuset == {5, 2}
    assert left.cpus == machine.cpus[1:]
    assert machine.cpuset == {0, 2, 5}
    assert machine.without(machine.cpuset).cpuset == frozenset()


def test_a_grant_owns_what_it_uses_and_what_it_lends():
    grant = Grant(frozenset({1}), frozenset({2, 3}))
    assert grant.own == {1, 2, 3}
    assert grant
    assert Grant(lent=frozenset({0}))
    assert not NO_GRANT
