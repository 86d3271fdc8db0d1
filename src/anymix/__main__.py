"""`python -m anymix` is the command `anymix`."""

from anymix.cli import main

if __name__ == "__main__":
    main()
