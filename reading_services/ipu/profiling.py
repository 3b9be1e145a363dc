"""Marks for a tracer, under the name of PopTorch's module."""

from reading_services.ipu.simulator.profiling import Channel

__all__ = ["Channel"]
