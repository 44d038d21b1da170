"""``torchrun --nproc-per-node=4 -m gradwire.experiments.compare`` is ``gradwire compare`` on torchrun's processes."""

import argparse
import sys

from gradwire.errors import GradwireError
from gradwire.experiments import compare


def main() -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gradwire compare", description=compare.__doc__)
    compare.add_arguments(parser)
    try:
        return compare.run(parser.parse_args())
    except GradwireError as error:
        print(f"gradwire: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":  # a spawned worker imports this file too
    sys.exit(main())
