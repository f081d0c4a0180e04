#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages have the options that the programs have, and no others: each of --help is in the page, and the other way round."""
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(os.environ["BRICKFS_BUILD"])
PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs/man"
LEFT_OUT_OF_FILES = {"--help", "--version", "--config"}  # of the command line only

failures = []


def help_of(program, *words):
    return subprocess.run([BUILD / program, *words, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def page(name):
    return (PAGES / f"{name}.scd").read_text()


def section(text, title):
    return re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", text, re.M | re.S)[1]


def options_in_help(text):
    """Long and short ones, of CLI11's help and of argparse's."""
    found = set()
    for line in text.splitlines():
        if line.startswith("  -"):
            words = re.split(r" {2,}", line.strip())[0]
            found |= set(re.findall(r"--[a-z][a-z-]*|-[a-zA-Z](?![a-z-])", words))
    return found


def options_in_page(text):
    return set(re.findall(r"\*(--[a-z][a-z-]*|-[a-zA-Z])\*", text))


def verbs(text):
    return re.findall(r"^  ([a-z]+) ", section_of_help(text, "Subcommands"), re.M)


def section_of_help(text, title):
    return text.split(f"{title}:\n", 1)[1]


def compare(name, helped, paged):
    if not helped:
        failures.append(f"{name}: --help is not understood")
    for option in sorted(helped - paged):
        failures.append(f"{name} has no {option}, which --help has")
    for option in sorted(paged - helped):
        failures.append(f"{name} has {option}, which --help has not")


def mount_options_in_help(text):
    names = set()
    for line in re.search(r"^OPT(.*?)\n\n", text, re.M | re.S)[1].splitlines():
        if line.startswith(" " * 9):
            continue  # an explanation goes on
        words = re.split(r" {2,}|\.\.\.", line.strip())[0]
        names |= {word.split("=")[0].strip() for word in words.split(",")}
    return names


def options_of_all_verbs(program, *words):
    text = help_of(program, *words)
    found = options_in_help(text)
    for verb in verbs(text) if "Subcommands:" in text else []:
        found |= options_of_all_verbs(program, *words, verb)
    return found


def main():
    brickd = help_of("server/brickd")
    compare("brickd(8)", options_in_help(brickd), options_in_page(page("brickd.8")))
    in_files = {option[2:] for option in options_in_help(brickd) if option.startswith("--") and option not in LEFT_OUT_OF_FILES}
    compare("brickd.conf(5)", in_files, set(re.findall(r"^\*([a-z-]+)\* =", section(page("brickd.conf.5"), "OPTIONS"), re.M)))

    brickfs = help_of("fs/brickfs")
    compare("brickfs(8)", options_in_help(brickfs), options_in_page(section(page("brickfs.8"), "OPTIONS")))
    lines = re.findall(r"^\*.*", section(page("brickfs.8"), "MOUNT OPTIONS"), re.M)
    compare("brickfs(8), MOUNT OPTIONS", mount_options_in_help(brickfs), set(re.findall(r"\*([a-z_]+)=?\*", "\n".join(lines))))

    for program, name, verbs_title in (("tools/brickctl", "brickctl.8", "VERBS"), ("tools/brickfs-crash", "brickfs-crash.1", "DESCRIPTION")):
        if name == "brickfs-crash.1" and not (BUILD / program).exists():
            continue  # it is not built every day
        text = help_of(program)
        compare(name, options_of_all_verbs(program), options_in_page(page(name)))
        compare(f"{name}, verbs", set(verbs(text)), set(re.findall(r"^\*([a-z]+)\*(?: _|$)", section(page(name), verbs_title), re.M)))

    compare("brickfs-run(1)", options_in_help(help_of("fs/run/brickfs-run")), options_in_page(section(page("brickfs-run.1"), "OPTIONS")))

    print("\n".join(failures) or "the manual pages have what the programs have")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
