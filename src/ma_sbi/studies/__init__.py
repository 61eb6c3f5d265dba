"""Studies on real data, step by step, so that they can be run on other data, too."""
