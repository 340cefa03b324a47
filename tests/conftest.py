"""Settings for every test."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no deadline for an example.
settings.register_profile("rocke", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rocke")
