"""IterDataPipe and MapDataPipe: the description of one stage, its parameters and its parents.

A pipe is a value. It holds what its constructor was given and nothing that changes while somebody iterates: iterating
opens a session (``datapipes.position.session``), which works on copies of its own. An operator of this library says how
it starts in ``_open``; a class of a user's only needs ``__iter__`` (see ``datapipes.position.user_classes``,
``user_iter``).

The methods named like torchdata's that do change a pipe (``set_seed``, ``set_shuffle``, ``apply_sharding``) are for
whoever builds the graph; nothing in this library calls one on a user's pipe.

The built-in operators are real methods of pipes (``datapipes.fluent``). The tables ``functions`` of IterDataPipe and of
MapDataPipe hold what users add: ``functional_datapipe`` puts a class there, and a pipe that has no such method looks a
name up in it, and then among those of installed plugins (``datapipes.description.plugins``). Which names are free, and
what becomes of an operator's, stands in ``datapipes.description.names``.

Some operators are functions (``composed``): they give stages of other operators, or several, and are looked for as a
class is. ``isinstance(stage, Forker)`` and ``find_dps(graph, Forker)`` ask what made a stage. The stage remembers it by
name, so that its copies know it too. To a type checker these operators are the functions that they are written as,
because what a chain method gives is read from them.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, dataclass_transform

from torch.utils.data import Dataset, IterableDataset

from datapipes.description import plugins, user_iter
from datapipes.description.given_sources import kind_of, taking_iterables
from datapipes.description.names import Factory, describe_owner, register
from datapipes.description.parameters import with_shared
from datapipes.errors import BadArgument, GraphError, NameTaken, PluginError
from datapipes.fluent import IterMethods, MapMethods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from datapipes.description.indexed import Indexed
    from datapipes.elements.streams import StreamWrapper
    from datapipes.position.on_error import OnError
    from datapipes.position.opening import Opening
    from datapipes.position.seeds import Run
    from datapipes.position.steps import Step
    from datapipes.rewriting.gathering import Rows


T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type)
Hook = Callable[[Any], Any]

F = TypeVar("F", bound=Callable[..., Any])


def unknown_name(pipe: object, name: str, base: Any, other: Any) -> AttributeError:
    """The error for an unknown method, with the nearest known name.

    ``base`` is the kind of the pipe, and ``other`` the other kind, which may have what was asked for.
    """
    said = f"{type(pipe).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):  # such a name is a probe by another library, and not worth a search
        offered = plugins.offered(plugins.METHODS, is_own_name)
        known = [n for n in (*dir(type(pipe)), *base.functions, *offered) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        if hasattr(other, name) or name in other.functions:
            said += f"; {other.__name__} has it, and {_CONVERTERS[base.__name__]}() makes one of this pipe"
        elif near:
            said += f"; did you mean {near[0]!r}?"
        elif offered:
            said += f"; dir() lists what there is, and plugins add {plugins.named(offered)}"
    return AttributeError(said, name=name, obj=pipe)


def is_own_name(name: str) -> bool:
    """Whether a method's name belongs to this library, for one kind of pipe or for both."""
    return hasattr(IterDataPipe, name) or hasattr(MapDataPipe, name)


def load_plugins(names: Iterable[str] | None = None) -> dict[str, PluginError | None]:
    """Register the methods that installed plugins offer, all or those of some names; what is wrong with each, if any.

    >>> load_plugins(["nobody_offers_this"])
    {}
    """
    offered = plugins.offered(plugins.METHODS, is_own_name)
    loaded: dict[str, PluginError | None] = {}
    for name in offered if names is None else filter(offered.__contains__, names):
        try:
            owner = plugins.load(offered[name])
            if isinstance(owner, type):
                functional_datapipe(name)(owner)
            if name not in IterDataPipe.functions and name not in MapDataPipe.functions:
                raise PluginError(
                    f"{name!r} of the plugin {plugins.source_of(offered[name][0])} is no pipe: {owner!r:.80}"
                )
            loaded[name] = None
        except PluginError as error:
            loaded[name] = error
        except (NameTaken, BadArgument) as error:
            loaded[name] = PluginError(str(error))
    return loaded


_CONVERTERS = {"IterDataPipe": "to_map_datapipe", "MapDataPipe": "to_iter_datapipe"}


class Named:
    """Base of both kinds of pipe: fluent names of users' own, hooks for pickling, a repr that is the call."""

    functions: ClassVar[dict[str, Factory]]
    getstate_hook: ClassVar[Hook | None] = None
    reduce_ex_hook: ClassVar[Hook | None] = None
    str_hook: ClassVar[Hook | None] = None
    repr_hook: ClassVar[Hook | None] = None
    _fluent: ClassVar[str | None] = None  # the method that makes this stage, for its repr
    _stands_for: ClassVar[str | None] = None  # the attribute with the stage, or its text, as which this one prints
    _parents: ClassVar[tuple[str, ...] | None] = None  # the attributes that hold parents (``operator``); None: any may
    _made_by: str | None = None  # the operator that gave this stage, if that is a function (``composed``)
    _identified_by: ClassVar[str | None] = None  # the attribute whose elements positions count
    _hub: ClassVar[bool] = False  # whether several consumers share one position of this stage
    _commutes: ClassVar[bool] = False  # whether it is one to one and in order, by means other than a step
    _hands_on: ClassVar[bool] = False  # whether it gives elements that it takes, as they are, and no others
    _alone: str | None = None  # why nobody else may read what is above it, and what to do, if that is so
    _runs_ahead: ClassVar[bool] = False  # whether it has a thread, which reading by position would do without
    _shuffles: ClassVar[bool] = False  # whether the order in which it hands on does not hang on what the elements are
    _lists: ClassVar[bool] = False  # whether it gives the paths of files, which fit into memory
    _stream_key: ClassVar[tuple[type, ...] | None] = None  # if it opens streams: what it needs to open one again
    _out_of_streams: ClassVar[Literal["", "one of each", "several of each"]] = ""  # which are those of the stage above

    if TYPE_CHECKING:

        def __len__(self) -> int: ...  # not every pipe knows it, which is said when it is asked

    else:  # a name that a type checker does not know is a slip

        def __getattr__(self, name: str) -> Any:
            # Only reached for names that are neither methods nor attributes, or whose property raised AttributeError.
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # which raises that error again
            base = _base_of(type(self))
            functions = base.functions
            function = None if name.startswith("__") else functions.get(name)
            if function is None and not name.startswith("_"):
                if (problem := load_plugins([name]).get(name)) is not None:
                    raise problem
                function = functions.get(name)
            if function is None:
                raise unknown_name(self, name, base, other=MapDataPipe if base is IterDataPipe else IterDataPipe)
            from functools import partial, update_wrapper

            return update_wrapper(partial(function, self), function, updated=())

    def __dir__(self) -> list[str]:
        load_plugins()  # one that is broken is not listed, and told of when its name is used
        return sorted({*super().__dir__(), *_base_of(type(self)).functions})

    def __repr__(self) -> str:
        from datapipes.description.printing import chain

        hook = type(self).repr_hook
        return chain(self) if hook is None else str(hook(self))

    def __str__(self) -> str:
        hook = type(self).str_hook
        return repr(self) if hook is None else str(hook(self))

    def draw(self) -> str:
        """A picture of the graph that ends here, in SVG; a notebook shows it by itself.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper([1]).batch(2).draw()[:4]
        '<svg'
        """
        from datapipes.graph.drawing import to_svg

        return to_svg(self)

    _repr_svg_ = draw

    def __getstate__(self) -> Any:
        state = object.__getstate__(self) or {}
        hook = type(self).getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:  # the hook's way to say: pickle this one as usual
                pass
        from datapipes.description import passes
        from datapipes.description.structure import sources_first
        from datapipes.parts.group import telling

        reduced = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        return passes.telling(self, telling(sources_first(self, reduced, _is_pickled_as_usual)))

    @classmethod
    def register_function(cls, function_name: str, function: Factory) -> None:
        """Make ``pipe.function_name(...)`` call ``function(pipe, ...)``; a later call replaces it."""
        register(_base_of(cls), function_name, function, replace=True)

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Factory, enable_df_api_tracing: bool = False
    ) -> None:
        """Make ``pipe.function_name(...)`` build ``cls_to_register(pipe, ...)``; a second owner is an error."""
        register(_base_of(cls), function_name, cls_to_register)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Hook | None) -> None:
        """Filter what pickling a pipe keeps; None takes the hook away."""
        _set_hook(_base_of(cls), "getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Hook | None) -> None:
        """Replace how a pipe is pickled; None takes the hook away."""
        _set_hook(_base_of(cls), "reduce_ex_hook", hook_fn)


def _base_of(cls: type) -> type[Named]:
    """Names and hooks live on IterDataPipe or MapDataPipe, whichever class they are set through."""
    return MapDataPipe if issubclass(cls, MapDataPipe) else IterDataPipe


def _set_hook(base: type, slot: str, hook: Hook | None) -> None:
    if hook is not None and getattr(base, slot) is not None:
        raise GraphError(f"Attempt to override existing {slot} of {base.__name__}: set it to None first")
    setattr(base, slot, None if hook is None else staticmethod(hook))


def _is_pickled_as_usual(pipe: object) -> bool:
    """Whether pickling a pipe keeps all of its attributes: nobody filters them, and its class does not do it itself."""
    cls: Any = type(pipe)
    return (
        issubclass(cls, Named)
        and cls.__getstate__ is Named.__getstate__
        and cls.__reduce_ex__ is Named.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and cls.getstate_hook is cls.reduce_ex_hook is None
    )


class IterDataPipe(Named, IterMethods[T_co], IterableDataset[T_co]):
    """A stream of elements: subclass it and write ``__iter__``.

    >>> class Countdown(IterDataPipe[int]):
    ...     def __init__(self, start: int) -> None:
    ...         self.start = start
    ...
    ...     def __iter__(self):
    ...         yield from range(self.start, 0, -1)
    >>> list(Countdown(4).map(lambda x: 10 * x).batch(2))
    [[40, 30], [20, 10]]
    """

    functions: ClassVar[dict[str, Factory]] = {}
    on_error: OnError = "raise"
    """Error policy of an operator for elements that it cannot make (``datapipes.position.on_error``)."""
    max_errors: int | float | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        user_iter.wrap_methods(cls, IterDataPipe)

    def __iter__(self) -> Iterator[T_co]:
        is_its_own_iterator = not self._is_operator()
        if is_its_own_iterator and not hasattr(type(self), "__next__"):
            raise TypeError(f"{type(self).__name__} cannot be iterated: write an __iter__ that yields its elements")
        if is_its_own_iterator and user_iter.RUN in vars(self):
            user_iter.begin(self)
            return cast("Iterator[T_co]", self)
        from datapipes.position.iterator import iterate

        return iterate(self)

    def reset(self) -> None:
        """Called on a user's class at the start of each iteration; nothing by default."""

    @classmethod
    def _is_operator(cls) -> bool:
        """Whether this is one of the library's own, which say in ``_open`` or in ``_step`` how they are opened."""
        return cls._open is not IterDataPipe._open or cls._step is not IterDataPipe._step

    def _open(self, at: Opening) -> Iterator[T_co]:
        """Start one position of this stage; not called for one that is a step."""
        raise NotImplementedError(f"{type(self).__name__} has no _open")

    def _reads(self) -> Iterable[Any]:
        """The parents that the session opens for this stage; none, if the stage opens what is above it by itself."""
        from datapipes.description.structure import occurrences

        return occurrences(self)

    def _step(self) -> Step | None:
        """This stage as a step of a loop, if it handles one element at a time and keeps no position."""
        return None

    def _in_run(self, run: Run) -> IterDataPipe[Any]:
        """The stage that a session opens in place of this one, those above being replaced; itself, as a rule."""
        return self

    def _positions(self) -> Rows | None:
        """The rows of a collection that this stream reads, if that is all that happens above and in this stage."""
        return None

    def _in_blocks(self, size: int) -> IterDataPipe[Any] | None:
        """This stream of positions in tensors of so many, if they are made so; its own position stays the same."""
        return None

    def _read_by_position(self) -> IterDataPipe[Any] | None:
        """The stage above that this one reads by position, so that it is not opened."""
        return None

    def _is_free(self) -> bool:
        """Whether a source can give an element at any position without a call or a copy."""
        return False

    def _given_as(self) -> tuple[Named, int] | None:
        """The result of the call that gave this stage in a list of several, and its number in that list."""
        return None

    def _indexed(self) -> Indexed | None:
        """Random access to this stream; None where it cannot be read by position. Ask ``indexed`` rather than this."""
        from datapipes.description.indexed import through

        return through(self)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        """Make a function that reopens a stream by its ``_stream_key``; ``source`` is the one that it came out of."""
        raise NotImplementedError(f"{type(self).__name__} has no _reopening")

    def _origin(self, i: int) -> tuple[object, Any]:
        """Return the source of the element at a position of this stream, and its key or position there."""
        from datapipes.description.indexed import only_source, through

        source = only_source(self)
        return (self, i) if source is None or through(self) is None else source._origin(i)

    def _made_of(self, fn: Callable[[Any], T_co], at: Callable[[int], Any], i: int) -> T_co:
        element = at(i)
        return fn(element)  # a method, because errors find their stage by the `self` of a frame


class MapDataPipe(Named, MapMethods[T_co], Dataset[T_co]):
    """A collection with an element for each key: subclass it and write ``__getitem__``, and ``__len__`` if it is known.

    >>> class Squares(MapDataPipe[int]):
    ...     def __getitem__(self, key: int) -> int:
    ...         if key >= 4:
    ...             raise IndexError(key)
    ...         return key * key
    >>> list(Squares().map(str))
    ['0', '1', '4', '9']
    """

    functions: ClassVar[dict[str, Factory]] = {}

    def __getitem__(self, key: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __iter__(self) -> Iterator[T_co]:
        # Python would ask for 0, 1, 2 ... up to an IndexError, which may be that of a user's function.
        try:
            length = len(self)
        except TypeError:
            length = sys.maxsize
        for key in range(length):
            try:
                element = self[key]
            except IndexError:
                if length == sys.maxsize:
                    return
                raise
            yield element


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def operator(cls: C) -> C:
    """Class decorator: an operator that declares its fields, as a dataclass does, and with them its parents.

    The annotated attributes are the parameters of the constructor, in their order, unless the class has an ``__init__``
    of its own; what has to be checked or made of them is done in ``__post_init__``. The fields whose type names a pipe
    hold the parents, and no other attribute is searched for any. Where the types do not say it, ``_parents`` does.

    What is derived from an operator without this decorator is searched like any class of a user's, but for the fields.

    >>> @operator
    ... class Repeated(IterDataPipe[Any]):
    ...     source_datapipe: IterDataPipe[Any]
    ...     times: int = 2
    >>> Repeated._parents
    ('source_datapipe',)
    """
    made: Any = dataclass(init="__init__" not in vars(cls), repr=False, eq=False, match_args=False)(cls)
    if made.__doc__:  # which ``python -OO`` leaves out
        made.__doc__ = with_shared(made.__doc__, made.__init__)
    if "_parents" not in vars(made):
        known = getattr(made, "_parents", None) or ()
        made._parents = tuple(each.name for each in fields(made) if each.name in known or "DataPipe" in str(each.type))
    kinds = {each.name: kind_of(each.type) for each in fields(made)}
    sources = {name: kind for name, kind in kinds.items() if kind is not None and name in made._parents}
    if sources and "__init__" in vars(made):
        made.__init__ = taking_iterables(vars(made)["__init__"], sources, Named)
    return cls


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable[[C], C]:
    """Class decorator: make the class a method of every pipe of its kind.

    Args:
        name: The name of the method. No other class may have it, and torch's operators keep theirs. The class may take
            the name of another operator of this library, for the whole program and with a warning.
        enable_df_api_tracing: Taken because torchdata has it; it changes nothing.

    >>> from datapipes.iter import IterableWrapper
    >>> @functional_datapipe("doubled_for_the_docs")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source_datapipe):
    ...         self.source_datapipe = source_datapipe
    ...
    ...     def __iter__(self):
    ...         for element in self.source_datapipe:
    ...             yield 2 * element
    >>> list(IterableWrapper([1, 2]).doubled_for_the_docs())
    [2, 4]
    """
    from torch.utils.data import IterDataPipe as TorchIterDataPipe
    from torch.utils.data import MapDataPipe as TorchMapDataPipe

    def decorate(cls: C) -> C:
        if issubclass(cls, IterDataPipe | TorchIterDataPipe):
            register(IterDataPipe, name, cls)
        elif issubclass(cls, MapDataPipe | TorchMapDataPipe):
            register(MapDataPipe, name, cls)
        return cls

    return decorate


class Composed(type):
    """The kind of these operators: classes to ``isinstance`` and to pickle, functions to whoever calls them."""

    __wrapped__: Callable[..., Any]

    @property
    def __signature__(cls) -> Signature:
        return signature(cls.__wrapped__)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = cls.__wrapped__(*args, **kwargs)
        for stage in given if isinstance(given, list) else [given]:
            if not any(stage is taken for taken in (*args, *kwargs.values())):  # one that is handed back stays as it is
                stage._made_by = describe_owner(cls)
        return given

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Named) and instance._made_by == describe_owner(cls)


def composed(function: F) -> F:
    """Decorator: an operator that is a function, with its signature and docstring.

    >>> from datapipes.graph import find_dps, traverse_dps
    >>> from datapipes.iter import Forker, IterableWrapper
    >>> a, b = Forker(IterableWrapper("abc"), 2)
    >>> isinstance(a, Forker), find_dps(traverse_dps(a.zip(b)), Forker) == [a, b]
    (True, True)
    """
    kept = {name: getattr(function, name) for name in ("__module__", "__qualname__", "__doc__")}
    if function.__doc__:
        kept["__doc__"] = with_shared(function.__doc__, function)
    kept["__firstlineno__"] = function.__code__.co_firstlineno  # where Python 3.13 and later look for its source
    return cast("F", Composed(function.__name__, (), {**kept, "__wrapped__": function}))


@operator
class MadeElsewhere(IterDataPipe[T_co]):
    """A stream that others make of ``graph``; its length follows from that of ``graph``, or is not known."""

    _stands_for: ClassVar[str | None] = "graph"

    graph: Any
