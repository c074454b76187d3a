"""Checks of what callers pass: one line that names the value and what is allowed."""

import operator
from typing import Any


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int; ValueError if it is not a whole number in these bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        allowed = f"at least {least}" if most is None else f"{least}..{most}"
        raise ValueError(f"{name}={value!r}: a whole number, {allowed}, is allowed")
    return number


def check_one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """ValueError, naming the value and what is allowed, unless it is one of these."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: allowed are {', '.join(map(repr, allowed))}")
