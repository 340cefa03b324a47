"""Reusable emitters on top of :mod:`rocke.core.ir`: what kernels are put together from."""
