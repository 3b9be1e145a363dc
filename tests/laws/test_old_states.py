"""What a release saved goes on with the code of today as a run from the start does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.laws import old_states
from tests.laws.old_states import FOLDER, go_on, read
from tests.specimens.catalogue import SPECIMENS, specimens_of

read_once = cache(read)
RELEASES = sorted(FOLDER.glob("*.xz"))
CASES = [
    pytest.param(path, operator, id=f"{path.stem}-{operator}")
    for path in RELEASES
    for operator in sorted({title.partition(":")[0] for title in read_once(path)})
]


def complaints(states: dict[str, str]) -> list[str]:
    """What is wrong with the states of some specimens."""
    today = {str(specimen): specimen for specimen in SPECIMENS}
    wrong = []
    for title, saved in states.items():
        if title not in today:
            wrong.append(f"{title}: no specimen has this name any more; its states need the graph that they are of")
            continue
        try:
            go_on(today[title], saved)
        except Exception as error:
            wrong.append(f"{title}: {type(error).__name__}: {error}")
    return wrong


@pytest.mark.parametrize(("release", "operator"), CASES)
def test_states_of_a_release_are_loaded(release: Path, operator: str) -> None:
    states = {title: saved for title, saved in read_once(release).items() if title.partition(":")[0] == operator}
    if wrong := complaints(states):
        pytest.fail(f"states of {release.stem}:\n" + "\n".join(wrong), pytrace=False)


def test_what_does_not_go_on_is_named() -> None:
    states = {title: saved for title, saved in read_once(RELEASES[0]).items() if "iter.shuffle:" in title}
    late = {title: saved.replace("(0, 1, ", "(0, 2, ", 1) for title, saved in states.items() if "(0, 1, " in saved}
    assert late
    assert [wrong.split(": Broken: ")[0] for wrong in complaints(late)] == list(late)
    (wrong,) = complaints({"iter.shuffle: gone": "[]"})
    assert wrong.startswith("iter.shuffle: gone: no specimen has this name any more")


def test_a_release_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_states, "FOLDER", tmp_path)
    monkeypatch.setattr(old_states, "SPECIMENS", [*specimens_of("iter.batch"), *specimens_of("iter.list_files")])
    old_states.main()
    (path,) = tmp_path.iterdir()
    states = read(path)
    assert list(states) == [str(specimen) for specimen in specimens_of("iter.batch")]
    assert not complaints(states)
    with pytest.raises(SystemExit, match="what a release has saved does not change"):
        old_states.main()
