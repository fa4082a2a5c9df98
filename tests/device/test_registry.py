"""Devices by name."""

import os
import pickle
import subprocess
import sys
import threading
from importlib import metadata
from importlib.metadata import EntryPoint

import pytest

from torpor import Tensor
from torpor.base.errors import DeviceError
from torpor.base.settings import Context
from torpor.base.target import get_target
from torpor.device import Device, Devices, registry
from torpor.device.npy import NpyDevice


class OtherDevice(NpyDevice):
    kind = "OTHER"


class Grid(OtherDevice):
    target = get_target("opencl")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("cpu", "CPU"),
        ("CPU:0", "CPU"),
        ("cpu:1", "CPU:1"),
        ("Python", "PYTHON"),
        ("cpu:01", "CPU:1"),
    ],
)
def test_names_have_one_spelling(name, canonical):
    assert str(Device.canonicalize(name)) == canonical
    assert Device[name] is Device[canonical]
    assert Device[name].name == canonical


def test_meta_is_the_device_without_memory():
    assert Device.canonicalize("meta") == Device.canonicalize("META:0") == "NULL"
    assert Device.canonicalize("NULL:1") == "meta:1"
    assert Tensor.zeros(3, device="meta").is_meta


def test_names_are_compared_whatever_their_spelling():
    x = Tensor.ones(2)
    device = x.device
    assert device == "cpu"
    assert device == "cpu:0"
    assert device in ("cuda", "Cpu")
    assert device != "cpu:1"
    assert device != "no device"
    assert device != 3
    assert (device != "cpu") is False
    assert Tensor.ones(2, device="cpu:1").device == "CPU:01"
    assert x.shard(("CPU", "CPU:1"), 0).device == ("cpu", "cpu:1")
    assert {device: 1}["CPU"] == {"CPU": 1}[device] == 1
    assert len({device, Tensor.ones(1, device="cpu").device, "CPU"}) == 1
    copied = pickle.loads(pickle.dumps(device))
    assert copied == "cpu"
    assert f"{copied} {copied!r}" == "CPU 'CPU'"


@pytest.mark.parametrize("name", ["NOSUCHDEVICE", "CPU:x", "CPU:-1", "", "CPU:1:2", ":1"])
def test_an_unknown_device_says_what_exists(name):
    with pytest.raises(DeviceError, match=r"CPU.*PYTHON.*DISK"):
        Device[name]


def test_a_near_miss_is_named():
    with pytest.raises(DeviceError, match="did you mean 'OPENCL'"):
        Device.canonicalize("opencel")


def test_a_processor_for_graphics_is_not_a_misspelt_cpu(monkeypatch):
    devices = Devices()
    monkeypatch.setitem(devices._factories, "OPENCL", OtherDevice)
    with pytest.raises(DeviceError, match="this machine has CPU, PYTHON") as caught:
        devices["GPU"]
    assert "did you mean" not in str(caught.value)
    for name in ("gpu", "GPU:1", "cuda", "mps"):
        monkeypatch.setitem(devices._factories, "FAR", Grid)
        with pytest.raises(DeviceError, match="did you mean 'FAR'"):
            devices[name]


def test_what_cannot_be_opened_is_not_listed():
    """Whatever somebody else's package does when it is opened."""
    devices = Devices()
    devices.register("BROKEN", {}.__getitem__)
    assert devices.why_not("BROKEN") == "'BROKEN'"
    assert devices.why_not("CPU") == ""
    with pytest.raises(DeviceError) as caught:
        devices["NOSUCHDEVICE"]
    assert "CPU" in str(caught.value)
    assert "BROKEN" not in str(caught.value)


def test_the_default_is_a_setting():
    assert Device.canonicalize(None) == Device.DEFAULT
    with Context(DEVICE="python"):
        assert Device.DEFAULT == "PYTHON"


def test_a_kind_can_be_registered():
    devices = Devices()
    devices.register("OTHER", OtherDevice)
    assert devices["other:3"].name == "OTHER:3"
    assert "OTHER" in devices.kinds()
    with pytest.raises(DeviceError, match="letters"):
        devices.register("O:1", OtherDevice)


def test_a_kind_can_come_from_an_entry_point(monkeypatch):
    point = EntryPoint("OTHER", f"{__name__}:OtherDevice", registry.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: OtherDevice)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group else [])
    assert type(Devices()["other"]) is OtherDevice


OUTSIDE = """
from torpor.device.npy import NpyDevice

class FarDevice(NpyDevice):
    kind = "FAR"
"""
USER = """
from torpor import dtypes
from torpor.device import Buffer, Device

buffer = Buffer("far:2", 3, dtypes.int32).allocate()
buffer.copyin(memoryview(b"torpor-lives"))
print(type(Device["FAR:2"]).__name__, buffer.device, bytes(buffer.as_buffer()).decode())
print(type(Device["CPU"]).__name__)
"""


def test_a_package_outside_brings_a_device_of_its_own(tmp_path):
    """And takes no name of torpor's own."""
    (tmp_path / "faraway.py").write_text(OUTSIDE)
    about = tmp_path / "faraway-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faraway\nVersion: 1.0\n")
    points = "[torpor.devices]\nFAR = faraway:FarDevice\nCPU = faraway:FarDevice\n"
    (about / "entry_points.txt").write_text(points)
    found = [str(tmp_path), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    done = subprocess.run(
        [sys.executable, "-c", USER], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["FarDevice FAR:2 torpor-lives", "CpuDevice"]


def test_a_device_is_opened_once():
    opened, devices = [], Devices()
    devices.register("OTHER", lambda name: opened.append(name) or OtherDevice(name))
    assert opened == []
    threads = [threading.Thread(target=devices.__getitem__, args=("other",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == ["OTHER"]
    assert [device.name for device in devices.opened()] == ["OTHER"]


def test_a_device_is_named_by_a_string():
    with pytest.raises(DeviceError, match="named by a string"):
        Device.canonicalize(3)
