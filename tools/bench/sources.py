# SPDX-License-Identifier: Apache-2.0
"""Source packages of Debian's, of which some of what is measured is made."""

import os
import subprocess


def tarball(build, package, *suite):
    """Its path, in the cache of the build directory `build`; fetched there once."""
    tool = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "debian_archive")
    done = subprocess.run([tool, os.path.join(os.path.abspath(build), "cache"), "source", package, *suite], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or f"no source package {package}").splitlines()[-1])
    return done.stdout.strip()
