"""The engine: cells that are run once and kept, here or on a cluster."""
