"""The ``rocke`` command: one file a subcommand, each loaded when it is used."""
