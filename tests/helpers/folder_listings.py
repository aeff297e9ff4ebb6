"""Notices which folders are listed, by whatever function of pathlib or os."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

_NOTICING: list[Callable[[str], object]] = []


@cache
def _add_hook() -> None:
    """Add one audit hook, which Python cannot remove."""
    sys.addaudithook(_notice)


def _notice(event: str, arguments: tuple) -> None:
    if event in ("os.scandir", "os.listdir"):
        for notice in list(_NOTICING):
            notice(str(arguments[0]))


@contextmanager
def noticing(notice: Callable[[str], object]) -> Iterator[None]:
    """Call `notice` with each folder before it is listed."""
    _add_hook()
    _NOTICING.append(notice)
    try:
        yield
    finally:
        _NOTICING.remove(notice)
