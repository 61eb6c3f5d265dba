"""Python blocks of Markdown pages."""

import re

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code_of(page):
    """Return the Python blocks of a page as one program."""
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


def pages_with_code(pages):
    """Return the pages that have a Python block, in alphabetical order."""
    return [page for page in sorted(pages) if code_of(page)]


def run_code(page):
    """Run the program of a page."""
    exec(compile(code_of(page), str(page), "exec"), {"__name__": "__main__"})
