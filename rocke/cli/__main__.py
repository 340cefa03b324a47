"""``python -m rocke.cli`` is the ``rocke`` command, as ``python -m rocke`` is."""

from rocke.cli.main import main

if __name__ == "__main__":
    main()
