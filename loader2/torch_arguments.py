"""Arguments of torch's DataLoader that a DataLoader2 does not take, and what has their place here."""

from __future__ import annotations

from datapipes.errors import BadArgumentType

INSTEAD = {
    "batch_sampler": "Sampler(rows, batch_sampler).map(rows.__getitem__) is a graph",
    "batch_size": "put .batch({}) into the graph",
    "collate_fn": "put .collate({}) into the graph, behind .batch()",
    "drop_last": "put .batch(n, drop_last={}) into the graph",
    "generator": "call dl.seed(number), from which all of an epoch follows",
    "multiprocessing_context": "pass reading_service=MultiProcessingReadingService(n, {})",
    "num_workers": "pass reading_service=MultiProcessingReadingService({})",
    "persistent_workers": "workers are kept from epoch to epoch, up to dl.shutdown()",
    "pin_memory": "put .pin_memory(), or .to_device(...), at the end of the graph",
    "prefetch_factor": "pass reading_service=MultiProcessingReadingService(n, worker_prefetch_cnt={})",
    "sampler": "Sampler(rows, sampler).map(rows.__getitem__) is a graph",
    "shuffle": "put .shuffle() into the graph, before .sharding_filter()",
    "timeout": "pass reading_service=MultiProcessingReadingService(n, timeout={})",
    "worker_init_fn": "pass reading_service=MultiProcessingReadingService(n, worker_init_fn={})",
}


def refused(given: dict[str, object]) -> BadArgumentType | None:
    """The error for arguments of torch's, if there are any.

    >>> print(refused({"num_workers": 2, "progress": True}))
    DataLoader2(num_workers=2) is torch's; here, pass reading_service=MultiProcessingReadingService(2)
    """
    torchs = {name: value for name, value in given.items() if name in INSTEAD}
    if not torchs:
        return None
    call = ", ".join(f"{name}={_shown(value)}" for name, value in torchs.items())
    remedies = "; ".join(INSTEAD[name].format(_shown(value)) for name, value in torchs.items())
    return BadArgumentType(f"DataLoader2({call}) is torch's; here, {remedies}")


def _shown(value: object) -> str:
    named = getattr(value, "__name__", None)
    return f"{named or repr(value):.40}"
