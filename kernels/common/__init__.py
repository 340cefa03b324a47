"""Kernel families that serve every target."""
