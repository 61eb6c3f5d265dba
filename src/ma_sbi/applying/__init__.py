"""A saved corrector applied to tables of any length, block by block."""
