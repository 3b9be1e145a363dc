"""Optimisers with PopTorch's arguments, under the name of its module."""

from reading_services.ipu.simulator.optim import LAMB, SGD, Adam, AdamW, Optimizer, RMSprop, VariableAttributes

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]
