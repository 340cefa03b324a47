"""``python -m rocke`` is the ``rocke`` command."""

from rocke.cli.main import main

if __name__ == "__main__":
    main()
