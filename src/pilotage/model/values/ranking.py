"""Ranking expressions over the servers of a computing element (P6): only arithmetic."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

NAMES = ("slots", "running", "waiting", "free")
"""The names in an expression. A server that does not report one has 0."""

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda first, second: first / second if second else 0.0,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[float], float]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_CALLS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


class RankError(ValueError):
    """An expression is not arithmetic over ``NAMES``."""


def rank(expression: str, values: Mapping[str, float]) -> float:
    """Return the value of an expression. Division by 0 gives 0. Raises ``RankError``."""
    try:
        return _value(_parsed(expression), values)
    except OverflowError as error:
        raise RankError(f"{expression!r} has a number that is too large") from error


@lru_cache(maxsize=1000)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise RankError(f"{expression!r} is no expression: {error}") from error


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in NAMES:
            return float(values.get(name, 0.0))
        case ast.BinOp(first, kind, second) if type(kind) in _BINARY:
            return _BINARY[type(kind)](_value(first, values), _value(second, values))
        case ast.UnaryOp(kind, operand) if type(kind) in _UNARY:
            return _UNARY[type(kind)](_value(operand, values))
        case ast.Call(ast.Name(id=name), [_, *_] as arguments, []) if name in _CALLS:
            return _CALLS[name](
                *[_value(argument, values) for argument in arguments], *([] if len(arguments) > 1 else [0])
            )
    raise RankError(f"{ast.unparse(node)!r} is no number, none of {', '.join(NAMES)}, and no + - * / min max")
