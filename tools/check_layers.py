#!/usr/bin/env python3
"""Who may include whom: the table, and the check that every #include follows it.

All Debian headers share one folder, so link targets cannot stop a stray include. Usage:
  check_layers.py             check the tree, print findings, exit 1 if there are any
  check_layers.py --self-test feed bad includes and expect a finding for each
"""

import re
import sys
from pathlib import PurePosixPath

import tree

BASE_UP_TO_STAGES = ["runtime/base", "kernels", "stages", "runtime/config"]

# Folder -> the project folders it may include besides itself. `tests` may include anything.
LAYERS = {
    "runtime/base": [],
    "schedules": ["runtime/base"],
    "kernels": ["runtime/base"],
    "stages": ["runtime/base", "schedules", "kernels"],
    "runtime/config": ["runtime/base"],
    "runtime/comm": ["runtime/base", "kernels", "schedules"],
    "runtime/data": BASE_UP_TO_STAGES,
    "runtime/checkpoint": BASE_UP_TO_STAGES,
    "runtime/timeline": BASE_UP_TO_STAGES + ["schedules"],
}
EVERYTHING = list(LAYERS) + ["runtime/actors"]
LAYERS["runtime/actors"] = list(EVERYTHING)
LAYERS["tools"] = list(EVERYTHING)
LAYERS["tests"] = EVERYTHING + ["tools"]

# Where in a folder a library may be included.
ANYWHERE = "any file"
SOURCES = "sources and detail headers"   # .cpp, .cu, detail/*.hpp, *-inl.hpp
ONLY_CPP = ".cpp files"

# Library -> (pattern of its headers, {folder: where}). The one home of each library.
LIBRARIES = {
    "CAF": (r"caf/", {"runtime/actors": SOURCES, "tests/actors": ANYWHERE}),
    "yaml-cpp": (r"yaml-cpp/", {"runtime/config": ONLY_CPP, "tests": ANYWHERE}),
    "spdlog": (r"(spdlog|fmt)/", {"runtime/base": ONLY_CPP}),
    "OpenSSL": (r"openssl/", {"runtime/base": ONLY_CPP}),
    "oneDNN": (r"(oneapi/)?dnnl", {"kernels": SOURCES, "tests/kernels": ANYWHERE}),
    "Highway": (r"hwy/", {"kernels": SOURCES, "tests/kernels": ANYWHERE}),
    "CUDA": (r"(cuda|cublas|cudnn|nvtx|nvToolsExt|cooperative_groups|cub/)",
             {"kernels": ANYWHERE, "runtime/comm": SOURCES, "tests/kernels": ANYWHERE}),
    "NCCL": (r"nccl", {"runtime/comm": SOURCES}),
    "Boost": (r"boost/", {"runtime/comm": ANYWHERE, "tests/comm": ANYWHERE}),
    "nlohmann": (r"nlohmann/", {"tools": ANYWHERE, "tests": ANYWHERE, "runtime/config": ONLY_CPP,
                                "runtime/actors": ONLY_CPP}),
    "CLI11": (r"CLI/", {"tools": ANYWHERE, "tests": ANYWHERE}),
    "benchmark": (r"benchmark/", {"tools": ANYWHERE}),
    "doctest": (r"doctest/", {"tests": ANYWHERE}),
    "xxHash": (r"(xxhash|xxh3)\.h", {"runtime/base": ONLY_CPP, "runtime/comm": ONLY_CPP,
                                     "runtime/checkpoint": ONLY_CPP}),
    "OpenMP": (r"omp\.h", {"kernels": SOURCES, "tests/kernels": ANYWHERE}),
    "intrinsics": (r"(x86|imm|xmm|pmm|cpuid).*\.h",
                   {"kernels": SOURCES, "tests/kernels": ANYWHERE}),
}

# The C++ standard library (no suffix) and what the operating system offers.
SYSTEM = re.compile(
    r"([a-z_0-9]+|(sys|linux|netinet|arpa|net)/[a-z_0-9]+\.h"
    r"|(cxxabi|dirent|dlfcn|errno|execinfo|fcntl|netdb|poll|pthread|sched|signal|spawn|termios|time"
    r"|ucontext|unistd|float|limits|math|stdint|stdlib|string|stdio)\.h)")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S[^\n]*))', re.M)
FOLDERS = sorted(LAYERS, key=len, reverse=True)


def folder_of(path):
    for folder in FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    return None


def is_detail(path):
    return "detail" in PurePosixPath(path).parts[:-1] or path.endswith("-inl.hpp")


def library_of(header):
    for name, (pattern, _) in LIBRARIES.items():
        if re.match(pattern, header):
            return name
    return None


def may_include_library(path, library):
    suffix = PurePosixPath(path).suffix
    for folder, where in LIBRARIES[library][1].items():
        if not path.startswith(folder + "/"):
            continue
        is_source = suffix in (".cpp", ".cu")
        if where == ANYWHERE or (where == ONLY_CPP and suffix == ".cpp"):
            return True
        if where == SOURCES and (is_source or is_detail(path)):
            return True
    return False


def check_library(path, header, library):
    if may_include_library(path, library):
        return None
    homes = "; ".join(f"{folder} ({where})" for folder, where in LIBRARIES[library][1].items())
    return f"<{header}> belongs to {library}, which only these may include: {homes}"


def check_project(path, header, exists):
    target = folder_of(header)
    if target is None:
        return f'"{header}" does not start with a folder of the table; include from the root'
    if not exists(header):
        return f'"{header}" does not exist'
    own = folder_of(path)
    if target != own and target not in LAYERS[own]:
        allowed = ", ".join(LAYERS[own]) or "nothing"
        return f'"{header}": {own} may include {allowed} and itself, not {target}'
    if "detail" in PurePosixPath(header).parts[:-1] and own != "tests":
        home = header[:header.index("detail/")]
        if not path.startswith(home):
            return f'"{header}" is internal to {home}; only files below it may include it'
    return None


def check_text(path, text, exists):
    """Findings of one file as (line, text)."""
    if folder_of(path) is None:
        return [(1, f"{path} is in no folder of the table in tools/check_layers.py")]
    findings = []
    stripped = tree.strip_cpp_comments(text)
    for match in INCLUDE.finditer(stripped):
        quoted, angled, macro = match.groups()
        header = quoted or angled
        problem = None
        if macro is not None:
            if macro.strip() != "HWY_TARGET_INCLUDE":
                problem = f"include of a macro cannot be checked: {macro.strip()}"
        elif library_of(header):
            problem = check_library(path, header, library_of(header))
        elif quoted:
            problem = check_project(path, header, exists)
        elif folder_of(header):
            problem = f"<{header}>: project headers are included with quotes"
        elif not SYSTEM.fullmatch(header):
            problem = f"<{header}> is in no row of the table in tools/check_layers.py"
        if problem:
            findings.append((tree.line_of(stripped, match.start()), problem))
    return findings


def is_checked(path):
    """tests/consumer is a project of its own: it includes what an installed library offers."""
    return tree.is_cpp(path) and not path.startswith("tests/consumer/")


def check_tree(root=tree.ROOT):
    files = [path for path in tree.list_files(root) if is_checked(path)]
    if not files:
        return ["no C++ file found: the check would prove nothing"]
    known = set(files)
    findings = []
    for path in files:
        for line, problem in check_text(path, tree.read_text(path, root) or "", known.__contains__):
            findings.append(f"{path}:{line}: {problem}")
    return findings


# (file, include line, expected part of the finding, or None where the include is right)
SELF_TEST = [
    ("schedules/a.hpp", '#include "kernels/tensor.hpp"', "not kernels"),
    ("schedules/a.hpp", '#include "runtime/base/ids.hpp"', None),
    ("kernels/a.cpp", '#include "schedules/action.hpp"', "not schedules"),
    ("stages/a.cpp", '#include "runtime/config/config.hpp"', "not runtime/config"),
    ("runtime/base/a.cpp", '#include "schedules/action.hpp"', "nothing and itself"),
    ("runtime/config/a.cpp", '#include "stages/stage.hpp"', "not stages"),
    ("runtime/data/a.cpp", '#include "stages/stage.hpp"', None),
    ("runtime/comm/a.cpp", '#include "stages/stage.hpp"', "not stages"),
    ("runtime/actors/a.cpp", '#include "tools/cli/a.hpp"', "not tools"),
    ("runtime/actors/a.cpp", '#include "tests/base/a.hpp"', "not tests"),
    ("tools/cli/a.cpp", '#include "tests/base/a.hpp"', "not tests"),
    ("tests/base/a.cpp", '#include "tools/cli/a.hpp"', None),
    ("schedules/a.cpp", '#include "action.hpp"', "include from the root"),
    ("schedules/a.cpp", '#include "schedules/missing.hpp"', "does not exist"),
    ("schedules/a.cpp", '#include <schedules/action.hpp>', "with quotes"),
    ("kernels/a.cpp", '#include <caf/all.hpp>', "belongs to CAF"),
    ("runtime/actors/a.hpp", '#include <caf/all.hpp>', "belongs to CAF"),
    ("runtime/actors/a.cpp", '#include <caf/all.hpp>', None),
    ("runtime/actors/detail/a.hpp", '#include <caf/all.hpp>', None),
    ("tests/actors/a.cpp", '#include <caf/all.hpp>', None),
    ("tests/base/a.cpp", '#include <caf/all.hpp>', "belongs to CAF"),
    ("kernels/a.cu", '#include "caf/all.hpp"', "belongs to CAF"),
    ("runtime/config/a.hpp", '#include <yaml-cpp/yaml.h>', "belongs to yaml-cpp"),
    ("runtime/config/detail/a.hpp", '#include <yaml-cpp/yaml.h>', "belongs to yaml-cpp"),
    ("runtime/config/a.cpp", '#include <yaml-cpp/yaml.h>', None),
    ("runtime/base/log.hpp", '#include <spdlog/spdlog.h>', "belongs to spdlog"),
    ("runtime/actors/a.cpp", '#include <spdlog/spdlog.h>', "belongs to spdlog"),
    ("runtime/comm/a.cpp", '#include <openssl/hmac.h>', "belongs to OpenSSL"),
    ("stages/a.cpp", '#include <oneapi/dnnl/dnnl.hpp>', "belongs to oneDNN"),
    ("kernels/tensor.hpp", '#include <oneapi/dnnl/dnnl.hpp>', "belongs to oneDNN"),
    ("kernels/cpu/matmul.cpp", '#include <dnnl.hpp>', None),
    ("kernels/cpu/math-inl.hpp", '#include <hwy/highway.h>', None),
    ("kernels/cpu/math.cpp", '#include "hwy/foreach_target.h"', None),
    ("runtime/data/a.cpp", '#include <hwy/highway.h>', "belongs to Highway"),
    ("runtime/actors/a.cpp", '#include <boost/asio.hpp>', "belongs to Boost"),
    ("runtime/comm/a.hpp", '#include <boost/asio.hpp>', None),
    ("stages/a.cpp", '#include <nlohmann/json.hpp>', "belongs to nlohmann"),
    ("runtime/actors/a.hpp", '#include <nlohmann/json.hpp>', "belongs to nlohmann"),
    ("runtime/actors/a.cpp", '#include <nlohmann/json.hpp>', None),
    ("runtime/data/a.cpp", '#include <CLI/CLI.hpp>', "belongs to CLI11"),
    ("stages/a.cpp", '#include <doctest/doctest.h>', "belongs to doctest"),
    ("schedules/a.cpp", '#include <zlib.h>', "no row of the table"),
    ("schedules/a.cpp", '#include SOME_MACRO', "cannot be checked"),
    ("schedules/a.cpp", '#include <vector>', None),
    ("runtime/data/a.cpp", '#include <sys/mman.h>', None),
    ("schedules/a.cpp", '// #include <caf/all.hpp>', None),
    ("runtime/comm/a.cpp", '#include "kernels/cpu/detail/a.hpp"', "internal to kernels/cpu/"),
    ("kernels/a.cpp", '#include "kernels/cpu/detail/a.hpp"', "internal to kernels/cpu/"),
    ("kernels/cpu/a.cpp", '#include "kernels/cpu/detail/a.hpp"', None),
    ("tests/kernels/a.cpp", '#include "kernels/cpu/detail/a.hpp"', None),
    ("extra/a.cpp", '#include <vector>', "no folder of the table"),
]


def self_test():
    failures = []
    for path, include, expected in SELF_TEST:
        found = check_text(path, f"// why\n{include}\n", lambda name: "missing" not in name)
        texts = "; ".join(problem for _, problem in found)
        if expected is None and found:
            failures.append(f"{path}: {include}: expected no finding, found: {texts}")
        if expected is not None and expected not in texts:
            failures.append(f"{path}: {include}: expected '{expected}', found '{texts}'")
    return failures


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    findings = self_test() if arguments else check_tree()
    for finding in findings:
        print(finding)
    print(f"check_layers: {len(findings)} finding(s)"
          + (f" in {len(SELF_TEST)} self-test rows" if arguments else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
