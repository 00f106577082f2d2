from hypothesis import settings

# Compiling a kernel takes longer than any deadline, and machines are shared: no clock decides.
settings.register_profile("firthshot", deadline=None)
settings.load_profile("firthshot")
