"""Objects as trees of plain values and tensors, for files that cannot run code.

A class joins by the decorator :func:`~ma_sbi.storing.forms.stored`, which says what its
fields are. What is not registered is not written, and nothing else is made from a file.
"""
