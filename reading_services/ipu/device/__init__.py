"""The simulated device: models that run on it as they would on IPUs, with the same numbers and none of the speed."""
