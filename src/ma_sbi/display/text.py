"""Text that came from outside, made safe to print."""

from typing import Any

__all__ = ["in_short", "printable"]


def printable(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)


def in_short(said: Any, most: int = 200) -> str:
    r"""Put what came from outside into one line that is printable and not long.

    Args:
        said: A text, an error or anything else that ``str`` can print.
        most: Most characters; of a longer text, beginning and end are left.

    Example:
        >>> in_short("a name\nwith \x1b[31mcolour")
        'a name with \ufffd[31mcolour'
        >>> in_short("x" * 1_000_000, most=11)
        'xxx ... xxx'
    """
    text = str(said) or type(said).__name__
    if len(text) > 4 * most:  # before the slower steps
        text = text[: 2 * most] + text[-2 * most :]
    line = printable(" ".join(text.split()))
    if len(line) <= most:
        return line
    half = (most - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"
