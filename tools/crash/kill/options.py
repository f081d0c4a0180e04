# SPDX-License-Identifier: Apache-2.0
"""What the command lines of kill and cluster have in common."""
import sys


def some_of(known):
    """A type for argparse: names of these, with commas between."""
    def names(text):
        unknown = [name for name in text.split(",") if name not in known]
        return sys.exit(f"brickfs-crash: {unknown[0]} is none of {', '.join(known)}") if unknown else text.split(",")
    return names
