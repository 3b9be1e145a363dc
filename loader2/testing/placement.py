"""The law of placement: a service says where a graph runs, and not what comes of it."""

from __future__ import annotations

from dataclasses import replace

from loader2.testing.comparing import SEED, must_equal, taken
from loader2.testing.specimen import Specimen


def same_elements(specimen: Specimen) -> None:
    """Three epochs give what they give in this process; in the same order, unless that is drawn (see the seeds)."""
    if not specimen.is_as_here:
        return
    through, here = specimen.loader(seed=SEED), replace(specimen, service=None).loader(seed=SEED)
    for epoch in range(3):
        came, expected = taken(iter(through)), taken(iter(here))
        if specimen.random:
            came, expected = sorted(came), sorted(expected)
        must_equal(came, expected, f"epoch {epoch}")
    through.shutdown()
