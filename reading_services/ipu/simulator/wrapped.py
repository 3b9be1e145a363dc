"""A wrapped user's model, which a device trains: it looks at its own weights, and has them brought home first.

The model's class and those of its parameters and buffers are exchanged for ones that know their trainers: the weights
are the same objects as before, and touching one, or asking the model for any, copies what the device has trained. That
happens once, and not at all while nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Protocol, SupportsIndex

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_iter

PREFIX = "Poptorch"
_LOOKING = ("forward", "parameters", "named_parameters", "buffers", "named_buffers", "state_dict")


class Trainer(Protocol):
    """The executor that trains a model on a device."""

    def destroy(self) -> None: ...

    def copyWeightsToHostIfNeeded(self) -> bool: ...


class _Watched:
    """Weights that are touched: whoever trains them brings them home first."""

    trainers: tuple[Trainer, ...]

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            for each in tree_iter((args, kwargs)):
                if isinstance(each, _Watched):
                    for trainer in vars(each).get("trainers", ()):
                        trainer.copyWeightsToHostIfNeeded()
            if function is Tensor.__repr__:
                args = (args[0]._plain(), *args[1:])  # what is printed is the weight, and not how it is watched
            return function(*args, **(kwargs or {}))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self._plain(), memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        reduced: Any = self._plain().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]  # of torch
        return reduced

    def _plain(self: Any) -> Tensor:
        """The same data as a tensor like others."""
        data: Tensor = self.detach()
        return nn.Parameter(data, self.requires_grad) if isinstance(self, nn.Parameter) else data


class WatchedParameter(_Watched, nn.Parameter):
    """A parameter that a device trains."""


class WatchedBuffer(_Watched, Tensor):
    """A buffer of a model that a device trains."""


_PLAIN: dict[type, type] = {WatchedParameter: nn.Parameter, WatchedBuffer: Tensor}
_WATCHED = {plain: watched for watched, plain in _PLAIN.items()}


def trainer_of(model: nn.Module) -> Trainer | None:
    """The trainer of a model, if it has one."""
    return getattr(type(model), "_poptorch_trainer", None)


def trainers_of(model: nn.Module) -> list[Trainer]:
    """The trainers of any of a model's weights, by whatever model they got them."""
    found = {id(each): each for tensor in _weights(model) for each in vars(tensor).get("trainers", ())}
    return list(found.values())


def plain_class(model: nn.Module) -> type[nn.Module]:
    """The class that a model has, or had before it was wrapped."""
    return type(model) if trainer_of(model) is None else type(model).__mro__[1]


def shallow_copy(model: nn.Module) -> nn.Module:
    """A model with the same parts and attributes, which nobody trains."""
    kind = plain_class(model)
    made = kind.__new__(kind)
    vars(made).update(vars(model))
    return made


def wrap(model: nn.Module, trainer: Trainer) -> None:
    """Wrap a model and its weights, so that they know who trains them."""
    refuse_wrapped(model)
    for tensor in _weights(model):
        if type(tensor) in _WATCHED:
            tensor.__class__ = _WATCHED[type(tensor)]
        vars(tensor)["trainers"] = (*vars(tensor).get("trainers", ()), trainer)
    model.__class__ = _wrapping(type(model), trainer)


def refuse_wrapped(model: nn.Module) -> None:
    """Raise if a model has a trainer already."""
    if trainer_of(model) is not None:
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel': call destroy() on the model or on its "
            "executor before it is wrapped again"
        )


def unwrap(model: nn.Module) -> None:
    """Unwrap a model and its weights, back to what they were."""
    trainer = trainer_of(model)
    model.__class__ = plain_class(model)
    for tensor in _weights(model):
        left = tuple(each for each in vars(tensor).get("trainers", ()) if each is not trainer)
        vars(tensor)["trainers"] = left
        if not left:
            del vars(tensor)["trainers"]
            tensor.__class__ = _PLAIN.get(type(tensor), type(tensor))


def _weights(model: nn.Module) -> Iterator[Tensor]:
    """The parameters and buffers of a model, without asking the model for them."""
    for module in nn.Module.modules(model):
        for registered in (vars(module)["_parameters"], vars(module)["_buffers"]):
            yield from (tensor for tensor in registered.values() if tensor is not None)


def _wrapping(kind: type[nn.Module], trainer: Trainer) -> type[nn.Module]:
    """The class of a wrapped model."""

    class Wrapped(kind):  # type: ignore[misc, valid-type]  # a class that is known at run time only
        _poptorch_trainer = trainer

        def __getattribute__(self, name: str) -> Any:
            if name in _LOOKING:
                trainer.copyWeightsToHostIfNeeded()
            return super().__getattribute__(name)

        def __getattr__(self, name: str) -> Any:  # submodules, parameters and buffers
            trainer.copyWeightsToHostIfNeeded()
            return super().__getattr__(name)

        def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
            """Copied or pickled, it is a model like others."""
            trainer.copyWeightsToHostIfNeeded()
            made, given, *rest = super().__reduce_ex__(protocol)
            return _made, (made, tuple(kind if each is type(self) else each for each in given)), *rest

        def destroy(self) -> None:
            """Bring the weights home, free the device, and let this be a plain model again."""
            trainer.destroy()

        def copyWeightsToHostIfNeeded(self) -> bool:
            """Bring the weights home if the device has trained them since."""
            return trainer.copyWeightsToHostIfNeeded()

    Wrapped.__name__, Wrapped.__qualname__ = PREFIX + kind.__name__, PREFIX + kind.__qualname__
    Wrapped.__module__ = kind.__module__
    return Wrapped


def _made(make: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Unpickle a wrapped model; pickle would not have ``copyreg.__newobj__`` make another class."""
    return make(*given)
