"""Posteriors: trained here, or elsewhere and adapted to the same interface."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
