"""GGUF files: facts and numbers come out as written, damaged files are refused by name."""

import struct

import numpy as np
import pytest

from torpor import Tensor, lower
from torpor.base.errors import ParseError
from torpor.nn.gguf import gguf_load
from torpor.nn.gguf_blocks import BLOCKS

# By kind: bytes of a block; numbers of two blocks, whose byte i is (37 i + 11) mod 256 but for
# d = 0.5, m = -3 and e = 1, 130: some, and the sum of i times number i. What llama.cpp's own
# package `gguf` 0.19 gives.
WRITTEN = {
    2: (18, [-1.5, 1.0, -4.0, -1.5, 0.0, -1.0, 3.5], -519.5),
    3: (20, [4.5, -1.0, 2.0, 1.5, 3.0, 2.0, 1.0], 1795.0),
    6: (22, [4.5, -1.0, -6.0, 7.0, 0.5, 7.0, 0.5], -52.5),
    7: (24, [6.5, 9.0, 12.0, 6.5, -0.5, 6.0, 2.5], 8938.0),
    8: (34, [42.5, 61.0, -64.0, -45.5, -24.0, -21.0, -53.5], -6704.0),
    10: (84, [16.5, 0.0, 21.0, 13.5, 12.0, 39.0, 20.0], 3394971.0),
    11: (110, [40.5, -54.0, 36.0, 1.0, 21.0, -10.0, 3.0], 54930.0),
    12: (144, [323.5, 153.0, 151.0, 250.5, 138.0, 324.0, 210.0], 27338624.0),
    13: (176, [571.5, 153.0, 109.0, 562.5, 168.0, 260.0, 140.0], 40063672.0),
    14: (210, [-715.5, 848.0, 750.0, -175.5, -30.0, 106.5, 1000.0], 901694.0),
    20: (18, [-17.5, 12.5, -63.5, -17.5, 0.5, -11.0, 56.5], -6015.5),
    23: (136, [32.5, -0.5, 98.0, -292.5, -8.0, 350.0, 1092.0], 453780.5),
    34: (54, [-0.5, -0.5, -0.5, 0.0, -0.5, 0.0, -0.5], -301.5),
    35: (66, [1.0, -0.5, 0.5, 1.0, -0.5, -0.5, 0.5], 33059.5),
    39: (17, [0.0, 3 * 2**-126, -1.5 * 2**-126, 1.5 * 2**-126, 3 * 2**-126, -16.0, -8.0], -3568.0),
}
FACTS = {
    "general.architecture": (8, "größe"),
    "count": (4, 7),
    "rate": (6, 0.5),
    "yes": (7, True),
    "far": (11, -(2**40)),
    "words": (9, (8, ["a", "", "重"])),
    "numbers": (9, (5, [3, -1])),
    "nothing": (9, (4, [])),
}
CODES = ["B", "b", "H", "h", "I", "i", "f", "?", "-", "-", "Q", "q", "d"]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def fact(kind, value):
    if kind == 8:
        return text(value)
    if kind == 9:
        inner, members = value
        head = struct.pack("<IQ", inner, len(members))
        return head + b"".join(fact(inner, member) for member in members)
    return struct.pack("<" + CODES[kind], value)


def document(tensors, facts=FACTS, version=3, alignment=32):
    """A file of (name, sizes with the last axis first, kind, bytes)."""
    made = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(facts))
    for name, (kind, value) in facts.items():
        made += text(name) + struct.pack("<I", kind) + fact(kind, value)
    data = b""
    for name, sizes, kind, content in tensors:
        made += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += content + b"\0" * (-len(content) % alignment)
    return made + b"\0" * (-len(made) % alignment) + data


def loaded(tmp_path, content):
    (tmp_path / "model.gguf").write_bytes(content)
    return gguf_load(tmp_path / "model.gguf")


def two_blocks(kind):
    form = np.dtype(BLOCKS[kind].fields)
    data = ((np.arange(2 * form.itemsize) * 37 + 11) % 256).astype(np.uint8)
    given = {"d": 0.5, "m": -3, "e": [[1], [130]]}
    for name in given.keys() & set(form.names):
        data.view(form)[name] = given[name]
    return data.tobytes()


def test_facts_and_plain_tensors_come_out_as_written(tmp_path):
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = [("w", (3, 2), 0, matrix.tobytes()), ("half", (2,), 1, b"\0\x3c\0\xc0"),
               ("small", (3,), 24, b"\1\xff\x80"), ("bf", (1,), 30, b"\xc0\x3f"),
               ("far", (1,), 27, struct.pack("<q", -(2**60))),
               ("none", (0, 4), 0, b"")]  # fmt: skip
    facts, found = loaded(tmp_path, document(tensors))
    plain = {name: value[1] if kind == 9 else value for name, (kind, value) in FACTS.items()}
    assert facts == plain and list(found) == ["w", "half", "small", "bf", "far", "none"]
    assert (found["w"].numpy() == matrix).all() and found["none"].shape == (4, 0)
    assert found["half"].tolist() == [1, -2] and found["half"].dtype.name == "float16"
    assert found["small"].tolist() == [1, -1, -128] and found["bf"].tolist() == [1.5]
    assert found["far"].item() == -(2**60)


@pytest.mark.parametrize("kind", WRITTEN)
def test_blocks_hold_the_numbers_of_the_format(kind, tmp_path):
    size, some, total = WRITTEN[kind]
    content = two_blocks(kind)
    assert len(content) == 2 * size
    count = BLOCKS[kind].size
    _, found = loaded(tmp_path, document([("w", (count, 2), kind, content)]))
    values = found["w"].numpy()
    assert values.shape == (2, count) and values.dtype == np.float32
    places = [0, 1, count // 2 - 1, count // 2, count - 1, count + count // 4 + 3, 2 * count - 2]
    assert values.reshape(-1)[places].tolist() == some
    assert values.reshape(-1).astype(np.float64) @ np.arange(2 * count) == total


def test_every_format_is_tested():
    assert BLOCKS.keys() == WRITTEN.keys()


def test_a_product_reads_the_codes(tmp_path):
    """Rows of 8 blocks of Q8_0: no kernel stores the matrix."""
    content = two_blocks(8) * 4 * 16
    _, found = loaded(tmp_path, document([("w", (256, 16), 8, content)]))
    x = Tensor.arange(256).cast("float32").reshape(1, 256).realize()
    product = x @ found["w"].T
    assert len(lower(product)) == 1
    block = np.frombuffer(two_blocks(8), np.dtype(BLOCKS[8].fields))["qs"].astype(np.float64) / 2
    expected = np.arange(256.0) @ np.tile(block.reshape(-1), 4)
    assert np.allclose(product.numpy(), np.full((1, 16), expected), rtol=1e-6)


def test_alignment_is_what_the_file_says(tmp_path):
    facts = {"general.alignment": (4, 256)}
    content = document([("x", (1,), 0, struct.pack("<f", 2.5))], facts, 2, 256)
    assert loaded(tmp_path, content)[1]["x"].tolist() == [2.5]


WHOLE = document([("x", (32,), 2, two_blocks(2)[:18])])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "ends within"),
        (b"GGML" + WHOLE[4:], "begins with b'GGML'"),
        (b"GGUF" + struct.pack("<I", 9) + WHOLE[8:], "version 9"),
        (WHOLE[:60], "ends within"),
        (WHOLE.rstrip(b"\0")[:-1], "ends within 'x'"),
        (WHOLE.replace(b"far", b"\xff\xff\xff"), "utf-8"),
        (document([("x", (3,), 2, b"")]), "no whole blocks of 32: \\(3,\\)"),
        (document([("x", (256,), 16, b"")]), "format IQ2_XXS"),
        (document([("x", (1,), 77, b"")]), "format number 77"),
        (document([("x", (1,), 0, b"abcd")] * 2), "twice"),
        (WHOLE.replace(b"far", b"yes"), "twice"),
        (document([("x", (2**40, 2**40), 0, b"")]), "ends within 'x'"),
        (document([], {"general.alignment": (4, 3)}), "no power of two"),
        (document([], {"a": (0, 1)}).replace(b"a\0\0\0\0", b"a\x63\0\0\0"), "kind 99"),
    ],
)
def test_damaged_files_are_refused(content, words, tmp_path):
    with pytest.raises(ParseError, match=words):
        loaded(tmp_path, content)


def test_lists_that_are_nested_too_deep_are_refused(tmp_path):
    deep = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 9)
    with pytest.raises(ParseError, match="GGUF file"):
        loaded(tmp_path, deep + struct.pack("<IQ", 9, 1) * 20_000)
