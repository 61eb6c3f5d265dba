"""What the paper prints, and ours beside it."""
