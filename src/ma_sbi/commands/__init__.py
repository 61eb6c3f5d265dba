"""Commands of the command line, one for each module."""
