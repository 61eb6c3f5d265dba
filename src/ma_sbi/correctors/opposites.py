"""Words that turn a text into its opposite, which distances between texts do not show.

A list, not an understanding: what it finds and what it misses is measured in
``benchmarks/opposites.py``.
"""

from __future__ import annotations

import re

__all__ = ["may_oppose"]

_NEGATIONS = (
    "cannot; hardly; neither; never; no; nobody; none; nor; not; nothing; nowhere; without"
)
_PAIRS = (
    "above below; absent present; added removed; added subtracted; after before; "
    "ahead behind; always never; awake sleepy; bad good; badly well; better worse; "
    "big small; bigger smaller; bottom top; bright dark; bright dim; brighter darker; "
    "brighter dimmer; clean dirty; climbed fell; closed open; closed opened; cold hot; "
    "cold warm; colder hotter; colder warmer; cool warm; cooler warmer; dark light; "
    "decrease increase; decreased increased; decreases increases; decreasing increasing; "
    "down up; downwards upwards; dropped increased; dropped raised; dropped rose; "
    "drops rises; dry wet; early late; earlier later; east west; empty full; fall rise; "
    "falling rising; falls rises; farther nearer; far near; fast slow; faster slower; "
    "fell rose; few many; fewer more; first last; forward backward; forwards backwards; "
    "gain loss; gained lost; gains loses; heavier lighter; heavy light; high low; "
    "higher lower; highest lowest; in out; inside outside; large small; larger smaller; "
    "least most; left right; leftwards rightwards; less more; little much; long short; "
    "longer shorter; loose tight; lower upper; lowered raised; maximum minimum; "
    "narrow wide; narrower wider; negative positive; new old; north south; off on; "
    "open shut; over under; rested tired; strong weak; stronger weaker; thick thin; "
    "with without"
)
NEGATIONS = frozenset(_NEGATIONS.split("; "))
OPPOSITES = {
    tuple(order) for one in _PAIRS.split("; ") for order in (one.split(), one.split()[::-1])
}


def may_oppose(text: str, other: str) -> bool:
    """Tell whether one text may say the opposite of the other.

    It may if one of them alone has a word of negation, or if one has a word where the
    other has its opposite.

    Example:
        >>> may_oppose("The sensor doesn't read high.", "The sensor reads high.")
        True
        >>> may_oppose("It reads low.", "The sensor reads high.")
        True
        >>> may_oppose("High readings.", "The sensor reads high.")
        False
    """
    mine, others = _words(text), _words(other)
    if mine.isdisjoint(NEGATIONS) != others.isdisjoint(NEGATIONS):
        return True
    return any((one, two) in OPPOSITES for one in mine - others for two in others - mine)


def _words(text: str) -> set[str]:
    lower = re.sub(r"n['’]t\b", " not", text.lower())
    return set(re.findall(r"\w+", lower))
