#!/usr/bin/env python3
"""Runs the indented blocks of a document, in order.

A block that begins with "# " is what root types and sees: each command is a line behind "# " (and those that a backslash continues it on), what
follows is what it prints, all of it: "..." stands for anything within a line, alone on a line for any number of lines; "(exit N)" as the last
line is its exit status, else that is 0. Any other block is a file's: the last path in backticks before it says which; it is written there (in
/etc/fstab in the place of the lines for the same mountpoints), and a unit of systemd's is checked. With --without-prompts a block may be
commands alone, whose exit status has to be 0.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

LONGEST_SECONDS = 60
PROGRAMS = ("brickd", "brickfs", "brickctl", "mount", "umount")


def blocks(text, section):
    """(line number, lines, the text before) of each indented block, of one section or all; not of what is fenced."""
    here, before, block, found, start, start_of_paragraph = section is None, "", [], [], 1, True
    fenced = False
    for number, line in enumerate(text.splitlines() + ["."], 1):
        fence = line.lstrip().startswith("```")
        if fence or fenced:
            fenced = fenced != fence
            line = "."
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block:
            while not block[-1]:
                block.pop()
            if here:
                found.append((start, block, before))
            block, before = [], ""
        if line.startswith("## ") and section is not None:
            here = line == "## " + section
        if not line:
            start_of_paragraph = True
        else:
            before = line if start_of_paragraph else before + "\n" + line
            start_of_paragraph = False
        start = number + 1
    return found


def commands(lines, prompts):
    """(command, what it prints) of a block."""
    found, continued = [], False
    for line in lines:
        if continued:
            found[-1][0].append(line)
        elif not prompts:
            found.append(([line], None))
        elif line.startswith("# "):
            found.append(([line[2:]], []))
        else:
            found[-1][1].append(line)
        continued = line.endswith("\\") and (continued or not prompts or line.startswith("# "))
    return [("\n".join(words), output) for words, output in found]


def pattern(lines):
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return "".join(parts)


def run(number, command, output):
    print(f"-- {number}: {command}", flush=True)
    with tempfile.TemporaryFile("w+") as said:  # not a pipe: a daemon may keep it
        status = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                timeout=LONGEST_SECONDS, check=False).returncode
        said.seek(0)
        text = said.read()
    if text and not text.endswith("\n"):
        text += "\n"
    expected = 0
    if output and (match := re.fullmatch(r"\(exit (\d+)\)", output[-1])):
        expected, output = int(match[1]), output[:-1]
    if status != expected:
        sys.exit(f"FAILED: line {number}: {command}\nexit {status}, not {expected}:\n{text}")
    if output is not None and not re.fullmatch(pattern(output), text):
        sys.exit(f"FAILED: line {number}: {command}\nprints\n{text}and not\n" + "\n".join(output))


def write_file(number, lines, before):
    paths = re.findall(r"`(/[^`*\s]+)`", before)
    if not paths:
        sys.exit(f"FAILED: line {number}: neither commands, nor is a file named before it")
    path = paths[-1]
    print(f"-- {number}: {path}", flush=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kept = []
    if path == "/etc/fstab":
        places = {line.split()[1] for line in lines}
        with open(path, encoding="utf-8") as file:
            kept = [line.rstrip("\n") for line in file if line.split() and line.split()[1] not in places]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(kept + lines) + "\n")
    if path.endswith(".service") and shutil.which("systemd-analyze"):
        run(number, f"systemd-analyze verify {path}", [])
    elif path == "/etc/fstab":
        run(number, f"findmnt --verify --tab-file {path}", ["..."])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("document")
    parser.add_argument("--section")
    parser.add_argument("--without-prompts", action="store_true")
    parser.add_argument("--least", type=int, required=True, help="commands that there are at least")
    arguments = parser.parse_args()
    with open(arguments.document, encoding="utf-8") as file:
        text = file.read()
    count = 0
    for number, lines, before in blocks(text, arguments.section):
        prompts = lines[0].startswith("# ")
        if prompts or (arguments.without_prompts and lines[0].split()[0] in PROGRAMS):
            for command, output in commands(lines, prompts):
                run(number, command, output)
                count += 1
        else:
            write_file(number, lines, before)
    if count < arguments.least:
        sys.exit(f"FAILED: {count} commands were found, there should be at least {arguments.least}")
    print(f"{count} commands")


if __name__ == "__main__":
    main()
