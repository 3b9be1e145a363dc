"""The lazy imports of a package: nothing is imported before it is asked for, and other imports go on as ever."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

PACKAGE = """
from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from lazy_house.room import Lamp as Lamp
    from .room import chair as seat
    from lazy_house import room as place
    {}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(tmp_path)

    def write(more: str = "") -> None:
        folder = tmp_path / "lazy_house"
        folder.mkdir()
        (folder / "__init__.py").write_text(PACKAGE.format(more))
        (folder / "room.py").write_text("Lamp, chair = 'lamp', 'chair'\n")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_house"]:
        del sys.modules[name]


def test_a_name_is_imported_when_it_is_first_asked_for(written: Any) -> None:
    written()
    import lazy_house  # type: ignore[import-not-found]  # it is written by this test

    assert lazy_house.__all__ == ["Lamp", "place", "seat"]
    assert "lazy_house.room" not in sys.modules
    assert (lazy_house.Lamp, lazy_house.seat) == ("lamp", "chair")
    assert lazy_house.place is sys.modules["lazy_house.room"]
    assert {"Lamp", "seat"} <= {*dir(lazy_house)}
    assert {"Lamp", "seat"} <= {*vars(lazy_house)}
    with pytest.raises(AttributeError, match="module 'lazy_house' has no attribute 'chair'"):
        lazy_house.chair  # noqa: B018  that it is asked for is what is tried


def test_another_thread_imports_meanwhile(written: Any) -> None:
    imported: list[Any] = []
    sys.modules["lazy_house_hook"] = hook = type(sys)("lazy_house_hook")

    def run() -> None:
        thread = Thread(target=lambda: imported.append(__import__("xml.sax.saxutils", fromlist=["escape"]).escape))
        thread.start()
        thread.join(60)

    vars(hook)["run"] = run
    written("import sys; sys.modules['lazy_house_hook'].run()")
    import lazy_house

    assert imported[0]("<") == "&lt;"
    assert lazy_house.Lamp == "lamp"
    del sys.modules["lazy_house_hook"]


def test_an_error_in_the_block_leaves_imports_as_they_were(written: Any) -> None:
    before = builtins.__import__
    written("raise OSError('no light')")
    with pytest.raises(OSError, match="no light"):
        import lazy_house  # noqa: F401  it raises
    assert builtins.__import__ is before
