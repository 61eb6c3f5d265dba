"""Text that came from outside, made safe to print."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)
