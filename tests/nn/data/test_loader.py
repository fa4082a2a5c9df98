"""Batches, orders and workers."""

import collections
import subprocess
import sys
import threading

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import TorporError
from torpor.nn import data


class Squares(data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"x": np.full(3, index, "f4"), "y": index * index, "name": str(index)}


class Counting(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, 10, step))


class Broken(Squares):
    def __getitem__(self, index):
        if index == 3:
            raise ValueError("the third is broken")
        return index


class Ending(Squares):
    def __getitem__(self, index):
        import os

        os._exit(7)


class Drawn(Squares):
    def __getitem__(self, index):
        return Tensor.rand(()).item()


def named(number):
    assert data.get_worker_info().id == number


def test_batches():
    loader = data.DataLoader(Squares(), batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert isinstance(batches[0]["x"], Tensor) and batches[0]["x"].shape == (4, 3)
    assert batches[1]["y"].tolist() == [16, 25, 36, 49] and batches[1]["y"].dtype.name == "int64"
    assert batches[2]["name"] == ["8", "9"]
    assert len(list(data.DataLoader(Squares(), 4, drop_last=True))) == 2
    single = list(data.DataLoader(Squares(), batch_size=None))
    assert len(single) == 10 and single[2]["y"] == 4
    sums = data.DataLoader(Squares(), 5, collate_fn=lambda batch: sum(one["y"] for one in batch))
    assert list(sums) == [30, 255]


def test_tensors_in_batches():
    rows = data.TensorDataset(Tensor.arange(6).reshape(3, 2), Tensor([1.0, 2.0, 3.0]))
    (x, y), (last, _) = data.DataLoader(rows, 2)
    assert x.tolist() == [[0, 1], [2, 3]] and y.tolist() == [1, 2] and last.tolist() == [[4, 5]]
    first, second = data.random_split(rows, [1, 2])
    found = [one for part in (first, second) for (_, y) in data.DataLoader(part, 3)
             for one in y.tolist()]  # fmt: skip
    assert sorted(found) == [1, 2, 3]
    with pytest.raises(TorporError, match="one length"):
        data.TensorDataset(Tensor([1]), Tensor([1, 2]))


def test_orders_are_random_and_repeatable():
    def epochs(seed):
        loader = data.DataLoader(range(20), 20, True, generator=torpor.Generator(seed))
        return [batch.tolist() for _ in range(2) for batch in loader]

    one, other = epochs(1)
    assert sorted(one) == sorted(other) == list(range(20))
    assert one != other and epochs(1) == [one, other] and epochs(2)[0] != one


def test_samplers():
    torpor.manual_seed(0)
    assert list(data.SequentialSampler("abc")) == [0, 1, 2]
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}
    assert sorted(data.SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    weighted = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert 0 not in weighted and weighted.count(2) / 4000 == pytest.approx(0.75, abs=0.03)
    once = list(data.WeightedRandomSampler([1.0, 0.0, 2.0, 9.0], 3, replacement=False))
    assert sorted(once) == [0, 2, 3]
    for wrong in ([1.0, -1.0], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(TorporError, match="weights are finite"):
            data.WeightedRandomSampler(wrong, 2)
    with pytest.raises(TorporError, match="3 of 2 samples"):
        data.WeightedRandomSampler([1.0, 1.0, 0.0], 3, replacement=False)
    batches = data.BatchSampler(data.SequentialSampler(range(5)), 2)
    assert list(batches) == [[0, 1], [2, 3], [4]] and len(batches) == 3
    loader = data.DataLoader(range(5), batch_sampler=[[4, 0], [1]])
    assert [batch.tolist() for batch in loader] == [[4, 0], [1]] and len(loader) == 2


@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_share_the_samples(drop_last):
    made = [data.DistributedSampler(range(10), 4, rank, drop_last=drop_last) for rank in range(4)]
    for epoch in (0, 1):
        for one in made:
            one.set_epoch(epoch)
        taken = [list(one) for one in made]
        assert {len(one) for one in taken} == {len(made[0])} == {2 if drop_last else 3}
        several = sorted(number for one in taken for number in one)
        assert set(several) == set(range(10)) or (drop_last and len(set(several)) == 8)
    assert taken != [list(data.DistributedSampler(range(10), 4, rank)) for rank in range(4)]
    in_turn = data.DistributedSampler(range(5), 3, 2, shuffle=False)
    assert list(in_turn) == [2, 0]  # 0 1 2 3 4, and 0 again
    with pytest.raises(TorporError, match="rank 3 of 3 processes"):
        data.DistributedSampler(range(5), 3, 3)


def test_datasets_side_by_side():
    pairs = data.StackDataset(range(4), [10, 11, 12, 13])
    assert pairs[2] == (2, 12) and len(pairs) == 4
    named = data.DataLoader(data.StackDataset(x=range(4), y=[10, 11, 12, 13]), 3, in_order=True)
    assert [{k: v.tolist() for k, v in batch.items()} for batch in named] == [
        {"x": [0, 1, 2], "y": [10, 11, 12]}, {"x": [3], "y": [13]},
    ]  # fmt: skip
    with pytest.raises(TorporError, match=r"of one length, not \[2, 3\]"):
        data.StackDataset(range(2), range(3))
    with pytest.raises(TorporError, match="with names, or none"):
        data.StackDataset()


def test_datasets_of_datasets():
    joined = data.ConcatDataset([range(3), range(10, 12)])
    assert [joined[i] for i in range(-1, 5)] == [11, 0, 1, 2, 10, 11]
    with pytest.raises(IndexError, match="5 of 5"):
        joined[5]
    assert list(Counting() + Counting()) == [*range(10), *range(10)]
    parts = data.random_split(range(10), [0.5, 0.25, 0.25])
    assert [len(part) for part in parts] == [6, 2, 2]
    with pytest.raises(TorporError, match="not the 10"):
        data.random_split(range(10), [3, 3])


def test_iterables():
    assert [b.tolist() for b in data.DataLoader(Counting(), 4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert len(list(data.DataLoader(Counting(), 4, drop_last=True))) == 2


def test_workers_give_the_same_batches():
    loader = data.DataLoader(
        Squares(), 3, num_workers=2, worker_init_fn=named, persistent_workers=True
    )
    expected = [batch["y"].tolist() for batch in data.DataLoader(Squares(), 3)]
    for _ in range(2):
        assert [batch["y"].tolist() for batch in loader] == expected
    loader._kept.close()
    chained = data.DataLoader(Counting(), 2, num_workers=2)
    assert sorted(n for batch in chained for n in batch.tolist()) == list(range(10))


def test_workers_draw_numbers_of_their_own():
    torpor.manual_seed(3)
    (batch,) = data.DataLoader(Drawn(), 10, num_workers=1)
    assert len(set(batch.tolist())) == 10


def test_what_workers_raise_is_raised_here():
    with pytest.raises(data.WorkerError, match="the third is broken"):
        list(data.DataLoader(Broken(), 1, num_workers=1))
    with pytest.raises(data.WorkerError, match="ended with status 7"):
        list(data.DataLoader(Ending(), 1, num_workers=1))


def test_what_workers_cannot_be_sent_is_said():
    class Inner(Squares):
        pass

    for wrong in (
        {"dataset": Inner()},
        {"dataset": Squares(), "collate_fn": lambda parts: parts},
        {"dataset": Squares(), "worker_init_fn": lambda number: None},
    ):
        with pytest.raises(data.WorkerError, match=r"top of a module.*num_workers=0.*<locals>"):
            list(data.DataLoader(**wrong, num_workers=1))


def test_what_a_notebook_defines_is_not_known_to_workers():
    program = """
import torpor.nn.data as data
class Squares(data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, n): return n * n
whole = Squares()
for dataset in (whole, data.Subset(whole, [1, 2])):
    try:
        list(data.DataLoader(dataset, 2, num_workers=1))
    except data.WorkerError as error:
        print("num_workers=0" in str(error), "notebook" in str(error))
print([batch.tolist() for batch in data.DataLoader(whole, 2)])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.splitlines() == ["True True", "True True", "[[0, 1], [4, 9]]"]


Pair = collections.namedtuple("Pair", "a b")


def test_what_is_collated():
    pairs = data.default_collate([Pair(1, 2.5), Pair(3, 4.5)])
    assert isinstance(pairs, Pair) and pairs.b.dtype == torpor.float64
    assert pairs.a.tolist() == [1, 3]
    with pytest.raises(TorporError, match="give a collate_fn"):
        data.default_collate([object()])
    with pytest.raises(TorporError, match="different numbers"):
        data.default_collate([(1,), (1, 2)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"shuffle": True, "sampler": [0]}, "shuffle cannot"),
        ({"batch_sampler": [[0]], "batch_size": 4}, "takes the place"),
        ({"num_workers": -1}, "at least 0"),
    ],
)
def test_arguments_that_make_no_sense(options, text):
    with pytest.raises(TorporError, match=text):
        data.DataLoader(range(4), **options)


def test_progress_is_drawn(capsys):
    before = threading.active_count()
    threads = [threading.active_count() for _ in data.DataLoader(range(4), 2, progress=True)]
    assert threads == [before] * 2  # beside others a step writes over no value
    assert "batches" in capsys.readouterr().out


def test_collate_and_convert_give_tensors():
    """The functions by themselves do what a loader does with them, also if it is told so."""
    numbers, others = data.default_collate([(1, 2.0), (3, 4.0)])
    assert numbers.tolist() == [1, 3] and others.dtype == torpor.float64
    assert data.default_collate([{"a": np.ones(2)}, {"a": np.zeros(2)}])["a"].shape == (2, 2)
    assert isinstance(data.default_convert(np.ones(2)), Tensor)
    samples = [(np.float32(n), n) for n in range(5)]
    for options in ({}, {"collate_fn": data.default_collate}):
        first, second = list(data.DataLoader(samples, batch_size=3, **options))[1]
        assert first.tolist() == [3, 4] and isinstance(second, Tensor)
    whole = data.DataLoader([np.ones(2)], batch_size=None, collate_fn=data.default_convert)
    assert isinstance(next(iter(whole)), Tensor)


def test_the_order_of_a_seed_is_the_same_with_workers_and_without():
    def order(workers):
        loader = data.DataLoader(
            Squares(), 2, shuffle=True, num_workers=workers, generator=torpor.Generator(3)
        )
        return [batch["y"].tolist() for batch in loader]

    assert order(0) == order(1)


def test_classes_of_data_say_what_they_give():
    for kind in (data.Dataset, data.ConcatDataset, data.Sampler, data.DataLoader):
        assert kind[int].__args__ == (int,)

    class Odd(data.Sampler[int]):
        def __iter__(self):
            return iter([1, 3])

    assert [one.item() for one in data.DataLoader(range(5), sampler=Odd())] == [1, 3]
