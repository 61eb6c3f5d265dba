"""Misspecification-aware simulation-based inference.

``context -> encoder -> corrector -> x -> posterior -> draws``

The public names are listed in ``__init__.pyi`` and loaded when first used, so that the
command line answers before torch and sbi are imported.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.2.0"
