"""The plugin for pytest: a test with ``pipe_law`` or ``service_law`` among its arguments runs once for each law.

It stands beside the packages because pytest imports it in every project where the library is installed: the library,
and torch with it, is imported where a test asks for laws.
"""

from functools import partial

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test one law after the other, as a function that tries it."""
    if {"pipe_law", "service_law"}.isdisjoint(metafunc.fixturenames):
        return
    from loader2 import testing

    for name, check, laws in (
        ("pipe_law", testing.check_pipe, testing.LAWS),
        ("service_law", testing.check_service, testing.PLACED),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [partial(check, laws=[law]) for law in laws], ids=laws)
