#!/usr/bin/env python3
"""House rules that a compiler does not know: sizes, words, banned calls, lost files, test names.

  tidy.py             check the tree, print findings, exit 1 if there are any
  tidy.py --self-test break each rule on purpose and expect its finding

Old offenders against the size limits are in tools/tidy_ratchet.txt, which only shrinks.
"""

import re
import sys
from pathlib import PurePosixPath

import tidy_rules
import tidy_self_test
import tree

RATCHET = "tools/tidy_ratchet.txt"
CODE_FOLDERS = ("schedules/", "kernels/", "stages/", "runtime/", "tools/", "tests/")
TEST_NAME = re.compile(r'^\s*(?:TEST_CASE|TEST_CASE_FIXTURE|TEST_CASE_TEMPLATE|SCENARIO)'
                       r'(?:_DEFINE)?\(\s*(?:\w+\s*,\s*)?(?:"((?:\\.|[^"\\])*)"|(\w))', re.M)
TEST_NAME_FORM = re.compile(r"[A-Za-z0-9_/-][A-Za-z0-9 _/-]*: [A-Za-z0-9 :_/-]*[A-Za-z0-9_/-]")


def measure_sizes(files):
    """Offenders as {key: (measured, limit)}; the key is the path, or the path and the function."""
    over = {}
    for path, text in files.items():
        if not tree.is_cpp(path) and not path.endswith(".py"):
            continue
        lines = text.count("\n")
        if lines > tidy_rules.FILE_LINES:
            over[path] = (lines, tidy_rules.FILE_LINES)
        if not tree.is_cpp(path):
            continue
        limit = (tidy_rules.KERNEL_FUNCTION_LINES if path.startswith("kernels/")
                 else tidy_rules.FUNCTION_LINES)
        for name, first, last in tidy_rules.list_functions(text):
            if last - first + 1 > limit:
                over[f"{path} {name}"] = (last - first + 1, limit)
    return over


def parse_ratchet(text):
    rows = {}
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            size, key = line.split(maxsplit=1)
            rows[key.strip()] = int(size)
    return rows


def check_sizes(files):
    over = measure_sizes(files)
    ratchet = parse_ratchet(files.get(RATCHET, ""))
    findings = []
    for key, (size, limit) in sorted(over.items()):
        if size > ratchet.get(key, limit):
            findings.append(f"{key}: size: {size} lines, the limit is {ratchet.get(key, limit)}")
    for key, size in sorted(ratchet.items()):
        measured = over.get(key, (0, 0))[0]
        if measured < size:
            findings.append(f"{RATCHET}: size: {key} is down to {measured or 'the limit'}; "
                            "shrink or drop its line")
    return findings


def check_listed(files):
    """A CMakeLists.txt above it names each source and header; internal headers are included."""
    findings = []
    words = {str(PurePosixPath(path).parent): set(re.findall(r"[\w./+-]+", text))
             for path, text in files.items() if PurePosixPath(path).name == "CMakeLists.txt"}
    included = set()
    for path, text in files.items():
        if tree.is_cpp(path):
            included |= set(re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M))
    for path in files:
        if not tree.is_cpp(path) or not path.startswith(CODE_FOLDERS):
            continue
        is_listed = any(str(PurePosixPath(path).relative_to(folder)) in words.get(str(folder), ())
                        for folder in PurePosixPath(path).parents)
        internal = ("detail/" in path or path.endswith("-inl.hpp")
                    or path.startswith(("tests/", "tools/")))
        is_header = path.endswith((".hpp", ".cuh"))
        if not is_listed and not (is_header and internal and path in included):
            findings.append(f"{path}:1: lost: no CMakeLists.txt names it"
                            + (", and nothing includes it" if is_header and internal else ""))
    return findings


def check_test_names(files):
    findings, seen = [], {}
    for path, text in files.items():
        if not path.startswith("tests/") or not tree.is_cpp(path):
            continue
        code = tree.strip_cpp_comments(text)
        cases = 0
        for match in TEST_NAME.finditer(code):
            cases += 1
            name = match.group(1)
            place = f"{path}:{tree.line_of(code, match.end())}: test-name"
            if name is None:
                findings.append(f"{place}: the name is not a literal, so nobody can check it")
                continue
            if not TEST_NAME_FORM.fullmatch(name):
                findings.append(f"{place}: '{name}' is not 'component: what holds when' of "
                                "letters, digits, blanks and : - _ /")
            if name.lower() in seen:
                findings.append(f"{place}: '{name}' is also at {seen[name.lower()]}")
            seen[name.lower()] = place
        if path.endswith("_test.cpp") and cases == 0:
            findings.append(f"{path}:1: test-name: a test file without a test case")
        for match in re.finditer(r"doctest::(?:skip|may_fail|should_fail)\b", code):
            line = tree.line_of(code, match.start())
            if not re.search(r"issue \d+", text.split("\n")[line - 1]):
                findings.append(f"{path}:{line}: test-name: a disabled test carries the number of "
                                "an issue on its line")
    return findings


def check_files(files):
    findings = []
    for path, text in files.items():
        for rule in tidy_rules.FILE_RULES:
            findings += [f"{path}:{line}: {problem}" for line, problem in rule(path, text)]
    return findings + check_sizes(files) + check_listed(files) + check_test_names(files)


def read_tree(root=tree.ROOT):
    files = {}
    for path in tree.list_files(root):
        text = tree.read_text(path, root)
        if text is not None:
            files[path] = text
    return files


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        findings = tidy_self_test.run(check_files, tidy_rules.list_functions)
    else:
        files = read_tree()
        findings = check_files(files)
        if not any(tree.is_cpp(path) for path in files):
            findings.append("no C++ file found: the check would prove nothing")
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} finding(s)" + (" in the self-test" if arguments else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
