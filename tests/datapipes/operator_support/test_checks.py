"""Keywords that go on to others: what they do not know, or looks like a slip of the stage's own, is refused at once."""

from __future__ import annotations

import csv
import inspect
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest
import requests
from fsspec.registry import known_implementations

from datapipes.errors import BadArgumentType
from datapipes.iter import FSSpecFileLister, FSSpecFileOpener, FSSpecSaver, IterableWrapper

source: Any = IterableWrapper([])


@pytest.mark.parametrize(
    "build",
    [
        *(source.parse_csv, source.parse_csv_as_dict, source.parse_json_files, source.parse_jsonl),
        *(source.list_files_by_fsspec, source.open_files_by_fsspec, source.save_by_fsspec),
        *(source.read_from_http, source.read_from_gdrive, source.read_from_remote),
        lambda **options: source.threadpool_map(str, **options),
        lambda **options: source.parse_json_files(cls=json.JSONDecoder, **options),
    ],
)
@pytest.mark.parametrize("slip", ["onerror", "on_errors", "onError", "on_err"])
def test_a_slip_of_ones_own(build: Callable[..., Any], slip: str) -> None:
    with pytest.raises(BadArgumentType, match=rf"\(\) got an unexpected keyword argument '{slip}'; .*'on_error'\?"):
        build(**{slip: "skip"})
    with pytest.raises(BadArgumentType, match=r"did you mean 'max_errors'\?"):
        build(on_error="skip", max_error=3)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: source.read_from_http(timeot=3), "'timeot'; did you mean 'timeout'?"),
        (lambda: source.read_from_http(aut=("me", "hush")), "'aut'; did you mean 'auth'?"),
        (lambda: source.read_from_remote(skip_on_errors=True), "'skip_on_errors'; did you mean 'skip_on_error'?"),
        (lambda: source.read_from_gdrive(tranfer=None), "'tranfer'; did you mean 'transfer'?"),
        (lambda: source.open_files_by_fsspec(kwargs_open={}), "'kwargs_open'; did you mean 'kwargs_for_open'?"),
        (lambda: source.list_files_by_fsspec(mask="*.csv"), "'mask'; did you mean 'masks'?"),
        (lambda: source.parse_csv(delimeter=";"), "'delimeter'; did you mean 'delimiter'?"),
        (lambda: source.parse_csv_as_dict(fieldname=["a"]), "'fieldname'; did you mean 'fieldnames'?"),
        (lambda: source.parse_jsonl(returnpath=False), "'returnpath'; did you mean 'return_path'?"),
        (lambda: source.threadpool_map(str, name="x"), "it takes thread_name_prefix, initializer, initargs"),
    ],
)
def test_the_right_name_is_said(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadArgumentType) as caught:
        build()
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def parameters(callee: Callable[..., Any]) -> set[str]:
    return {
        name
        for name, each in inspect.signature(callee).parameters.items()
        if name != "self" and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }


def test_whatever_the_others_know_goes_on_to_them() -> None:
    for name in parameters(requests.Session.request) - {"method", "url"}:
        source.read_from_http(**{name: 1})
    for name in (
        "delimiter",
        "doublequote",
        "escapechar",
        "lineterminator",
        "quotechar",
        "quoting",
        "skipinitialspace",
    ):
        assert hasattr(csv.Dialect, name)
        source.parse_csv(**{name: None})
    for name in parameters(csv.DictReader) - {"f"}:
        source.parse_csv_as_dict(**{name: None})
    for name in (parameters(json.loads) | parameters(json.JSONDecoder)) - {"s"}:
        source.parse_jsonl(**{name: None})
    for name in parameters(ThreadPoolExecutor):
        source.threadpool_map(str, **{name: None})


def test_options_of_file_systems_are_not_taken_for_slips() -> None:
    options = {"anon", "client_kwargs", "config_kwargs", "key", "max_retries", "secret", "token"}
    for protocol in known_implementations:
        options.add(protocol)
        try:
            kinds = fsspec.get_filesystem_class(protocol).__mro__
        except (ImportError, AttributeError):  # adlfs has no class any more for the first generation of its stores
            continue
        for kind in kinds:
            options |= parameters(kind.__init__)
    assert len(options) > 100
    operators: list[Any] = [FSSpecFileLister, FSSpecFileOpener, FSSpecSaver]
    for operator in operators:
        own = {*inspect.signature(operator).parameters}
        operator(source, **dict.fromkeys(options - own))
