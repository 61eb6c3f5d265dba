"""Whether to trust it: what the context tells, what it must not tell."""

__all__: list[str] = []
