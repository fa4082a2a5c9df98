import contextvars
import math

import ml_dtypes
import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, numbers
from torpor import Tensor, Variable, dtypes
from torpor.base.errors import DTypeError, ShapeError


def test_formats_of_data():
    assert Tensor(3).dtype is dtypes.int64
    assert Tensor(3.0).dtype is dtypes.float32
    assert Tensor(True).dtype is dtypes.bool
    assert Tensor([1, 2]).dtype is dtypes.int64
    assert Tensor([1, 2.0]).dtype is dtypes.float32
    assert Tensor([]).dtype is dtypes.float32
    assert Tensor([[True]]).dtype is dtypes.bool
    assert Tensor(np.float64(2)).dtype is dtypes.float64
    assert Tensor([1.5], dtype="float16").dtype is dtypes.float16
    for name in ("int8", "uint16", "int32", "uint64", "float16", "float64", "bool"):
        assert Tensor(np.ones(2, name)).dtype.name == name
        check(Tensor(np.ones((2, 3), name)), np.ones((2, 3), name))
    brain = np.array([1.5, 2], ml_dtypes.bfloat16)
    check(Tensor(brain), brain)
    assert (dtypes.int, dtypes.float) == (dtypes.int32, dtypes.float32)


def test_data_is_copied_at_the_call():
    array = np.zeros(3)
    tensor = Tensor(array)
    array[0] = 1
    check(tensor, np.zeros(3))
    other = Tensor(tensor)
    tensor += 1
    check(other, np.zeros(3))


def test_data_of_many_kinds():
    check(Tensor(np.arange(6).reshape(2, 3)[:, ::-2]), np.arange(6).reshape(2, 3)[:, ::-2])
    check(Tensor([Tensor([1.0]), Tensor([2.0])]), np.array([[1], [2]], np.float32))
    check(Tensor((1, 2), dtype=float), np.array([1, 2], np.float32))
    check(Tensor([[1, 2], [3, 4]], dtype=dtypes.uint8), np.array([[1, 2], [3, 4]], np.uint8))
    check(Tensor(2.7, dtype=int), np.array(2))
    for wrong, error in (([[1], [1, 2]], ValueError), ("text", TypeError), ([None], TypeError)):
        with pytest.raises(error):
            Tensor(wrong)


def test_constants():
    check(torpor.zeros(2, 3), np.zeros((2, 3), np.float32))
    check(torpor.ones((2,), dtype="int8"), np.ones(2, np.int8))
    check(torpor.full((2, 2), 7), np.full((2, 2), 7))
    check(torpor.full((2,), 0.5, dtype="float64"), np.full(2, 0.5))
    check(torpor.full((), -0.0), np.float32(-0.0))
    check(torpor.eye(3), np.eye(3, dtype=np.float32))
    check(torpor.eye(2, 4, dtype="int32"), np.eye(2, 4, dtype=np.int32))
    x = Tensor(numbers((2, 3), "float64"))
    check(x.ones_like(), np.ones((2, 3)))
    check(torpor.zeros_like(x, dtype="int64"), np.zeros((2, 3), np.int64))
    check(x.new_full((2,), 3), np.full(2, 3.0))
    assert x.empty_like().shape == torpor.empty(2, 3).shape == (2, 3)
    assert torpor.ones(3, requires_grad=True).requires_grad


RANGES = [
    (5,),
    (2, 9),
    (2, 9, 3),
    (9, 2, -2),
    (0,),
    (5, 5),
    (3000,),
    (-3, 2500, 7),
    (1.0, 2.0, 0.1),
    (5.5,),
    (2, -1, -0.5),
]


@pytest.mark.parametrize("arguments", RANGES, ids=str)
def test_ranges(arguments):
    expected = np.arange(*arguments)
    if expected.dtype == np.float64:
        expected = expected.astype(np.float32)
    check(torpor.arange(*arguments), expected)


def test_ranges_have_formats_and_steps():
    check(torpor.arange(3, dtype="float16"), np.arange(3, dtype=np.float16))
    check(torpor.arange(300, dtype="uint8"), np.arange(300).astype(np.uint8))
    for steps in (0, 1, 2, 7):
        check(torpor.linspace(-1, 2, steps), np.linspace(-1, 2, steps, dtype=np.float32))
    assert torpor.linspace(0, 0.1, 1001).numpy()[-1] == np.float32(0.1)
    with pytest.raises(ValueError, match="not 0"):
        torpor.arange(1, 2, 0)
    assert torpor.arange(2**63 - 3, 2**63, 2).tolist() == [2**63 - 3, 2**63 - 1]
    assert torpor.arange(-(2**63), 2**63, 2**63).tolist() == [-(2**63), 0]
    for arguments in ((2**64,), (2**63, 2**63 - 2, -1), (-(2**63) - 1, 0), (10**400,)):
        with pytest.raises(DTypeError, match="does not fit"):
            torpor.arange(*arguments)


def test_default_dtype_is_what_python_floats_become():
    torpor.set_default_dtype("float64")
    try:
        assert Tensor([1.0]).dtype is dtypes.float64
        assert (Tensor([1]) / 2).dtype is dtypes.float64
        assert Tensor.rand(2).dtype is dtypes.float64
    finally:
        torpor.set_default_dtype("float32")
    with pytest.raises(TypeError, match="float format"):
        torpor.set_default_dtype("int32")


def test_files(tmp_path):
    array = np.arange(12, dtype=np.int16)
    path = tmp_path / "with a space.bin"
    path.write_bytes(array.tobytes())
    whole = Tensor.from_file(path, dtype="int16")
    assert (whole.device, whole.shape) == ("DISK", (12,))
    check(whole[2:7].to("CPU") + 1, array[2:7] + 1)


def test_devices():
    with torpor.device("CPU:1"):
        x = torpor.ones(3)
    assert x.device == "CPU:1"
    assert x.cpu().device == "CPU"
    with pytest.raises(RuntimeError, match=r"CPU:1.*CPU|CPU.*CPU:1"):
        x + torpor.ones(3)
    assert (x + Tensor(2.0)).device == "CPU:1"
    check(x.to("CPU") + torpor.ones(3), np.full(3, 2, np.float32))
    with pytest.raises(RuntimeError, match="NOSUCH"):
        Tensor([1.0], device="NOSUCH")


def test_a_device_is_a_name_and_a_context():
    second = torpor.device("cpu", 1)
    assert second == "CPU:1" == torpor.device("cpu:1")
    assert (second.type, second.index, torpor.device("cpu").index) == ("cpu", 1, None)
    x = torpor.ones(2, device=second).to(second)
    assert x.device == second and x.to("cpu").device.type == "cpu"
    with second as inside, torpor.device("cpu"), second:
        assert torpor.zeros(1).device == inside == "CPU:1"
    assert torpor.zeros(1).device == "CPU"
    with pytest.raises(RuntimeError, match="NOSUCH"):
        torpor.device("NOSUCH")


def test_the_default_device_is_the_contexts():
    def inside():
        torpor.set_default_device("CPU:1")
        assert torpor.get_default_device() == "CPU:1"
        return torpor.zeros(1).device

    assert contextvars.copy_context().run(inside) == "CPU:1"
    assert torpor.zeros(1).device == "CPU"


def test_negative_sizes_and_unknown_options_are_errors():
    for call in (lambda: torpor.zeros(-1), lambda: torpor.empty(2, -3), lambda: torpor.rand(-2)):
        with pytest.raises(ValueError, match="negative"):
            call()
    with pytest.raises(TypeError, match="colour"):
        torpor.zeros(2, colour="red")
    with pytest.raises(TypeError, match="unknown dtype"):
        torpor.zeros(2, dtype="float33")


@pytest.mark.parametrize(
    ("data", "dtype"),
    [(2**70, None), ([2**63], None), ([2**80, 1], None), ([300], "int8"), ([-1], "uint8")],
)
def test_integers_that_do_not_fit_are_refused(data, dtype):
    with pytest.raises(TypeError, match="does not fit into"):
        Tensor(data, dtype=dtype)


def test_floats_become_integers_as_on_devices():
    wild = [math.nan, math.inf, -math.inf, 1e30, -3.7, 2.0**63]
    for dtype in (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64):
        computed = Tensor(wild, dtype=dtypes.float64).cast(dtype).tolist()
        exact = [0 if math.isnan(v) else min(max(v, dtype.min), dtype.max) for v in wild]
        assert Tensor(wild, dtype=dtype).tolist() == computed == [math.trunc(v) for v in exact]


def test_what_has_no_size_is_refused():
    for make in (
        lambda: Tensor.arange(math.nan),
        lambda: Tensor.arange(0, math.inf),
        lambda: Tensor.eye(-1),
    ):
        with pytest.raises(ShapeError):
            make()
    with pytest.raises(TypeError, match="str 'a'"):
        Tensor.full((2,), "a")


def test_what_shares_no_memory_is_refused(tmp_path):
    with pytest.raises(TypeError, match="NumPy array"):
        Tensor.from_numpy([1, 2])
    with pytest.raises(TypeError, match="int"):
        Tensor.from_dlpack(3)
    path = tmp_path / "ten bytes"
    path.write_bytes(bytes(10))
    with pytest.raises(ShapeError, match="2 bytes more than 2 elements"):
        Tensor.from_file(path, dtypes.float32)


@pytest.mark.parametrize("name", ["void", "index", dtypes.void, dtypes.index])
def test_what_only_programs_have_is_no_format_of_a_tensor(name, tmp_path):
    (tmp_path / "file").write_bytes(bytes(8))
    for make in (
        lambda: Tensor.from_file(tmp_path / "file", name),
        lambda: Tensor.zeros(2, dtype=name),
        lambda: Tensor([1], dtype=name),
        lambda: Tensor([1]).cast(name),
    ):
        with pytest.raises(TypeError, match="no format of a tensor"):
            make()


def test_new_tensors_have_the_old_ones_format_and_device():
    x = Tensor.ones(2, dtype="float64", device="PYTHON")
    made = x.new_zeros(3, 1), x.new_ones((2,)), x.new_full((1,), 7, dtype="int8")
    assert [t.tolist() for t in made] == [[[0.0]] * 3, [1.0, 1.0], [7]]
    assert [t.dtype.name for t in made] == ["float64", "float64", "int8"]
    assert {t.device for t in made} == {"PYTHON"}
    assert (x.element_size(), x.itemsize, x.nbytes) == (8, 8, 16)


@pytest.mark.parametrize("bound", [1, 2, 5, 8])
def test_ranges_by_bound_variables(bound):
    n, step = Variable("n", 1, 8).bind(bound), Variable("step", 1, 3).bind(2)
    cases = [
        ((n,), (bound,)), ((2, n + 2, 2), (2, bound + 2, 2)), ((n, 12, 3), (bound, 12, 3)),
        ((0, 10, n), (0, 10, bound)), ((n, 0, -1), (bound, 0, -1)), ((4, n), (4, bound)),
        ((n, n * 3, step), (bound, bound * 3, 2)), ((9, n, step * -1), (9, bound, -2)),
    ]  # fmt: skip
    for ours, theirs in cases:
        check(Tensor.arange(*ours), np.arange(*theirs))
        assert Tensor.arange(*ours).sum().item() == np.arange(*theirs).sum()
    check(Tensor.arange(1, n, dtype="float32"), np.arange(1, bound, dtype=np.float32))
    check(Tensor.linspace(1, n, 5), np.linspace(1, bound, 5, dtype=np.float32))
    check(Tensor.linspace(0, 1, n), np.linspace(0, 1, bound, dtype=np.float32))
    check(Tensor.eye(n, 3), np.eye(bound, 3, dtype=np.float32))
    check(Tensor.full((2, n), n), np.full((2, bound), bound))


def test_ranges_by_bound_variables_that_have_no_length():
    n = Variable("n", -1, 8).bind(2)
    with pytest.raises(TypeError, match="integers"):
        Tensor.arange(0.5, n)
    with pytest.raises(ValueError, match="not 0"):
        Tensor.arange(0, 9, n)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tensor.linspace(0, 1, 5, dtype="bool"),
        lambda: Tensor.arange(5, dtype="bool"),
        lambda: Tensor.arange(0.0, 5.0, dtype="bool"),
    ],
)
def test_bools_are_no_series(call):
    with pytest.raises(DTypeError, match="not bools"):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Tensor.linspace(0, 5, 2.5), "is an integer"),
        (lambda: Tensor.linspace(0, 5, -1), "cannot be negative"),
        (lambda: Tensor.linspace(0, 5, True), "is an integer"),
        (lambda: Tensor.eye(2, -1), "cannot be negative"),
        (lambda: Tensor.full((2,), Tensor([1.5])), "0-d"),
    ],
)
def test_numbers_of_elements_and_fillings(call, text):
    with pytest.raises(ShapeError, match=text):
        call()


def test_bounds_may_be_0d_tensors_and_numbers_of_numpy():
    check(Tensor.arange(Tensor(3)), np.arange(3))
    check(Tensor.arange(np.int64(1), np.int64(4)), np.arange(1, 4))
    check(Tensor.linspace(Tensor(0.0), Tensor(5.0), 3), np.float32([0, 2.5, 5]))


def test_arange_of_int64_counts_with_integers():
    """As in PyTorch: start and step are cut off, not the results; how many is of the floats."""
    for dtype in ("int64", "int32"):
        assert Tensor.arange(0, 2.5, 1, dtype=dtype).tolist() == [0, 1, 2]
        assert Tensor.arange(0.9, 4.5, 1.5, dtype=dtype).tolist() == [0, 1, 2]
        assert Tensor.arange(-0.5, 2, dtype=dtype).tolist() == [0, 1, 2]
        assert Tensor.arange(5, 4, -0.5, dtype=dtype).tolist() == [5, 5]


def test_logspace_and_scalars():
    made = Tensor.logspace(-1, 2, 4).numpy()
    np.testing.assert_allclose(made, np.logspace(-1, 2, 4), 1e-6)
    assert Tensor.logspace(0, 3, 4, base=2, dtype="int64").tolist() == [1, 2, 4, 8]
    assert Tensor.scalar_tensor(3).tolist() == 3.0
    assert Tensor.scalar_tensor(3).dtype.name == "float32"


def test_whole_powers_between_whole_exponents():
    made = Tensor.logspace(4.3, 1.2, 2, dtype=dtypes.int64)
    assert made.tolist() == [10000, 10]


def test_whole_numbers_lie_between_whole_ends():
    assert Tensor.linspace(4.3, -3.6, 3, dtype=dtypes.int64).tolist() == [4, 0, -3]


def test_what_has_an_array_interface_keeps_its_format():
    class Picture:
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__
            self.array = array

    array = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    made = Tensor(Picture(array))
    assert made.dtype is torpor.uint8
    check(made, array)


def test_range_has_its_end():
    assert torpor.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert torpor.range(0, 1, 0.3, dtype="float64").tolist() == pytest.approx([0, 0.3, 0.6, 0.9])
    assert torpor.range(4, 1, -1.5).tolist() == [4.0, 2.5, 1.0]
    with pytest.raises(ShapeError, match="no end"):
        torpor.range(1, 4, -1)


def test_views_of_arrays_share_memory():
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array[:, 1], array[..., 0], array.T, array[:, :, 1:3], array[0, :, 2]):
        made = Tensor.from_numpy(view)
        assert (made.numpy() == view).all()
        view += 1
        assert (made.numpy() == view).all()
        made.mul_(2).realize()
        assert (made.numpy() == view).all()
    fixed = np.broadcast_to(np.arange(3.0)[:, None], (3, 2))
    assert (Tensor.from_numpy(fixed).numpy() == fixed).all()
    with pytest.raises(ShapeError, match="copy it"):
        Tensor.from_numpy(array[::-1])


@pytest.mark.parametrize("make", [lambda: Tensor.zeros(3), lambda: Tensor.ones(4)[1:] * 0])
def test_a_constant_is_handed_on_as_memory_of_its_own(make):
    x = make()
    np.from_dlpack(Tensor.from_dlpack(x))[1] = 5
    assert x.tolist() == [0, 5, 0]


def test_lists_with_tensors_anywhere_in_them():
    assert Tensor([[Tensor(1.0), 2], [3, Tensor(4)]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert Tensor([[2, 1], [Tensor(4.0), 5]]).dtype is dtypes.float32
    assert Tensor([2, Tensor(4)]).dtype is dtypes.int64
    assert Tensor([[1, 2], Tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert Tensor([1, Tensor(1j)]).tolist() == [1, 1j]


def test_lines_between_complex_numbers():
    assert torpor.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert torpor.linspace(1 + 1j, 3 - 1j, 3, dtype="complex128").tolist() == [1 + 1j, 2, 3 - 1j]
    assert torpor.linspace(0, 1, 2, dtype="complex64").dtype is dtypes.complex64
    with pytest.raises(DTypeError, match="gives complex ones, not"):
        torpor.linspace(0, 1j, 3, dtype="float32")
