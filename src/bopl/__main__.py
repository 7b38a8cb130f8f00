"""The command ``bopl``, and ``python -m bopl`` where no script was installed."""

import sys


def main() -> None:
    """Run the command; Ctrl-C while it is being loaded prints no traceback, either."""
    try:
        from bopl.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("bopl: interrupted.\n")
        raise SystemExit(130) from None
    command()


if __name__ == "__main__":
    main()
