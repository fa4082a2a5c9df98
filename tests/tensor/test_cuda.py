"""What programs ask of `torch.cuda`."""

import torpor
from torpor import Device


def test_it_says_whether_the_device_can_be_opened():
    there = not Device.why_not("CUDA")
    assert torpor.cuda.is_available() == there
    assert (torpor.cuda.device_count() > 0) == there
    assert torpor.accelerator.is_available() == there
    assert (torpor.accelerator.current_accelerator() is not None) == there


def test_seeds_are_those_of_every_device():
    torpor.cuda.manual_seed_all(3)
    first = torpor.rand(4).tolist()
    torpor.manual_seed(3)
    assert torpor.rand(4).tolist() == first


def test_what_is_not_there_says_so():
    assert not hasattr(torpor.cuda, "memory_summary")


def test_a_cache_can_be_asked_to_be_emptied():
    assert torpor.cuda.empty_cache() is None
