"""Interpolation and grids: beside a brute force over the same formulas, and PyTorch's values."""

import numpy as np
import pytest

import torpor.nn.functional as F
from torpor import Tensor
from torpor.base.errors import ShapeError, ValueRangeError

LINE = np.arange(1.0, 5.0, dtype=np.float32).reshape(1, 1, 4)
IMAGE = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) ** 1.5


def flat(tensor):
    return [round(v, 4) for v in tensor.reshape(-1).tolist()]


# What PyTorch 2.13 gives for 1, 2, 3, 4.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"size": 6}, [1, 1, 2, 3, 3, 4]),
        ({"size": 6, "mode": "nearest-exact"}, [1, 2, 2, 3, 4, 4]),
        ({"size": 6, "mode": "linear"}, [1, 1.5, 2.1667, 2.8333, 3.5, 4]),
        ({"size": 7, "mode": "linear", "align_corners": True}, [1, 1.5, 2, 2.5, 3, 3.5, 4]),
        ({"scale_factor": 0.5, "mode": "linear"}, [1.5, 3.5]),
        ({"scale_factor": 1.6, "mode": "linear"}, [1, 1.4375, 2.0625, 2.6875, 3.3125, 3.9375]),
        ({"size": 2, "mode": "area"}, [1.5, 3.5]),
        ({"size": 1, "mode": "linear", "align_corners": True}, [1]),
    ],
)
def test_lines(options, expected):
    assert flat(F.interpolate(Tensor(LINE), **options)) == expected


def cubic(distance):
    d, a = abs(distance), -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resampled(image, size, kernel, reach):
    """Sums over neighbours, those beyond the border being the border's."""
    for axis, count in zip((2, 3), size):
        length, rows = image.shape[axis], []
        for place in range(count):
            centre = (place + 0.5) * length / count - 0.5
            first = int(np.floor(centre))
            rows.append(sum(kernel(centre - at) * image.take(min(max(at, 0), length - 1), axis)
                            for at in range(first - reach + 1, first + reach + 1)))  # fmt: skip
        image = np.stack(rows, axis)
    return image


@pytest.mark.parametrize("size", [(5, 7), (2, 3), (3, 4)])
def test_pictures(size):
    x = Tensor(IMAGE)
    made = F.interpolate(x, size, mode="bicubic").numpy()
    np.testing.assert_allclose(made, resampled(IMAGE, size, cubic, 2), 1e-4, 1e-4)
    made = F.interpolate(x, size, mode="bilinear").numpy()
    expected = resampled(IMAGE, size, lambda d: max(0, 1 - abs(d)), 1)
    np.testing.assert_allclose(made, expected, 1e-4, 1e-4)
    flat_picture = F.interpolate(x.ones_like(), size, mode="bilinear", antialias=True).numpy()
    np.testing.assert_allclose(flat_picture, np.ones_like(flat_picture), 1e-6)


def test_smoothing_takes_in_all_that_is_left_out():
    x = Tensor(np.eye(8, dtype=np.float32)[None, None, :1])
    made = F.interpolate(x, (1, 2), mode="bilinear", antialias=True)
    assert made.numpy()[0, 0, 0, 0] > 0
    assert F.interpolate(x, (1, 2), mode="bilinear").numpy()[0, 0, 0, 0] == 0


# What PyTorch 2.13 gives for these bytes.
@pytest.mark.parametrize(
    ("size", "mode", "expected"),
    [
        ((2, 3), "bilinear", [33, 228, 51, 76, 5, 210]),
        ((3, 2), "bicubic", [99, 139, 71, 134, 42, 128]),
        ((2, 6), "nearest", [0, 0, 200, 255, 255, 10, 90, 90, 3, 7, 7, 250]),
    ],
)
def test_pictures_of_bytes_stay_bytes(size, mode, expected):
    x = Tensor([[[[0, 200, 255, 10], [90, 3, 7, 250]]]], dtype="uint8")
    made = F.interpolate(x, size, mode=mode)
    assert made.dtype.name == "uint8" and made.reshape(-1).tolist() == expected


def test_what_cannot_be_interpolated_is_said():
    x = Tensor(LINE)
    with pytest.raises(ValueRangeError, match="a size or a scale_factor"):
        F.interpolate(x)
    with pytest.raises(ValueRangeError, match="has no mode 'bilinear'"):
        F.interpolate(x, 3, mode="bilinear")
    with pytest.raises(ShapeError, match="1 spatial axes need 1 numbers"):
        F.interpolate(x, (3, 3))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_a_grid_of_nothing_but_the_picture_gives_the_picture(mode, corners):
    theta = Tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(theta, (1, 1, 3, 4), corners)
    made = F.grid_sample(Tensor(IMAGE), grid, mode, align_corners=corners)
    np.testing.assert_allclose(made.numpy(), IMAGE, 1e-4, 1e-4)
    turned = Tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    made = F.grid_sample(Tensor(IMAGE), F.affine_grid(turned, (1, 1, 3, 4), corners), mode,
                         align_corners=corners)  # fmt: skip
    np.testing.assert_allclose(made.numpy(), IMAGE[..., ::-1], 1e-4, 1e-4)


# What PyTorch 2.13 gives at (x, y) = (-1.5, -1), (0.3, 0.2), (1.2, 2.6).
@pytest.mark.parametrize(
    ("padding", "corners", "expected"),
    [
        ("zeros", False, [0.0, 5.35, 0.0]),
        ("zeros", True, [0.0, 4.9, 0.0]),
        ("border", False, [0.0, 5.35, 8.0]),
        ("reflection", False, [0.25, 5.35, 2.3]),
        ("reflection", True, [0.5, 4.9, 3.0]),
    ],
)
def test_what_lies_beyond_a_picture(padding, corners, expected):
    image = Tensor(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
    grid = Tensor([[[[-1.5, -1.0], [0.3, 0.2], [1.2, 2.6]]]])
    made = F.grid_sample(image, grid, padding_mode=padding, align_corners=corners)
    assert flat(made) == expected


def test_cubes_and_slopes_of_grids():
    cube = Tensor(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
    grid = Tensor([[[[[0.0, 0.0, 0.5]]]]]).requires_grad_()
    made = F.grid_sample(cube, grid, align_corners=True)
    assert made.item() == pytest.approx(4 * 0.75 + 2 * 0.5 + 0.5)
    assert made.sum().gradient(grid)[0].reshape(-1).tolist() == pytest.approx([0.5, 1, 2])
    with pytest.raises(ValueRangeError, match="no mode 'cubic'"):
        F.grid_sample(cube, grid, "cubic")


def test_bicubic_grids_of_cubes_are_those_of_squares():
    """A cube of equal layers, looked at in its middle, is the picture that each of them is."""
    picture = np.random.default_rng(0).normal(size=(1, 1, 5, 5)).astype(np.float32)
    flat = np.array([[[[-0.3, 0.4], [0.2, 0.1]]]], np.float32)
    cube = np.repeat(picture[:, :, None], 5, 2)
    grid = np.concatenate([flat, np.zeros((1, 1, 2, 1), np.float32)], -1)[:, None]
    found = F.grid_sample(Tensor(cube), Tensor(grid), "bicubic", align_corners=True).numpy()
    known = F.grid_sample(Tensor(picture), Tensor(flat), "bicubic", align_corners=True).numpy()
    np.testing.assert_allclose(found[:, :, 0], known, rtol=1e-4, atol=1e-5)


def test_channels():
    x = np.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3)
    made = F.pixel_shuffle(Tensor(x), 2)
    expected = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)
    assert (made.numpy() == expected).all()
    assert (F.pixel_unshuffle(made, 2).numpy() == x).all()
    assert F.channel_shuffle(Tensor(x), 4).numpy()[0, :, 0, 0].tolist() == (
        x[0, [0, 2, 4, 6, 1, 3, 5, 7], 0, 0].tolist())  # fmt: skip


def test_one_point_that_is_smoothed_lies_in_the_corner():
    """As in PyTorch: the corners of one point are its source's first."""
    x = Tensor(np.arange(6.0).reshape(1, 1, 2, 3))
    options = {"align_corners": True, "antialias": True}
    assert F.interpolate(x, size=1, mode="bilinear", **options).item() == 0
    made = F.interpolate(Tensor(IMAGE), size=(1, 3), mode="bicubic", **options)
    assert flat(made) == [-0.8455, 1.0363, 3.4803]


@pytest.mark.parametrize("axes", [2, 3])
def test_nearest_grids_have_slope_0(axes):
    picture = Tensor.arange(2.0**axes).reshape(1, 1, *(2,) * axes).detach().requires_grad_()
    grid = Tensor([[-0.5, 0.2, 0.1][:axes], [0.3, 0.9, -0.2][:axes]]).reshape(1, *(1,) * axes, -1)
    grid = grid.reshape(1, *(1,) * (axes - 1), 2, axes).detach().requires_grad_()
    found = F.grid_sample(picture, grid, "nearest", align_corners=False)
    found.square().sum().backward()
    assert grid.grad.shape == grid.shape
    assert not grid.grad.any()
    assert picture.grad.sum().item() == 2 * found.sum().item()
    only = F.grid_sample(picture.detach(), grid, "nearest", align_corners=False)
    assert only.requires_grad


def test_coordinates_that_are_nan():
    picture = Tensor.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    grid = Tensor([[[[float("nan"), 1.0], [float("nan"), float("nan")]]]])
    for mode in ("bilinear", "nearest"):
        for padding in ("border", "reflection"):
            found = F.grid_sample(picture, grid, mode, padding, align_corners=True)
            assert found.flatten().tolist() == [13.0, 1.0]
    for padding in ("zeros", "border", "reflection"):
        assert F.grid_sample(picture, grid, "bicubic", padding, True).isnan().all()


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_grids_are_level_from_the_ends_of_the_picture_on(padding):
    picture = Tensor.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    grid = Tensor([[[[-1.0, 0.1], [0.1, 1.0]]]], requires_grad=True)
    F.grid_sample(picture, grid, "bilinear", padding, align_corners=True).sum().backward()
    slopes = grid.grad.reshape(2, 2)
    assert slopes.eq(0).tolist() == [[True, False], [False, True]]
