# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Every parser of what others write keeps its rules, whatever it reads.

`make fuzz` looks for inputs that break them: for a minute each in CI, and for as long as one likes
by hand. What it finds comes into the corpus, which is read here; the shim's is read in C++, by
cc/tests/tier_fuzz_test.cc. So here are the same few inputs each time.
"""

from __future__ import annotations

import pytest
from fuzz_parsers import SHIM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.malformed import malformed
from tests.support.parsers import CORPUS, PARSERS, check, seeds

EXAMPLES = 200


def test_every_parser_has_a_corpus():
    assert {path.name for path in CORPUS.iterdir()} == {*PARSERS, SHIM}


@pytest.mark.parametrize("name", PARSERS)
def test_the_corpus(name):
    for data in seeds(name):
        check(PARSERS[name], data)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_malformed_input(name):
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.one_of(malformed(seeds(name)), st.binary(max_size=256)))
    def holds(data):
        check(PARSERS[name], data)

    holds()
