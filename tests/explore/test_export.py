"""The page as files."""

import json
import re

from torpor.explore.export import export


def test_the_page_needs_nothing_that_is_not_in_the_folder(trace, tmp_path):
    page = export(trace, tmp_path / "a" / "b")
    folder = page.parent
    assert "<title>torpor explorer</title>" in page.read_text()
    scripts = [page.name, "main.js"]
    while scripts:
        text = (folder / scripts.pop()).read_text()
        scripts += re.findall(r'from "\./([\w.]+)"', text)
        for name in re.findall(r'(?:href|src)="([\w.]+)"', text):
            assert (folder / name).exists(), name
    index = json.loads((folder / "data" / "index.json").read_text())
    assert index["static"] is True
    for one in index["kernels"]:
        assert json.loads((folder / "data" / f"kernel-{one['number']}.json").read_text())["source"]
    assert not (folder / "views.html").exists()
