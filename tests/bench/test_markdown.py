"""The table of ratios in Markdown, from records written by hand."""

from __future__ import annotations

import json

from bench import markdown
from tests.bench.test_report import NAME, OTHER, record, result, run


def test_two_files_are_one_table_with_a_group_of_columns_each(tmp_path, capsys):
    one = run((NAME, result("torpor", [2e-4]), result("numpy", [3e-4])))
    two = run(
        (NAME, result("torpor", [1e-4]), result("jax", [1e-4])),
        (OTHER, result("torpor", [2e-3]), result("torch", [1e-3])),
    )
    two["threads"] = 2
    paths = []
    for number, made in enumerate((one, two)):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(record(made)))
    assert markdown.main([str(path) for path in paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"| {NAME} | 200 us | numpy | 300 us | 1.50 | 100 us | jax | 100 us | 1.00 |" in lines
    assert f"| {OTHER} | - | - | - | - | 2 ms | torch | 1 ms | 0.50 |" in lines
    assert "| matmul | 1.50 | 1.50 | 128 | 1.00 | 1.00 | 128 |" in lines
    assert "| memory | - | - | - | 0.50 | 0.50 | sum-64MB |" in lines
    assert len({line.count("|") for line in lines if line.startswith(f"| {NAME}")}) == 1


def test_what_failed_or_has_no_peer_is_a_dash():
    made = run((NAME, result("torpor", [], "failed")), (OTHER, result("torpor", [1e-3])))
    text = markdown.text_of([record(made)])
    assert f"| {NAME} | - | - | - | - |" in text
    assert f"| {OTHER} | 1 ms | - | - | - |" in text


def test_without_files_it_says_how_it_is_called(capsys):
    assert markdown.main([]) == 2
    assert "usage" in capsys.readouterr().err
