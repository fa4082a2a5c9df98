"""The tables in Markdown, from records written by hand."""

from __future__ import annotations

import json

import pytest

from bench import markdown
from tests.bench.test_report import NAME, OTHER, record, result, run


def written(tmp_path, *runs):
    """JSON files of these runs."""
    paths = []
    for number, made in enumerate(runs):
        paths.append(str(tmp_path / f"{number}.json"))
        (tmp_path / f"{number}.json").write_text(json.dumps(record(made)))
    return paths


def one_and_two():
    one = run(
        (NAME, result("torpor", [2e-4] * 3), result("numpy", [2.4e-4, 3e-4, 3.6e-4])),
        ("matmul/256", result("torpor", [2e-3]), result("jax", [1e-3])),
    )
    two = run(
        (NAME, result("torpor", [1e-4]), result("torpor plain", [3e-4]), result("jax", [1e-4])),
        (OTHER, result("torpor", [2e-3]), result("torch", [1.9e-3])),
    )
    two["threads"] = 2
    return one, two


def test_each_number_of_threads_has_a_table(tmp_path, capsys):
    one, two = one_and_two()
    assert markdown.main(written(tmp_path, two, one)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        f"| {NAME} | 200 us | 0 % | 500 ms | 21 % | - "
        "| numpy | 300 us | 20 % | 500 ms | 1.50 | 3 |" in lines
    )
    assert (
        f"| {NAME} | 100 us | - | 500 ms | 42 % | 300 us | jax | 100 us | - | 500 ms | 1.00 | 1 |"
        in lines
    )
    heads = [line for line in lines if line.startswith("## Every workload")]
    assert heads == ["## Every workload, threads: 1", "## Every workload, threads: 2"]
    for table in ("matmul/", "memory/", "| workload"):
        assert {line.count("|") for line in lines if line.startswith(f"| {table}")} <= {13}


def test_families_have_their_floors(tmp_path, capsys):
    one, two = one_and_two()
    markdown.main(written(tmp_path, one, two))
    lines = capsys.readouterr().out.splitlines()
    assert "| matmul | 2 | 0.87 | 1.0 | 0.9 | 1 | 0.50 | 256 |" in lines
    assert "| memory | 1 | 0.95 | 1.5 | 1.0 | 1 | 0.95 | sum-64MB |" in lines
    assert any(line.startswith("| matmul/256") and "**0.50**" in line for line in lines)
    assert any(
        line.startswith("Of the measured bandwidth, wanted 80 %: sum-64MB") for line in lines
    )


def test_what_failed_or_has_no_peer_is_a_dash():
    made = run((NAME, result("torpor", [], "failed")), (OTHER, result("torpor", [1e-3])))
    text = markdown.text_of([record(made)])
    assert f"| {NAME} | failed | - | - | - | - | - | - | - | - | - | 0 |" in text
    assert f"| {OTHER} | 1 ms | - | 500 ms | 336 % | - | - | - | - | - | - | 1 |" in text


def test_contenders_that_do_not_count_have_a_table_of_their_own():
    made = run(
        (NAME, result("torpor", [1e-3]), result("torch", [2e-3]), result("onnxruntime", [3e-3]),
         result("tinygrad", [], "skipped", "it needs clang here")),
        (OTHER, result("torpor", [4e-3]), result("torch", [5e-3]),
         result("onnxruntime", [], "missing", "not written"),
         result("tinygrad", [], "skipped", "it needs clang here")),
    )  # fmt: skip
    text = markdown.text_of([record(made)])
    assert "| workload | torpor | torch | onnxruntime | tinygrad |" in text
    assert f"| {NAME} | 1 ms | *2 ms* | 3 ms | skipped |" in text
    assert f"| {OTHER} | 4 ms | *5 ms* | - | skipped |" in text
    assert f"- tinygrad: skipped: it needs clang here ({NAME}, {OTHER})" in text
    text = markdown.text_of([record(run((NAME, result("torpor", [1e-3]), result("jax", [1e-3]))))])
    assert not any("All contenders" in line for line in text), "they stand in the other table"


def test_how_it_was_called_and_how_long_it_took():
    made = run((NAME, result("torpor", [1e-3])))
    made["effort"] = {"rounds": 3, "most": 15}
    made["results"][0]["seconds"] = 90.0
    told = {**record(made), "command": "python -m bench", "date": "2026-11-21"}
    assert "`python -m bench`, 2026-11-21, 2 minutes, 3 to 15 rounds." in markdown.text_of([told])


def test_what_people_wrote_around_the_tables_stays(tmp_path):
    target = tmp_path / "full.md"
    one, two = one_and_two()
    target.write_text(f"# All\n\nBefore.\n\n{markdown.BEGIN}\nstale\n{markdown.END}\n\nAfter.\n")
    arguments = [*written(tmp_path, one, two), "--into", str(target)]
    assert markdown.main(arguments) == 0
    first = target.read_text()
    assert first.startswith("# All\n\nBefore.\n")
    assert first.endswith("\nAfter.\n")
    assert "stale" not in first
    assert f"| {NAME} |" in first
    assert markdown.main(arguments) == 0
    assert target.read_text() == first, "the same files make the same record"


def test_a_record_that_is_not_there_is_begun(tmp_path):
    target = tmp_path / "new.md"
    markdown.main([*written(tmp_path, one_and_two()[0]), "--into", str(target)])
    assert target.read_text().startswith("# new\n")


def test_without_files_it_says_how_it_is_called(capsys):
    with pytest.raises(SystemExit):
        markdown.main([])
    assert "usage" in capsys.readouterr().err
