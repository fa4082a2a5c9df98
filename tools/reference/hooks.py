"""MkDocs' hooks: pages of the reference, and pages for what the documents link to outside docs/."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

from tools.reference import measure, pages  # noqa: E402
from tools.reference.listing import homes  # noqa: E402

# Links out of docs/ become plain text; blocks keep the first word of what they say they are.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[\w./-]+\)")
_LABEL = re.compile(r"^```(\w+) .*$", re.MULTILINE)
_NAME = re.compile(r"(?<![\[`\w])`((?:torpor|Tensor)\.[\w.]+)`")


def on_config(config: Any) -> Any:
    """Put the reference into the navigation, and what it does not list yet at the end."""
    listed = str(config.nav)
    later = [path.name for path in sorted(ROOT.glob("docs/*.md")) if path.name not in listed]
    config.nav += [{"Reference": pages.navigation()}, *([{"More": later}] if later else [])]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, which leave nothing out that there is to say."""
    lacking = {entry.path: measure.lacking(entry) for entry in homes().values()}
    if any(lacking.values()):
        raise PluginError(
            f"no word of { ({name: what for name, what in lacking.items() if what}) }"
        )
    for name, text in pages.pages():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write what only GitHub's Markdown knows otherwise, and link names of public functions."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    if page.file.src_uri == "index.md":
        markdown = _welcome() + "\n\n" + markdown.replace("# The doc", "## The doc", 1)
    text = _LABEL.sub(r"```\1", _OUTSIDE.sub(r"\1", markdown))
    return _NAME.sub(lambda found: pages.linked(found[1], "torpor", "reference/"), text)


def _welcome() -> str:
    """What README says torpor is, as the head of the home page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## How fast")[0]
    text = re.sub(r"\]\((?!docs/|https:)", "](../", text)
    return text.replace("](docs/", "](")
