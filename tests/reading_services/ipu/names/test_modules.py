"""PopTorch's modules can be imported here by their own names."""

from __future__ import annotations

from importlib import import_module

import pytest

import reading_services.ipu as poptorch


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("enums", "ConnectionType DataLoaderMode OutputMode SharingStrategy"),
        ("optim", "SGD Adam AdamW RMSprop LAMB"),
        ("options", "Options"),
        ("profiling", "Channel"),
    ],
)
def test_a_module_of_its_own(module: str, names: str) -> None:
    found = import_module(f"reading_services.ipu.{module}")
    assert found is getattr(poptorch, module)
    for name in names.split():
        assert vars(found)[name] is getattr(poptorch, name, vars(found)[name])
        assert name in getattr(found, "__all__", names)
