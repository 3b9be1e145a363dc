"""Which libraries of the extra ``fast`` are used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import get_args

import pytest

from datapipes.io.fast import Library, fast_library
from datapipes.messages.switches import FAST, current_switches

LIBRARIES = get_args(Library)


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_library_is_installed_and_used(monkeypatch: pytest.MonkeyPatch, name: Library) -> None:
    monkeypatch.delenv(FAST, raising=False)
    assert fast_library(name) is import_module(name)


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_variable_switches_every_library_off(monkeypatch: pytest.MonkeyPatch, name: Library) -> None:
    monkeypatch.setenv(FAST, "0")
    assert fast_library(name) is None
    assert current_switches()[FAST] == "0"


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_that_is_not_installed_is_not_used(monkeypatch: pytest.MonkeyPatch, name: Library) -> None:
    monkeypatch.delenv(FAST, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    assert fast_library(name) is None
