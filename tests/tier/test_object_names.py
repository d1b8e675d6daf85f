# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objects and the paths that stand for them: one for each, and none outside its bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.tier.node_messages import area_and_path, key_of
from tf_malleable.tier.object_names import ObjectSource, ObjectTarget, file_of, paths_of, shown
from tf_malleable.tier.protocol import is_plain

KEYS = st.text(
    st.one_of(st.sampled_from("/.%-a"), st.characters(exclude_categories=("Cs",))), min_size=1
)


@given(KEYS, KEYS)
def test_each_object_has_a_path_of_its_own(one, other):
    try:
        path, second = file_of("data", one), file_of("data", other)
    except ValueError:
        # The longest name of a file, 255 bytes, less a mark; a % is written as three.
        parts = [part for key in (one, other) for part in key.split("/")]
        longest = max(len(part.replace("%", "%25").encode()) for part in parts)
        assert "\0" in one + other or longest > 250
        return
    assert is_plain(path)
    assert path.startswith("/s3:/data/")
    assert (path == second) == (one == other)
    # Neither is a folder on the way to the other.
    assert not path.startswith(f"{second}/")
    assert shown(path) == f"s3://data/{one}"
    assert area_and_path(key_of("private/1", path)) == ("private/1", path)


@given(KEYS)
def test_a_target_is_encoded_in_one_form(key):
    try:
        target = ObjectTarget.parse(
            ObjectTarget("data", key, (("prefix", key), ("uploads", None))).raw
        )
    except ValueError:
        assert "\0" in key or {".", ".."} & set(key.split("/"))
        return
    assert target == ("data", key, (("prefix", key), ("uploads", None)))


def test_the_signature_of_a_presigned_url_is_left_out():
    raw = "/data/x?X-Amz-Algorithm=AWS4&versionId=1&X-Amz-Signature=0&x-id=GetObject"
    assert ObjectTarget.parse(raw).raw == "/data/x?versionId=1&x-id=GetObject"


@pytest.mark.parametrize("prefix", ["", "a", "a/b"])
def test_a_source_has_the_objects_below_it(prefix):
    source = ObjectSource.parse(f"s3://data/{prefix}")
    assert str(source) == f"s3://data/{prefix}".rstrip("/")
    inner = f"{prefix}/x" if prefix else "x"
    assert source.has("data", inner)
    assert not source.has("other", inner)
    assert not (prefix and source.has("data", f"{prefix}x"))
    assert file_of("data", inner).startswith(f"{paths_of(str(source))[-1]}/")
