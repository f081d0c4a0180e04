#!/usr/bin/env python3
"""Every rule of the calls about names, modes, owners and times, on all kinds of files, as several users: the answers on a mounted
brickfs have to be those of another file system.   rules.py DIR REFERENCE [PART...]

Each part makes objects in an empty directory and says what calls answered, as lines; these are compared. As root.
"""
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
import rules_of_inodes
import rules_of_names
import rules_of_sizes

PARTS = [rules_of_names.one_path, rules_of_names.sticky, rules_of_names.search_permission, rules_of_names.renames, rules_of_names.long_and_odd_paths,
         rules_of_inodes.set_id_bits, rules_of_inodes.file_capabilities, rules_of_inodes.creation, rules_of_inodes.acls_checked, rules_of_inodes.times, rules_of_inodes.stamps_of_calls,
         rules_of_sizes.size_limits, rules_of_sizes.layouts]


# With the kernel's write-back cache times and holes are the kernel's (docs/posix.md): these are stamped in another way, and all is data.
LEFT_TO_KERNEL = ("truncate_same", "setxattr_same", "acl_same", "seek ") if os.environ.get("BRICKFS_WRITEBACK", "off") != "off" else ()


def lines_of(part, root):
    os.mkdir(f"{root}/rules")
    os.chdir(f"{root}/rules")
    lines = list(part())
    os.chdir("/")
    shutil.rmtree(f"{root}/rules")
    return lines


def main():
    os.umask(0o022)
    wrong = 0
    for part in PARTS:
        if len(sys.argv) > 3 and part.__name__ not in sys.argv[3:]:
            continue
        started = time.monotonic()
        tested, reference = (lines_of(part, root) for root in sys.argv[1:3])
        differences = [(one, other) for one, other in zip(tested, reference) if one != other and not (LEFT_TO_KERNEL and one.startswith(LEFT_TO_KERNEL))]
        for one, other in differences[:40]:
            print(f"   tested    {one}\n   reference {other}")
        print(f"   {part.__name__.replace('_', ' ')}: {len(tested)} answers, {len(differences)} differ, {time.monotonic() - started:.0f} s", flush=True)
        wrong += len(differences) + abs(len(tested) - len(reference))
    sys.exit(1 if wrong else 0)


main()
