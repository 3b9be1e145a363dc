"""Plain attributes of users' classes: an epoch that changes one gets a warning, since the next epoch resets it."""

from __future__ import annotations

from typing import Any, Final

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import of_class
from datapipes.description.user_code import counted_epoch, set_at_start
from datapipes.description.user_iter import FRESH, PINNED
from datapipes.messages.warnings import warn

_PLAIN: Final = (int, float, complex, bool, str, bytes, type(None))

_NOT_THE_USERS: Final = frozenset(
    {"_place", FRESH, PINNED, "_opened_as"}
    | {"_valid_iterator_id", "_number_of_samples_yielded", "_fast_forward_iterator"}  # of torch's base class
)


def plain_values(stage: structure.Pipe) -> dict[str, Any]:
    """Return the plain attributes of a copy whose changes deserve a warning."""
    cls = type(stage)
    if structure.is_native(stage) or not structure.is_stream(stage) or cls.__module__.startswith("torch."):
        return {}
    if callable(getattr(cls, "load_state_dict", None)):
        return {}  # the class saves its own state
    free = _NOT_THE_USERS | set_at_start(cls) | ({"epoch"} if counted_epoch(stage) is not None else set())
    held = structure.attributes(stage)
    return {name: value for name, value in held.items() if type(value) in _PLAIN and name not in free}


def warn_of_changes(stage: structure.Pipe, before: dict[str, Any]) -> None:
    """Warn, once for each class and attribute, of a plain value that the class has changed while it was iterated."""
    held, known = structure.attributes(stage), _warned_of(type(stage))
    for name, value in before.items():
        now = held.get(name)
        if now is not value and now != value and type(now) in _PLAIN and name not in known:
            known.add(name)
            warn(
                f"{printed(stage)} has changed .{name} from {value!r:.40} to {now!r:.40} while it was iterated, and "
                f"the next epoch starts from {value!r:.40} again, as the constructor left it: set it in "
                "set_epoch(epoch), which is called with the number of each epoch, or use a local variable"
            )


@of_class
def _warned_of(cls: type) -> set[str]:
    """Return the set of a class's attributes that were warned of. It grows."""
    return set()
