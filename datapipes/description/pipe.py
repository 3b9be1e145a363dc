"""IterDataPipe and MapDataPipe: the description of one stage, its parameters and its inputs.

A pipe is a value. It holds the arguments of its constructor, and iterating does not change it: iterating opens a
session (``datapipes.position.session``), which works on its own copies. An operator of this library starts in
``_open``. A user's class only needs ``__iter__`` (``datapipes.position.user_classes``, ``user_iter``). The methods of
torchdata that change a pipe (``set_seed``, ``set_shuffle``, ``apply_sharding``) are for building a graph; the library
calls none of them on a user's pipe.

Built-in operators are real methods (``datapipes.fluent``). ``functional_datapipe`` adds a user's class to the table
``functions`` of its kind. A name that is no attribute is looked up there, then among installed plugins. An operator may
be a function that returns stages of other operators (``composed``). Such a stage stores the name of the function, so
``isinstance(stage, Forker)`` works as for a class. Type checkers see a function.
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
    from datapipes.rewriting.gathering import RowStream


T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type)
Hook = Callable[[Any], Any]

F = TypeVar("F", bound=Callable[..., Any])


def unknown_name(pipe: object, name: str, base: Any, other: Any) -> AttributeError:
    """Return the error for an unknown method, with the nearest known name.

    ``base`` is the kind of the pipe. ``other`` is the other kind, which may have the method.
    """
    said = f"{type(pipe).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):  # a private name is a probe by another library, and not worth a search
        offered = plugins.offered(plugins.METHODS, is_own_name)
        known = [n for n in (*dir(type(pipe)), *base.functions, *offered) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        if hasattr(other, name) or name in other.functions:
            said += f"; {other.__name__} has it, and {_CONVERTERS[base.__name__]}() makes one of this pipe"
        elif near:
            said += f"; did you mean {near[0]!r}?"
        elif offered:
            said += f"; dir() lists all names, and plugins add {plugins.named(offered)}"
    return AttributeError(said, name=name, obj=pipe)


def is_own_name(name: str) -> bool:
    """Return whether a method's name belongs to this library, for one kind of pipe or for both."""
    return hasattr(IterDataPipe, name) or hasattr(MapDataPipe, name)


def load_plugins(names: Iterable[str] | None = None) -> dict[str, PluginError | None]:
    """Register the methods of installed plugins. Return each name with its error, or None.

    Args:
        names: The names to register. ``None``: all names that plugins offer.

    >>> load_plugins(["offered_by_no_plugin"])
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
                    f"{name!r} of the plugin {plugins.source_of(offered[name][0])} is not a pipe: {owner!r:.80}"
                )
            loaded[name] = None
        except PluginError as error:
            loaded[name] = error
        except (NameTaken, BadArgument) as error:
            loaded[name] = PluginError(str(error))
    return loaded


_CONVERTERS = {"IterDataPipe": "to_map_datapipe", "MapDataPipe": "to_iter_datapipe"}


class Named:
    """Base of both kinds of pipe: methods of users' classes, hooks for pickling, a repr that is the call."""

    functions: ClassVar[dict[str, Factory]]
    getstate_hook: ClassVar[Hook | None] = None
    reduce_ex_hook: ClassVar[Hook | None] = None
    str_hook: ClassVar[Hook | None] = None
    repr_hook: ClassVar[Hook | None] = None
    _fluent: ClassVar[str | None] = None  # the chain method of this stage, for its repr
    _stands_for: ClassVar[str | None] = None  # the attribute with another stage, or a text, that is printed instead
    _parents: ClassVar[tuple[str, ...] | None] = None  # the attributes with inputs (``operator``); None: any attribute
    _made_by: str | None = None  # the name of the function (``composed``) behind this stage
    _identified_by: ClassVar[str | None] = None  # the attribute with the data whose elements a position counts
    _hub: ClassVar[bool] = False  # whether several consumers share one position of this stage
    _commutes: ClassVar[bool] = False  # whether it makes one element of each, in order, although it has no step
    _passes_through: ClassVar[bool] = False  # whether it gives only elements of its input, unchanged
    _exclusive_because: str | None = None  # why no other stage may read the stages above, and what to do
    _prefetches: ClassVar[bool] = False  # whether it has a thread; reading by position would bypass it
    _shuffles: ClassVar[bool] = False  # whether it orders elements independently of their values
    _shards_above: ClassVar[bool] = False  # whether it shards the stages above by itself, in sessions of its own
    _lists: ClassVar[bool] = False  # whether it gives the paths of files; these fit into memory
    _draws_by_number: ClassVar[bool] = False  # whether it draws random numbers for each element, by its number
    _stream_key: ClassVar[tuple[type, ...] | None] = (
        None  # the types of a stream's key for reopening, if it opens streams
    )
    # Streams made of each stream above; "": it opens streams by name.
    _other_stream_keys: ClassVar[tuple[tuple[type, ...], ...]] = ()  # the types of further forms of the key
    _out_of_streams: ClassVar[Literal["", "one of each", "several of each"]] = ""

    if TYPE_CHECKING:

        def __len__(self) -> int: ...  # a pipe without a known length raises LengthUnknown

    else:  # type checkers report unknown names

        def __getattr__(self, name: str) -> Any:
            # Python calls this if there is no such attribute, or if a property raised AttributeError.
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # raises the property's error again
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
        load_plugins()  # a broken plugin is not listed; using its name raises the error
        return sorted({*super().__dir__(), *_base_of(type(self)).functions})

    def __repr__(self) -> str:
        from datapipes.description.printing import chain

        hook = type(self).repr_hook
        return chain(self) if hook is None else str(hook(self))

    def __str__(self) -> str:
        hook = type(self).str_hook
        return repr(self) if hook is None else str(hook(self))

    def draw(self) -> str:
        """Return a picture of the graph that ends here, as SVG. A notebook shows it by itself.

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
            except NotImplementedError:  # the hook wants this pipe to be pickled as usual
                pass
        from datapipes.description import passes
        from datapipes.description.structure import sources_first
        from datapipes.sharding.group import telling

        reduced = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        return passes.telling(self, telling(sources_first(self, reduced, _is_pickled_as_usual)))

    @classmethod
    def register_function(cls, function_name: str, function: Factory) -> None:
        """Make ``pipe.function_name(...)`` call ``function(pipe, ...)``. A later call replaces the function."""
        register(_base_of(cls), function_name, function, replace=True)

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Factory, enable_df_api_tracing: bool = False
    ) -> None:
        """Make ``pipe.function_name(...)`` build ``cls_to_register(pipe, ...)``. Raise NameTaken for a taken name."""
        register(_base_of(cls), function_name, cls_to_register)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Hook | None) -> None:
        """Set a filter for the state that pickling a pipe saves. None removes the hook."""
        _set_hook(_base_of(cls), "getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Hook | None) -> None:
        """Set a function that replaces the pickling of a pipe. None removes the hook."""
        _set_hook(_base_of(cls), "reduce_ex_hook", hook_fn)


def _base_of(cls: type) -> type[Named]:
    """Return the class that holds names and hooks, IterDataPipe or MapDataPipe, for any subclass."""
    return MapDataPipe if issubclass(cls, MapDataPipe) else IterDataPipe


def _set_hook(base: type, slot: str, hook: Hook | None) -> None:
    if hook is not None and getattr(base, slot) is not None:
        raise GraphError(f"Attempt to override existing {slot} of {base.__name__}: set it to None first")
    setattr(base, slot, None if hook is None else staticmethod(hook))


def _is_pickled_as_usual(pipe: object) -> bool:
    """Return whether pickling a pipe keeps all of its attributes: no hook, and no pickling method of its class."""
    cls: Any = type(pipe)
    return (
        issubclass(cls, Named)
        and cls.__getstate__ is Named.__getstate__
        and cls.__reduce_ex__ is Named.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and cls.getstate_hook is cls.reduce_ex_hook is None
    )


class IterDataPipe(Named, IterMethods[T_co], IterableDataset[T_co]):
    """A stream of elements. Subclass it and write ``__iter__``.

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
        """Prepare a user's class at the start of each iteration. It does nothing by default."""

    @classmethod
    def _is_operator(cls) -> bool:
        """Return whether this is an operator of the library, which defines ``_open`` or ``_step``."""
        return cls._open is not IterDataPipe._open or cls._step is not IterDataPipe._step

    def _open(self, at: Opening) -> Iterator[T_co]:
        """Start one position of this stage. It is not called for a stage that is a step."""
        raise NotImplementedError(f"{type(self).__name__} has no _open")

    def _reads(self) -> Iterable[Any]:
        """Return the inputs that the session opens for this stage. It is empty if the stage opens them itself."""
        from datapipes.description.structure import occurrences

        return occurrences(self)

    def _step(self) -> Step | None:
        """Return this stage as a step of a loop if it handles single elements and keeps no position, else None."""
        return None

    def _rewritten_for_run(self, run: Run) -> IterDataPipe[Any]:
        """Return the stage that a session opens in place of this one. The inputs of this one were rewritten before."""
        return self

    def _positions(self) -> RowStream | None:
        """Return the rows of a collection, if this stream only reads them at some positions; otherwise None."""
        return None

    def _in_blocks(self, size: int) -> IterDataPipe[Any] | None:
        """Return a stream that gives this stream's elements, which are positions, as tensors of ``size``, or None.

        The position in the stream still counts single elements.
        """
        return None

    def _read_by_position(self) -> IterDataPipe[Any] | None:
        """Return the stage above that this stage reads by position, or None. A session does not open that stage."""
        return None

    def _is_free(self) -> bool:
        """Return whether a source can return the element at any position without a call or a copy."""
        return False

    def _unpacked_from(self) -> tuple[Named, int] | None:
        """Return the call that made a list of stages, as a pipe, and the index of this stage in it; or None."""
        return None

    def _indexed(self) -> Indexed | None:
        """Return random access to this stream, or None if it has none. Call the function ``indexed`` instead."""
        from datapipes.description.indexed import through

        return through(self)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        """Make a function that reopens a stream by its ``_stream_key``. ``source`` is the stream that contains it."""
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
    """A collection with an element for each key. Subclass it and write ``__getitem__``, and ``__len__`` if it is known.

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
        # Python would try 0, 1, 2 ... up to an IndexError, which a user's function may raise as well.
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
    """Declare the fields of an operator, as a dataclass does, and with them its inputs. Use as a class decorator.

    The annotated attributes are the parameters of the constructor, in their order, unless the class has its own
    ``__init__``. Checks of them belong in ``__post_init__``. The fields whose type names a pipe hold the inputs, and no
    other attribute is searched. ``_parents`` names them if the types do not.

    In a subclass without this decorator, inputs are searched in all attributes, as in a user's class. The fields that
    the types declare as no inputs are left out.

    >>> @operator
    ... class Repeated(IterDataPipe[Any]):
    ...     source_datapipe: IterDataPipe[Any]
    ...     times: int = 2
    >>> Repeated._parents
    ('source_datapipe',)
    """
    made: Any = dataclass(init="__init__" not in vars(cls), repr=False, eq=False, match_args=False)(cls)
    if made.__doc__:  # ``python -OO`` removes it
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
    """Make a class a method of every pipe of its kind. Use as a class decorator.

    Args:
        name: The name of the method. No other class may have it, and torch's operators keep theirs. The class may take
            the name of another operator of this library, for the whole program and with a warning.
        enable_df_api_tracing: Accepted for torchdata's programs. It has no effect.

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


class ComposedOperator(type):
    """Metaclass of operators that are functions: classes for ``isinstance`` and pickling, functions when called."""

    __wrapped__: Callable[..., Any]

    @property
    def __signature__(cls) -> Signature:
        return signature(cls.__wrapped__)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = cls.__wrapped__(*args, **kwargs)
        for stage in given if isinstance(given, list) else [given]:
            if not any(stage is taken for taken in (*args, *kwargs.values())):  # an argument is not relabelled
                stage._made_by = describe_owner(cls)
        return given

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Named) and instance._made_by == describe_owner(cls)


def composed(function: F) -> F:
    """Make an operator of a function, with its signature and docstring. Use as a decorator.

    >>> from datapipes.graph import find_dps, traverse_dps
    >>> from datapipes.iter import Forker, IterableWrapper
    >>> a, b = Forker(IterableWrapper("abc"), 2)
    >>> isinstance(a, Forker), find_dps(traverse_dps(a.zip(b)), Forker) == [a, b]
    (True, True)
    """
    kept = {name: getattr(function, name) for name in ("__module__", "__qualname__", "__doc__")}
    if function.__doc__:
        kept["__doc__"] = with_shared(function.__doc__, function)
    kept["__firstlineno__"] = function.__code__.co_firstlineno  # Python 3.13 and later find the source by it
    return cast("F", ComposedOperator(function.__name__, (), {**kept, "__wrapped__": function}))


@operator
class RemoteGraph(IterDataPipe[T_co]):
    """A stream that is made of ``graph`` elsewhere. Its length follows from that of ``graph``, or is not known."""

    _stands_for: ClassVar[str | None] = "graph"

    graph: Any
