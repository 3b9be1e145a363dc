"""Parser of the pages that Google Drive returns instead of a file: an error, or a request for confirmation."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Title of a page, and the form or link that confirms the download."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title = ""
        self.text = text
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.link: str | None = None
        self._inside: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("title", "form"):
            self._inside.add(tag)
        if tag == "form" and given.get("id") in ("download-form", "downloadForm"):
            self.action = given.get("action", "")
        elif tag == "input" and self.action is not None and given.get("type") == "hidden" and "form" in self._inside:
            self.fields[given.get("name", "")] = given.get("value", "")
        elif tag == "a" and "confirm=" in given.get("href", ""):
            self.link = given["href"]

    def handle_endtag(self, tag: str) -> None:
        self._inside.discard(tag)

    def handle_data(self, data: str) -> None:
        if "title" in self._inside:
            self.title += data
