"""``python -m bopl``: the command where no script was installed."""

from bopl.cli import main

if __name__ == "__main__":
    main()
