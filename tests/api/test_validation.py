# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A request that is not what it must be is refused in one sentence that says why."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.api.routes import ROUTES, HistoryQuery
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import (
    Acknowledgement,
    ByHand,
    PolicyChange,
    Progress,
    Request,
    Submission,
)
from tf_malleable.api.validation import decode_body, decode_query

BODIES = [route.body for route in ROUTES if route.body is not None]

ALL = (
    "min, preferred, max, priority, weight, mem, name, command, gpus, output, time_limit,"
    " expected, after, array, at_once, area, kill_leftovers, between, days,"
    " after_ok, group, slo, queue, running"
)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{}", "name is missing; it must be a string of 1 to 200 printable characters"),
        ('{"name": ""}', 'name must be a string of 1 to 200 printable characters, not ""'),
        ('{"name": 7}', "name must be a string of 1 to 200 printable characters, not 7"),
        ('{"min": 0}', "min must be an integer from 1 to 65536, not 0"),
        ('{"min": 1.5}', "min must be an integer from 1 to 65536, not 1.5"),
        ('{"min": 1e999}', "min must be an integer from 1 to 65536, not 1e999"),
        ('{"min": true}', "min must be an integer from 1 to 65536, not true"),
        ('{"min": "4"}', 'min must be an integer from 1 to 65536, not "4"'),
        ('{"max": -1}', "max must be an integer from 1 to 65536 or null, not -1"),
        ('{"max": []}', "max must be an integer from 1 to 65536 or null, not []"),
        ('{"priority": 1001}', "priority must be an integer from -1000 to 1000, not 1001"),
        ('{"weight": 0}', "weight must be a number above 0 up to 1000, not 0"),
        ('{"gpus": -1}', "gpus must be an integer from 0 to 1024, not -1"),
        ('{"queue": 1}', "queue must be true or false, not 1"),
        ('{"command": null}', "command must be a list of at most 256 entries, not null"),
        ('{"command": ["a", 2]}', "command[1] must be a string of at most 4096 characters"),
        ('{"name": "a", "pid": 1}', f'there is no field "pid"; there are {ALL}'),
        ('{"name": "a", "`": 1}', f'there is no field "`"; there are {ALL}'),
        ("[1, 2]", f"the body must be a JSON object with {ALL}, not [1, 2]"),
        ("null", f"the body must be a JSON object with {ALL}, not null"),
        ("", f"the body must be a JSON object with {ALL}: it is empty"),
        ("{", f"the body must be a JSON object with {ALL}: input data was truncated"),
        ("{]", f"the body must be a JSON object with {ALL}: object keys must be strings (byte 1)"),
    ],
)
def test_a_submission_that_cannot_be(body, sentence):
    with pytest.raises(Refusal) as caught:
        decode_body(body.encode(), Submission)
    assert caught.value.status == 400
    assert caught.value.sentence == sentence


def test_what_was_sent_is_shown_in_part_if_it_is_long():
    body = json.dumps({"name": "x" * 201, "min": 1}).encode()
    with pytest.raises(Refusal) as caught:
        decode_body(body, Submission)
    shown = '"' + "x" * 58 + "…"
    allowed = "a string of 1 to 200 printable characters"
    assert caught.value.sentence == f"name must be {allowed}, not {shown}"


def test_what_is_allowed_is_taken():
    body = b'{"name":"a","command":["b"],"min":1,"preferred":2,"max":null,"weight":1,"queue":false}'
    assert decode_body(body, Submission) == Submission(
        name="a", command=["b"], preferred=2, queue=False
    )
    assert decode_body(b"{}", Progress) == Progress()
    assert decode_body(b'{"cores":null}', ByHand) == ByHand(None)
    assert decode_body(b'{"serial":3}', Acknowledgement) == Acknowledgement(3, True)


def test_a_field_that_is_missing_says_what_it_must_be():
    for kind, sentence in (
        (ByHand, "cores is missing; it must be an integer from 1 to 65536 or null"),
        (PolicyChange, "policy is missing; it must be a string of 1 to 200 printable characters"),
        (Acknowledgement, "serial is missing; it must be an integer from 0 to 9007199254740992"),
    ):
        with pytest.raises(Refusal) as caught:
            decode_body(b"{}", kind)
        assert caught.value.sentence == sentence


@pytest.mark.parametrize("field", ["name", "area", "mem"])
def test_nothing_ends_in_a_newline(field):
    body = {"name": "x", field: "4G\n"}
    with pytest.raises(Refusal, check=lambda e: e.sentence.startswith(f"{field} must be")):
        decode_body(json.dumps(body).encode(), Submission)
    decode_body(json.dumps({**body, field: "4G"}).encode(), Submission)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ([("limit", "0")], "limit must be an integer from 1 to 100000, not 0"),
        ([("limit", "many")], 'limit must be an integer from 1 to 100000, not "many"'),
        ([("limit", "")], 'limit must be an integer from 1 to 100000, not ""'),
        ([("limit", "9" * 99)], "limit must be an integer from 1 to 100000, not " + '"' + "9" * 58),
        ([("limit", "1.0")], "limit must be an integer from 1 to 100000, not 1.0"),
        ([("limit", "true")], "limit must be an integer from 1 to 100000, not true"),
        ([("spans", "1")], "spans must be true or false, not 1"),
        ([("spans", "yes")], 'spans must be true or false, not "yes"'),
        ([("limit", "1"), ("limit", "2")], 'the parameter "limit" is given twice'),
        ([("page", "1")], 'there is no parameter "page"; there are limit, spans, since'),
    ],
)
def test_parameters_that_cannot_be(query, sentence):
    with pytest.raises(Refusal) as caught:
        decode_query(query, HistoryQuery)
    assert caught.value.status == 400
    assert caught.value.sentence.removesuffix("…") == sentence


@pytest.mark.parametrize("body", [b'{"elastic":{}}', b'{"elastic":3}'])
def test_an_object_within_an_object_says_what_it_has(body):
    with pytest.raises(Refusal) as caught:
        decode_body(body, Progress)
    said = str(caught.value)
    assert said.startswith("elastic must be an object with workers, servers, generation,")
    assert " or null, not " in said


def test_parameters_that_can_be():
    assert decode_query([], HistoryQuery) == HistoryQuery(1000, False)
    assert decode_query([("spans", "true"), ("limit", "7")], HistoryQuery) == HistoryQuery(7, True)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(sorted({name for kind in BODIES for name in kind.__struct_fields__}))


@pytest.mark.slow
@given(
    kind=st.sampled_from(BODIES),
    body=st.binary(max_size=40)
    | st.builds(lambda fields: json.dumps(fields).encode(), values)
    | st.builds(
        lambda fields: json.dumps(fields).encode(),
        st.dictionaries(names | st.text(max_size=3), values, max_size=5),
    ),
)
def test_any_bytes_are_a_message_or_are_refused_in_one_line(kind: type[Request], body):
    refusal = None
    try:
        message = decode_body(body, kind)
    except Refusal as raised:
        refusal = raised
    if refusal is None:
        assert msgspec.convert(json.loads(body), type=kind) == message
    else:
        assert refusal.status == 400
        assert len(refusal.sentence.splitlines()) == 1
        assert "`" not in refusal.sentence or b"`" in body


@pytest.mark.parametrize("kind", BODIES)
def test_deep_nesting_is_refused(kind):
    field = kind.__struct_fields__[0]
    for body in (b"[" * 100_000, f'{{"{field}":{"[" * 100_000}{"]" * 100_000}}}'.encode()):
        with pytest.raises(Refusal) as caught:
            decode_body(body, kind)
        assert len(caught.value.sentence) < 400


def test_a_name_that_would_write_to_the_terminal_is_refused():
    with pytest.raises(Refusal) as refusal:
        decode_body(b'{"name": "red \\u001b[31m"}', Submission)
    assert refusal.value.sentence == (
        'name must be a string of 1 to 200 printable characters, not "red \\u001b[31m"'
    )


def test_memory_is_bytes_or_a_text_with_a_unit():
    for said, size in (("4294967296", 4 << 30), ('"4G"', 4 << 30), ('"512m"', 512 << 20)):
        body = f'{{"name": "a", "mem": {said}}}'.encode()
        assert decode_body(body, Submission).request.mem == size
    assert decode_body(b'{"name": "a", "mem": null}', Submission).request.mem is None


@pytest.mark.parametrize("said", ["0", "1048575", "1125899906842625", '"4"', '"4GB"', '"G"', "[]"])
def test_what_is_no_amount_of_memory_is_refused(said):
    with pytest.raises(Refusal) as caught:
        decode_body(f'{{"name": "a", "mem": {said}}}'.encode(), Submission)
    sentence = caught.value.sentence
    assert sentence.startswith("mem must be ")
    assert sentence.endswith(f", not {said}")
    for allowed in ("an integer from 1048576 to 1125899906842624", "a size such as 512M or 4G"):
        assert allowed in sentence


@pytest.mark.parametrize("said", ['"1K"', '"0G"', '"2048T"'])
def test_too_little_or_too_much_memory_is_refused_with_a_unit_too(said):
    submission = decode_body(f'{{"name": "a", "mem": {said}}}'.encode(), Submission)
    with pytest.raises(ValueError, match="mem must be an integer from 1048576 to"):
        _ = submission.request
