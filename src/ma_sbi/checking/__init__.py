"""One call and one command that say whether to trust a correction.

Names are loaded when first used, so that a bad file is refused before torch is imported.
The function ``check`` is ``ma_sbi.check``: here that name is the module.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
