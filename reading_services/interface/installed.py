"""Reading services by name: those of this library and of installed plugins.

A plugin offers a service by an entry point of the group ``loader2.reading_services``. The entry point refers to a class
or to a function that returns a service. This library's own services are found even if the library is not installed.
"""

from __future__ import annotations

import ast
import difflib
import re
from importlib.metadata import EntryPoint
from typing import Any

from datapipes.description import plugins
from datapipes.errors import BadArgument, BadArgumentType, PluginError

OWN = {
    name: [EntryPoint(name, f"reading_services:{made}", plugins.SERVICES)]
    for name, made in {
        "distributed": "DistributedReadingService",
        "in_process": "InProcessReadingService",
        "multi_process": "MultiProcessingReadingService",
        "ray": "RayReadingService",
        "threads": "ThreadingReadingService",
    }.items()
}
_CALL = re.compile(r"([\w.-]+)\s*(\(.*\))?", re.DOTALL)


def service_named(text: str) -> Any:
    """Return the service of a name such as ``"threads"``, or of a call with plain values such as ``"threads(2)"``.

    >>> service_named("threads(num_workers=2)").num_workers
    2
    >>> service_named("in_proces")
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgument: reading_service='in_proces': did you mean 'in_process'? There are 'distributed' ...
    """
    name, args, kwargs = _parsed(text)
    known = {**OWN, **({} if name in OWN else plugins.offered(plugins.SERVICES, OWN.__contains__))}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]!r}? " if near else "no service has that name. "
        raise BadArgument(f"reading_service={text!r}: {meant}There are {plugins.named(known)}")
    factory = plugins.load(known[name])
    if not callable(factory):
        raise PluginError(f"{name!r} of {plugins.source_of(known[name][0])} makes no reading service: {factory!r:.80}")
    try:
        service = factory(*args, **kwargs)
    except TypeError as error:
        raise BadArgumentType(
            f"reading_service={text!r}: {error}; arguments are written as in 'threads(num_workers=2)'"
        ) from error
    if not callable(getattr(service, "initialize", None)):
        raise PluginError(f"{name!r} of {plugins.source_of(known[name][0])} made no reading service: {service!r:.80}")
    return service


def _parsed(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the name, the positional and the named arguments of a call that is written as text."""
    if (found := _CALL.fullmatch(text.strip())) is None:
        raise BadArgument(f"reading_service={text!r}: write a name, or a call as 'threads(num_workers=2)'")
    try:
        match ast.parse(f"call{found[2] or '()'}", mode="eval").body:
            case ast.Call(func=ast.Name(), args=args, keywords=named):
                given = {str(each.arg): ast.literal_eval(each.value) for each in named}
                return found[1], [ast.literal_eval(value) for value in args], given
        raise ValueError(f"{found[2]} is not a single call")
    except (SyntaxError, ValueError) as error:
        raise BadArgument(f"reading_service={text!r}: arguments are plain values, as in 'threads(2)'") from error
