from hypothesis import settings

# The first example compiles: wall time says nothing about the property.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")
