"""Response times under instructions."""
