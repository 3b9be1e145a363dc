"""Arguments of torch's DataLoader that a DataLoader2 does not take, and their replacements."""

from __future__ import annotations

from datapipes.errors import BadArgumentType

INSTEAD = {
    "batch_sampler": "Sampler(rows, batch_sampler).map(rows.__getitem__) is a graph",
    "batch_size": "put .batch({}) into the graph",
    "collate_fn": "put .collate({}) into the graph, below .batch()",
    "drop_last": "put .batch(n, drop_last={}) into the graph",
    "generator": "call dl.seed(number), from which all of an epoch follows",
    "multiprocessing_context": "pass reading_service=MultiProcessingReadingService(n, {})",
    "num_workers": "pass reading_service=MultiProcessingReadingService({})",
    "persistent_workers": "workers are kept from epoch to epoch, up to dl.shutdown()",
    "pin_memory": "put .pin_memory(), or .to_device(...), at the end of the graph",
    "prefetch_factor": "pass reading_service=MultiProcessingReadingService(n, worker_prefetch_cnt={})",
    "sampler": "Sampler(rows, sampler).map(rows.__getitem__) is a graph",
    "shuffle": "put .shuffle() into the graph, above .sharding_filter()",
    "timeout": "pass reading_service=MultiProcessingReadingService(n, timeout={})",
    "worker_init_fn": "pass reading_service=MultiProcessingReadingService(n, worker_init_fn={})",
}


OWN = {
    "batch": "put .batch({}) into the graph",
    "dataset": "pass it as the first argument, datapipe",
    "epoch": "call dl.set_epoch({})",
    "seed": "call dl.seed({}) before the first epoch",
    "workers": INSTEAD["num_workers"],
}
"""Arguments of neither of the two classes."""


def refused(given: dict[str, object]) -> BadArgumentType | None:
    """Return the error for arguments that a DataLoader2 does not take, with their replacements. None: it takes all.

    >>> print(refused({"num_workers": 2, "progress": True}))
    DataLoader2(num_workers=2) is torch's; here, pass reading_service=MultiProcessingReadingService(2)
    >>> print(refused({"seed": 3}))
    DataLoader2(seed=3): there is no such argument; call dl.seed(3) before the first epoch
    """
    instead = {**OWN, **INSTEAD}
    wrong = {name: value for name, value in given.items() if name in instead}
    if not wrong:
        return None
    call = ", ".join(f"{name}={_shown(value)}" for name, value in wrong.items())
    remedies = "; ".join(instead[name].format(_shown(value)) for name, value in wrong.items())
    why = " is torch's; here," if wrong.keys() <= INSTEAD.keys() else ": there is no such argument;"
    return BadArgumentType(f"DataLoader2({call}){why} {remedies}")


def _shown(value: object) -> str:
    named = getattr(value, "__name__", None)
    return f"{named or repr(value):.40}"
