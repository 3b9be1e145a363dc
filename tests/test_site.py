"""The site builds without a warning, has a page for each operator and each error, and loads nothing from elsewhere."""

from __future__ import annotations

import html
import inspect
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from datapipes.errors import Loader2Error
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.graph import to_svg
from datapipes.iter import FileLister
from tests.test_house import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def test_each_operator_has_a_page_with_all_of_its_parameters(site: Path) -> None:
    for kind, methods in {"iter": IterMethods, "map": MapMethods}.items():
        for name in operators_of(methods):
            page = (site / "operators" / f"{kind}.{name}.html").read_text()
            assert f">{name}<a" in page or f">{name}</h1>" in page, name
            assert "<th>what it does</th>" in page, name
            missing = [
                parameter
                for parameter in inspect.signature(getattr(methods, name)).parameters
                if parameter != "self" and f"<td><code>{parameter}</code></td>" not in page
            ]
            assert not missing, name


def test_made_pages_show_no_section_of_a_docstring_and_no_address(site: Path) -> None:
    for page in [site / "reference.html", *(site / "operators").glob("*.html")]:
        text = page.read_text()
        assert "Args:" not in text, page
        assert not re.search(r" at 0x[0-9a-f]+", text), page


def test_code_fits_a_browser_window(site: Path) -> None:
    """Plain text, such as a traceback, may be wider: its first character is in no span."""
    wide = [
        f"{page.relative_to(site)}: {line}"
        for page in sorted(site.rglob("*.html"))
        for block in re.findall(r"<pre><span></span><code>(<span.*?)</code></pre>", page.read_text(), re.DOTALL)
        for line in html.unescape(re.sub(r"<[^>]+>", "", block)).splitlines()
        if len(line) > 72
    ]
    assert not wide, "\n".join(wide)


def test_each_exception_is_told_of(site: Path) -> None:
    page = (site / "errors.html").read_text()
    told = set(re.findall(r'<h3 id="[^"]+">(\w+)', page))
    assert told >= {cls.__name__ for cls in subclasses(Loader2Error) if cls.__module__ == "datapipes.errors"}


def subclasses(cls: type[BaseException]) -> Iterator[type]:
    yield cls
    for derived in cls.__subclasses__():
        yield from subclasses(derived)


def test_what_the_site_loads_is_its_own(site: Path) -> None:
    elsewhere = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(https?:[^"]+)|<link rel="stylesheet" href="(https?:[^"]+)'
    )
    loaded = [found for page in site.rglob("*.html") for found in elsewhere.findall(page.read_text())]
    assert not loaded


def test_the_picture_of_the_first_pipeline_is_what_the_library_draws() -> None:
    page = (ROOT / "docs" / "first-pipeline.md").read_text()
    code = re.search(r"^files = .*?^graph = [^\n]*$", page, re.DOTALL | re.MULTILINE)
    assert code is not None
    made: dict[str, object] = {"FileLister": FileLister}
    exec(compile(code[0], "example.py", "exec"), made)
    drawn = to_svg(made["graph"])
    ET.fromstring(drawn)
    assert (ROOT / "docs" / "graph.svg").read_text().strip() == drawn
