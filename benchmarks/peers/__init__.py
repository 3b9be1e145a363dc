"""What this library is measured against: torch's own pipes, `torchdata.nodes`, and torchdata 0.9 in its own process."""
