"""What our pages share: their style, their head, and text that is only text.

A page needs no network and no other file. All text goes through :func:`text`, because a
context may contain anything.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

from ma_sbi.display.text import printable

__all__ = ["STYLE", "document", "text"]

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2329; --faint: #667079;
  --line: #d9dee3; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181c; --ink: #e3e8ec; --faint: #98a2ab; --line: #323a42;
    --card: #1c2228; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.1rem; font-weight: 600; color: var(--faint); margin: 0 0 .75rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
.faint, figcaption { color: var(--faint); font-size: .9rem; }
.pictures { display: grid; gap: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
figure { margin: 0; padding: 1rem; background: var(--card); border-radius: .4rem; }
figure h3 { font-size: 1rem; margin: 0 0 .5rem; }
figure svg { display: block; width: 100%; height: auto; max-height: 24rem; }
figcaption { margin-top: .5rem; }
"""


def text(written: str) -> str:
    """Make a text safe to put into a page, whatever it contains."""
    return escape(printable(written))


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Make a whole page.

    Args:
        title: Title of the page, as text.
        body: What it shows, as HTML.
        style: Rules after the shared ones.
        script: The only script that may run.
    """
    # Nothing but what is in the page: should a text slip through, it does nothing.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
        body += f"\n<script>{script}</script>"
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<meta http-equiv='Content-Security-Policy' content=\"{policy}\">\n"
        f"<title>{text(title)}</title>\n"
        f"<style>{STYLE}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
