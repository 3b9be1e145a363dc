"""Peers to measure this library against: torch's own pipes, `torchdata.nodes`, and torchdata 0.9 in its own process."""
