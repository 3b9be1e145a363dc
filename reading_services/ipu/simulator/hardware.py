"""Availability of IPU hardware: there is none, the device is a simulated one."""


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether so many IPUs are attached to this machine."""
    return False


def ipuHardwareVersion() -> int:
    """The generation of the IPUs attached to this machine; 0 is none."""
    return 0
