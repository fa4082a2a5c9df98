"""Devices that a machine may lack."""

import pytest

from torpor.base.errors import DeviceError
from torpor.device import Device


def needs(name: str) -> str:
    """The name of a device that is here; a test that needs one that is not skips and says why."""
    try:
        return Device[name].name
    except DeviceError as error:
        pytest.skip(f"{name}: {error}")
