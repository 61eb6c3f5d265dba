"""Every table and figure of the paper, and what its claims became."""
