"""The rules of tools/tidy.py that look at one file, and their tables.

A rule is a function (path, text) -> findings as (line, text). A line may excuse itself with a
comment `tidy: allow RULE because REASON`.
"""

import re
from pathlib import PurePosixPath

import tree

LINE_WIDTH = 100
FILE_LINES = 600
FUNCTION_LINES = 70
KERNEL_FUNCTION_LINES = 120

WIDTH_SUFFIXES = tree.CPP_SUFFIXES | {".py", ".cmake"}
LIBRARY_FOLDERS = ("schedules/", "kernels/", "stages/", "runtime/")
OWN_FOLDERS = LIBRARY_FOLDERS + ("tools/",)
ALLOW = re.compile(r"tidy: allow ([a-z-]+) because \S")

# Rule, pattern in code without comments and literals, folders it holds in, files it spares, advice.
# check.cpp speaks while the process dies, so it trusts no library.
BANNED = [
    ("raw-new", r"(?<![\w.>])(?<!operator )new\b(?=\s*[\w:(])", OWN_FOLDERS, (),
     "use std::make_unique or a container"),
    ("raw-delete", r"(?<!operator )\bdelete\b(?:\s*\[\s*\])?(?=\s*[\w(*:])", OWN_FOLDERS, (),
     "let an owner free it"),
    ("thread", r"\bstd::j?thread\b(?!::)|\bpthread_create\b",
     ("schedules/", "stages/", "tools/"), (), "threads start in runtime/ and kernels/ only"),
    ("print", r"\bstd::(?:cout|cerr|clog)\b|(?<!\w)(?:f|v|vf)?printf\s*\(|(?<!\w)f?puts\s*\(",
     LIBRARY_FOLDERS, ("runtime/base/check.cpp",),
     "use runtime/base/log.hpp; results are the CLI's"),
    ("exit", r"(?<![\w.>])(?:std::)?(?:_exit|exit|quick_exit)\s*\(",
     LIBRARY_FOLDERS, (), "return a Status; the CLI chooses the exit code"),
    ("sync", r"\bcudaDeviceSynchronize\b", ("",), (), "wait for an event of the stream"),
    ("cuda-malloc", r"\bcudaMalloc\b", ("",), ("kernels/cuda/",), "ask Device for a buffer"),
    ("source-location", r"\bstd::source_location\b", ("",), (), "clang 14 lacks it; use a macro"),
    ("rand", r"(?<![\w.>:])(?:std::)?s?rand\s*\(|\bstd::random_device\b", ("",), (),
     "pass a seed in; every run must repeat"),
]

# First parts of absolute paths that mean the same on every machine, or are plainly examples.
SYSTEM_FOLDERS = {"usr", "etc", "proc", "sys", "dev", "tmp", "var", "opt", "bin", "sbin", "lib",
                  "run", "mnt", "srv", "path", "data", "scratch",
                  "nonexistent"}
PUBLIC_HOSTS = re.compile(
    r"(localhost|([\w-]+\.)*example(\.(com|org))?|(www\.)?(github\.com|arxiv\.org|apache\.org"
    r"|pytorch\.org|keepachangelog\.com|semver\.org|json-schema\.org|cmake\.org|yaml\.org|llvm\.org"
    r"|www\.w3\.org|docs\.pytorch\.org|docs\.nvidia\.com|ui\.perfetto\.dev|debian\.org))")
EXAMPLE_ADDRESS = re.compile(
    r"(127\.|0\.0\.0\.0|10\.0\.0\.|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.)")

WORDS_WITHOUT_ISSUE = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")
VAGUE_NAMES = ("Fast", "New", "Util", "Utils", "Manager", "Helper", "V2")


def is_allowed(text, line, rule):
    """The line itself or a comment line directly above it excuses the rule."""
    lines = text.split("\n")
    for candidate in lines[max(0, line - 2):line]:
        match = ALLOW.search(candidate)
        if match and match.group(1) == rule:
            return True
    return False


# A private constructor cannot go through make_unique; what is owned at once is fine.
_OWNED_AT_ONCE = re.compile(r"\bunique_ptr<[^;{}()]*>\s*\w*\s*[({]\s*\Z")


def matches(rule, pattern, text, searched, message):
    found = []
    for match in re.finditer(pattern, searched):
        line = tree.line_of(searched, match.start())
        if rule == "raw-new" and _OWNED_AT_ONCE.search(searched, max(0, match.start() - 200),
                                                       match.start()):
            continue
        if not is_allowed(text, line, rule):
            found.append((line, f"{rule}: {message(match)}"))
    return found


def check_width(path, text):
    if PurePosixPath(path).suffix not in WIDTH_SUFFIXES and not path.endswith("CMakeLists.txt"):
        return []
    return [(number, f"width: {len(line)} columns, the limit is {LINE_WIDTH}")
            for number, line in enumerate(text.split("\n"), 1)
            if len(line) > LINE_WIDTH and not is_allowed(text, number, "width")]


def check_blanks(path, text):
    """Tabs and blanks at line ends, and a last line without its end."""
    if path.endswith((".patch", ".txt", ".md", ".csv")) and not path.endswith("CMakeLists.txt"):
        return []
    found = [(number, "blanks: the line ends with a blank")
             for number, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
    if text and not text.endswith("\n"):
        found.append((text.count("\n") + 1, "blanks: the last line has no end"))
    return found


def check_words(path, text):
    pattern = r"\b(?:" + "|".join(WORDS_WITHOUT_ISSUE) + r")\b"
    return matches("word", pattern, text, text,
                   lambda m: f"'{m.group(0)}': finish it, or file an issue and leave it out")


def check_banned(path, text):
    if not tree.is_cpp(path):
        return []
    code = tree.strip_cpp(text)
    found = []
    for rule, pattern, folders, spared, advice in BANNED:
        if not path.startswith(folders) or (spared and path.startswith(spared)):
            continue
        found += matches(rule, pattern, text, code,
                         lambda m, advice=advice: f"'{m.group(0).strip()}' is banned: {advice}")
    return found


def check_places(path, text):
    """Paths and hosts of somebody's machine."""
    if PurePosixPath(path).suffix in (".csv", ".svg"):
        return []
    found = []
    for match in re.finditer(r"(?:^|(?<=[\s\"'=(`,]))/([A-Za-z][A-Za-z_-]*)/[\w.]", text, re.M):
        if match.group(1) not in SYSTEM_FOLDERS:
            found.append((tree.line_of(text, match.start()),
                          f"place: '/{match.group(1)}/…' exists on one machine only"))
    for match in re.finditer(r"\bhttps?://([\w.-]+)", text):
        host = match.group(1).rstrip(".")
        if not PUBLIC_HOSTS.fullmatch(host) and not EXAMPLE_ADDRESS.match(host):
            found.append((tree.line_of(text, match.start()),
                          f"place: host '{host}' is not in the list of public hosts"))
    for match in re.finditer(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", text):
        if not EXAMPLE_ADDRESS.match(match.group(0)):
            found.append((tree.line_of(text, match.start()),
                          f"place: address {match.group(0)}; use one reserved for examples"))
    return [item for item in found if not is_allowed(text, item[0], "place")]


def check_names(path, text):
    found = []
    # Names of data say what is in it: V2 there is two chunks.
    for part in PurePosixPath(path).parts if not path.endswith((".csv", ".json")) else ():
        words = re.split(r"[_.-]", part.lower())
        for vague in VAGUE_NAMES:
            if vague.lower() in words:
                found.append((1, f"name: '{part}' says '{vague.lower()}'; name what it does"))
    if tree.is_cpp(path):
        code = tree.strip_cpp(text)
        pattern = (r"\b(?:class|struct|enum class|enum)\s+(?:\[\[\w+\]\]\s*)?(\w*?(?:"
                   + "|".join(VAGUE_NAMES) + r")(?![a-z])\w*)")
        found += matches("name", pattern, text, code,
                         lambda m: f"type '{m.group(1)}' has a vague word; name what it does")
        if not re.fullmatch(r"[a-z0-9_]+(-inl)?\.\w+", PurePosixPath(path).name):
            found.append((1, "name: files are snake_case"))
    return found


def check_header(path, text):
    if not path.endswith((".hpp", ".cuh")):
        return []
    found = []
    if not text.startswith("//"):
        found.append((1, "header: opens with a comment: what for, what not, thread rule"))
    if "#pragma once" not in text and not path.endswith("-inl.hpp"):
        found.append((1, "header: has no #pragma once"))
    return found


_CONTROL = re.compile(r"(if|for|while|switch|catch|else|do|try|return|namespace|class|struct|union"
                      r"|enum|extern|HWY_BEFORE_NAMESPACE)\b")


def list_functions(text):
    """Outermost function bodies as (name, first line, last line), found by braces.

    Made for formatted code: a body's brace follows a blank, an initializer's follows a name.
    """
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  tree.strip_cpp(text), flags=re.M)
    found, stack, statement = [], [], 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match.group(0) == "{":
            head = code[statement:at].strip()
            before = code[at - 1] if at else "\n"
            is_list = before not in " \n" or head.endswith(("=", ",", "(", "return", "]"))
            inside = any(kind == "function" for kind, _, _ in stack)
            kind = "list" if is_list else "block"
            if kind == "block" and "(" in head and not inside and not _CONTROL.match(head):
                kind = "function"
            stack.append((kind, head, statement + len(code[statement:at]) - len(
                code[statement:at].lstrip())))
            if kind != "list":
                statement = at + 1
        elif match.group(0) == "}" and stack:
            kind, head, start = stack.pop()
            if kind == "function":
                found.append((name_function(head), tree.line_of(code, start),
                              tree.line_of(code, at)))
            if kind != "list":
                statement = at + 1
        elif match.group(0) == ";" and not any(kind == "list" for kind, _, _ in stack[-1:]):
            statement = at + 1
    return found


def name_function(head):
    match = re.search(r"([\w:~]+)\s*\(", head)
    name = match.group(1) if match else head.split("\n")[0][:40]
    if name in ("TEST_CASE", "TEST_CASE_TEMPLATE", "SUBCASE"):
        title = re.search(r'"([^"]*)"', head)
        return f"{name} {title.group(1).strip() if title else ''}".strip()
    return name


FILE_RULES = [check_width, check_blanks, check_words, check_banned, check_places, check_names,
              check_header]
