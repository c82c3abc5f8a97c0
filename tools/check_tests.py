#!/usr/bin/env python3
"""Runs ctest presets and compares how many cases each label has with tests/case_floor.txt.

  check_tests.py --write-floor   raise the floor to what the release build has now
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import tree
from check_run import JOBS, Failed

FLOOR = "tests/case_floor.txt"
FLOOR_COMMENT = """\
# Fewest cases each label may have. The check fails when a label has fewer, so that tests cannot
# vanish in silence. Raise with: python3 tools/check_tests.py --write-floor
"""
SUMMARIES = []  # (preset, ctest's closing lines), for the end of the whole check


def wrap_for_tsan():
    """GCC 12's ThreadSanitizer cannot place its shadow beside 32 random bits of address."""
    try:
        bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return []
    return ["setarch", os.uname().machine, "-R"] if bits > 28 else []


def run(preset):
    """Every test of the preset; output passes through, the closing lines are kept."""
    command = ["ctest", "--preset", preset, "--no-tests=error", "--parallel", str(JOBS)]
    if preset == "tsan":
        command = wrap_for_tsan() + command
    print("+ " + " ".join(command), flush=True)
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    summary = [line for line in lines if re.match(r"\d+% tests passed", line)]
    SUMMARIES.append((preset, summary[-1] if summary else "no closing summary"))
    if child.returncode != 0:
        raise Failed(f"ctest --preset {preset}: exit code {child.returncode}")
    if not summary:
        raise Failed(f"ctest --preset {preset}: printed no closing summary")
    missing = [line for line in lines if "NOT_BUILT" in line or "Not Run" in line]
    if missing:
        raise Failed("tests without an executable: " + "; ".join(missing))


def count_cases(preset):
    listing = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], check=False,
                             capture_output=True, text=True)
    if listing.returncode != 0:
        raise Failed(f"ctest --show-only: exit code {listing.returncode}: {listing.stderr}")
    counts = Counter()
    for test in json.loads(listing.stdout)["tests"]:
        labels = [value for entry in test.get("properties", []) if entry["name"] == "LABELS"
                  for value in entry["value"]]
        if len(labels) != 1:
            raise Failed(f"test '{test['name']}' has labels {labels}, expected exactly one")
        counts[labels[0]] += 1
    return counts


def read_floor():
    floor = {}
    for line in Path(FLOOR).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            label, count = line.split()
            floor[label] = int(count)
    return floor


def check_floor(preset):
    counts, floor = count_cases(preset), read_floor()
    problems = []
    for label in sorted(counts.keys() | floor.keys()):
        print(f"label {label}: {counts[label]} cases, floor {floor.get(label, 'missing')}")
        if label not in floor:
            problems.append(f"label {label} is not in {FLOOR}")
        elif counts[label] < floor[label]:
            problems.append(f"label {label} has {counts[label]} cases, the floor is {floor[label]}")
    if problems:
        raise Failed("; ".join(problems))


def write_floor(preset):
    counts = count_cases(preset)
    floor = read_floor() if Path(FLOOR).exists() else {}
    for label, count in counts.items():
        floor[label] = max(count, floor.get(label, 0))
    rows = "".join(f"{label} {count}\n" for label, count in sorted(floor.items()))
    Path(FLOOR).write_text(FLOOR_COMMENT + rows, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write-floor"]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    os.chdir(tree.ROOT)
    write_floor("release")
