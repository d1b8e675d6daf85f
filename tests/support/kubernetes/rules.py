# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Validation rules in CEL: the part of the language that rules of our CRDs use.

A rule is parsed into a tree, held against the schema of what it is about (a field
that the schema has not is an error there, as in a real server), and evaluated.
What this does not know it refuses, rather than take for true.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.kubernetes import quantities

Node = tuple[Any, ...]
Schema = dict[str, Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]]))"
)
_BINDING = {"||": 2, "&&": 3} | dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4)
_BINDING |= dict.fromkeys("+-", 5) | dict.fromkeys("*/%", 6)
_CONSTANTS = {"true": True, "false": False, "null": None}
_MACROS = ("all", "exists", "exists_one", "filter", "map")


class RuleError(Exception):
    """A rule that cannot be parsed, is about no such field, or cannot be evaluated."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise RuleError(f"Syntax error: token recognition error at: {text[at:]!r}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._tokens.append(("end", ""))

    def parse(self) -> Node:
        tree = self._expression()
        self._take("")
        return tree

    def _next(self) -> str:
        return self._tokens[0][1]

    def _take(self, wanted: str | None = None) -> tuple[str, str]:
        token = self._tokens.pop(0)
        if wanted is not None and token[1] != wanted:
            raise RuleError(f"Syntax error: {wanted or 'the end'!r} expected, not {token[1]!r}")
        return token

    def _expression(self) -> Node:
        tree = self._binary(2)
        if self._next() != "?":
            return tree
        self._take()
        yes = self._expression()
        self._take(":")
        return ("if", tree, yes, self._expression())

    def _binary(self, lowest: int) -> Node:
        left = self._unary()
        while (binding := _BINDING.get(self._next(), 0)) >= lowest:
            operator = self._take()[1]
            left = ("op", operator, left, self._binary(binding + 1))
        return left

    def _unary(self) -> Node:
        if self._next() in ("!", "-") and self._tokens[0][0] == "sign":
            return ("unary", self._take()[1], self._unary())
        tree = self._primary()
        while self._next() in (".", "["):
            if self._take()[1] == "[":
                tree = ("index", tree, self._expression())
                self._take("]")
                continue
            name = self._take()[1]
            if self._next() == "(":
                tree = ("call", name, tree, *self._arguments(")"))
            else:
                tree = ("select", tree, name)
        return tree

    def _primary(self) -> Node:
        kind, text = self._take()
        if kind == "number":
            return ("value", float(text) if "." in text else int(text))
        if kind == "text":
            return ("value", re.sub(r"\\(.)", r"\1", text[1:-1]))
        if text in _CONSTANTS:
            return ("value", _CONSTANTS[text])
        if kind == "name":
            return (
                ("call", text, None, *self._arguments(")")) if self._next() == "(" else (kind, text)
            )
        if text == "(":
            tree = self._expression()
            self._take(")")
            return tree
        if text == "[":
            self._tokens.insert(0, ("sign", "["))
            return ("list", *self._arguments("]"))
        raise RuleError(f"Syntax error: unexpected {text or 'end'!r}")

    def _arguments(self, end: str) -> list[Node]:
        self._take()
        arguments: list[Node] = []
        while self._next() != end:
            if arguments:
                self._take(",")
            arguments.append(self._expression())
        self._take(end)
        return arguments


@dataclass(frozen=True)
class Rule:
    """A parsed rule.

    Attributes:
        transition: It is about a change, so nothing is asked of what is new.
    """

    text: str
    tree: Node
    transition: bool

    def evaluate(self, new: Any, old: Any = None) -> Any:
        """Return what it says of a value, and of what this was.

        Raises:
            RuleError: It cannot be evaluated, as when a field is not there.
        """
        return _evaluate(self.tree, {"self": new, "oldSelf": old})


def parse(text: str) -> Rule:
    """Return a rule.

    Raises:
        RuleError: It cannot be parsed.
    """
    return Rule(text, _Parser(text).parse(), re.search(r"\boldSelf\b", text) is not None)


def check(rule: Rule, schema: Schema) -> None:
    """Check that a rule is about fields that a schema has.

    Raises:
        RuleError: It names another.
    """
    _type(rule.tree, {"self": schema, "oldSelf": schema})


def _type(tree: Any, names: dict[str, Schema | None]) -> Schema | None:
    """Return the schema of what a tree stands for; None if it could be anything."""
    if not isinstance(tree, tuple):
        return None
    if tree[0] == "name":
        if tree[1] not in names:
            raise RuleError(f"undeclared reference to '{tree[1]}'")
        return names[tree[1]]
    if tree[0] == "select":
        schema = _type(tree[1], names)
        if schema is None or "properties" not in schema:
            if schema is not None and schema.get("type") in ("integer", "string", "boolean"):
                raise RuleError(f"type '{schema['type']}' does not support field selection")
            return (schema or {}).get("additionalProperties")
        if tree[2] not in schema["properties"]:
            raise RuleError(f"undefined field '{tree[2]}'")
        found: Schema = schema["properties"][tree[2]]
        return found
    if tree[0] == "index":
        schema = _type(tree[1], names) or {}
        return schema.get("items") or schema.get("additionalProperties")
    if tree[0] == "call" and tree[1] in _MACROS and tree[2] is not None:
        inner = (_type(tree[2], names) or {}).get("items")
        for argument in tree[4:]:
            _type(argument, {**names, tree[3][1]: inner})
        return None
    for part in tree[1:]:
        _type(part, names)
    return None


def _evaluate(tree: Node, names: dict[str, Any]) -> Any:
    kind = tree[0]
    if kind == "value":
        return tree[1]
    if kind == "name":
        return names[tree[1]]
    if kind == "list":
        return [_evaluate(one, names) for one in tree[1:]]
    if kind == "if":
        return _evaluate(tree[2] if _truth(_evaluate(tree[1], names)) else tree[3], names)
    if kind == "unary":
        value = _evaluate(tree[2], names)
        return not _truth(value) if tree[1] == "!" else -value
    if kind in ("select", "index"):
        holder = _evaluate(tree[1], names)
        return _member(holder, tree[2] if kind == "select" else _evaluate(tree[2], names))
    if kind == "op":
        return _logic(tree, names) if tree[1] in ("&&", "||") else _operate(tree, names)
    return _call(tree, names)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleError("no such overload")
    return value


def _member(holder: Any, name: Any) -> Any:
    try:
        return holder[name]
    except (KeyError, IndexError) as error:
        raise RuleError(f"no such key: {name}") from error
    except TypeError as error:
        raise RuleError("no such overload") from error


def _logic(tree: Node, names: dict[str, Any]) -> bool:
    """Evaluate && and ||, in which a side that decides hides an error of the other."""
    decides = tree[1] == "||"
    error: RuleError | None = None
    for side in tree[2:]:
        try:
            if _truth(_evaluate(side, names)) is decides:
                return decides
        except RuleError as caught:
            error = caught
    if error is not None:
        raise error
    return not decides


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    # Integers are divided towards zero.
    "/": lambda a, b: int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
    "%": lambda a, b: a - b * int(a / b),
}


def _operate(tree: Node, names: dict[str, Any]) -> Any:
    left, right = _evaluate(tree[2], names), _evaluate(tree[3], names)
    try:
        return _OPERATORS[tree[1]](left, right)
    except (TypeError, ZeroDivisionError) as error:
        raise RuleError(f"no such overload: {tree[1]}") from error


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": int,
    "double": float,
    "string": str,
    "quantity": quantities.parse,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "asApproximateFloat": float,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "isLessThan": lambda a, b: a < b,
    "isGreaterThan": lambda a, b: a > b,
}


def _call(tree: Node, names: dict[str, Any]) -> Any:
    name, target, arguments = tree[1], tree[2], tree[3:]
    if name == "has":
        if len(arguments) != 1 or arguments[0][0] != "select":
            raise RuleError("invalid argument to has() macro")
        holder = _evaluate(arguments[0][1], names)
        return isinstance(holder, dict) and arguments[0][2] in holder
    if name in _MACROS and target is not None:
        return _macro(name, _evaluate(target, names), arguments, names)
    values = [_evaluate(one, names) for one in ((target,) if target else ()) + arguments]
    if name not in _FUNCTIONS:
        raise RuleError(f"undeclared reference to '{name}'")
    try:
        return _FUNCTIONS[name](*values)
    except (TypeError, ValueError) as error:
        raise RuleError(f"{name}: {error}") from error


def _macro(name: str, over: Any, arguments: Node, names: dict[str, Any]) -> Any:
    found = [_evaluate(arguments[1], {**names, arguments[0][1]: one}) for one in over]
    if name == "map":
        return found
    if name == "filter":
        return [one for one, kept in zip(over, found, strict=True) if kept]
    return {"all": all(found), "exists": any(found), "exists_one": sum(found) == 1}[name]
