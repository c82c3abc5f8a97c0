#!/usr/bin/env python3
"""What CI runs, cheap steps first, each timed; one closing table. Called by tools/check.

  tools/check               every step
  tools/check --full        the same with whole test matrices (HEADRACE_FULL=1), fuzzing and
                            clang-tidy
  tools/check --only STEP   one step (may be repeated); what it needs must have been built before
  tools/check --list        the steps

A step fails loudly: it raises, or a command of it exits with another code than 0.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import check_configs
import check_docs
import check_tests
import tree
from check_run import JOBS, PYTHON, Failed, Skipped, call

RELEASE = ["cmake", "--build", "--preset", "release", "--parallel", str(JOBS)]


def step_format(_):
    files = [path for path in tree.list_files() if tree.is_cpp(path)]
    if not files:
        raise Failed("no C++ file found")
    call(["clang-format", "--dry-run", "-Werror", *files],
         shown=f"clang-format on {len(files)} files")


def step_layers(_):
    call([*PYTHON, "tools/check_layers.py", "--self-test"])
    call([*PYTHON, "tools/check_layers.py"])


def step_tidy(_):
    call([*PYTHON, "tools/tidy.py", "--self-test"])
    call([*PYTHON, "tools/tidy.py"])


def step_build(options):
    call(["cmake", "--preset", "release", "-DHEADRACE_WERROR=ON", "-DHEADRACE_BUILD_TESTS=ON",
          f"-DHEADRACE_TEST_TIMEOUT={3600 if options.full else 300}"])
    call(RELEASE)


def step_headers(_):
    call([*RELEASE, "--target", "all_verify_interface_header_sets"])


def step_configs(_):
    check_configs.check_accepted()
    check_configs.check_rejected()


def step_schema(_):
    check_configs.check_schema()


def step_tests(_):
    check_tests.run("release")
    check_tests.check_floor("release")


def build_sanitizer(preset):
    call(["cmake", "--preset", preset, "-DHEADRACE_BUILD_TESTS=ON"])
    call(["cmake", "--build", "--preset", preset, "--parallel", str(JOBS)])
    check_tests.run(preset)


def step_asan(_):
    build_sanitizer("asan")


def step_tsan(_):
    build_sanitizer("tsan")


def step_install(_):
    """Installs into a new folder and lets a project of its own build and run against it."""
    with tempfile.TemporaryDirectory(prefix="headrace-install-") as folder:
        prefix, build = Path(folder, "prefix"), Path(folder, "consumer")
        call(["cmake", "--install", "build/release", "--prefix", str(prefix)], quiet=True)
        headers = sum(1 for _ in prefix.glob("include/headrace/**/*.hpp"))
        print(f"installed {headers} headers", flush=True)
        call(["cmake", "-S", "tests/consumer", "-B", str(build), "-G", "Ninja",
              "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}",
              "-DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON"], quiet=True)
        call(["cmake", "--build", str(build)], quiet=True)
        printed = call([str(build / "print_program")], capture=True)
        expected = Path("tests/consumer/expected.txt").read_text(encoding="utf-8")
        if printed != expected:
            raise Failed(f"the consumer printed\n{printed}expected\n{expected}")
        call([str(build / "link_everything")])
        print("the consumer printed the expected program")


def step_docs(_):
    check_docs.check_links()
    check_docs.run_commands()


def step_quickstart(_):
    """The script itself, with a run of a few steps; its whole training is for people."""
    call(["tools/quickstart", "--", "--set", "run.steps=3"])


def step_fuzz(options):
    """A minute per reader from the corpus in tests/; what it finds stays in the build folder."""
    if not options.full:
        raise Skipped("runs with --full")
    call(["cmake", "--preset", "fuzz"])
    call(["cmake", "--build", "--preset", "fuzz", "--parallel", str(JOBS)])
    for reader, longest in (("csv", 4096), ("layout", 512)):
        found = Path("build/fuzz/corpus", reader)
        found.mkdir(parents=True, exist_ok=True)
        dictionary = Path("tests/fuzz", f"{reader}.dict")
        call([f"build/fuzz/bin/{reader}_fuzzer", "-max_total_time=60", f"-max_len={longest}",
              "-timeout=20", "-print_final_stats=1", "-verbosity=0",
              f"-artifact_prefix=build/fuzz/{reader}-",
              *([f"-dict={dictionary}"] if dictionary.exists() else []),
              str(found), f"tests/fuzz/corpus/{reader}"])


def step_clang_tidy(options):
    if not options.full:
        raise Skipped("runs with --full")
    files = [path for path in tree.list_files() if path.endswith(".cpp")
             and not path.startswith(("tests/", "tools/"))]

    def lint(path):
        call(["clang-tidy", "-p", "build/release", "--quiet", "--warnings-as-errors=*", path],
             quiet=True)

    with ThreadPoolExecutor(JOBS) as pool:
        jobs = [pool.submit(lint, path) for path in files]
    failures = [str(job.exception()) for job in jobs if job.exception()]
    if failures:
        raise Failed(f"{len(failures)} of {len(files)} files: " + "; ".join(failures))


# Name, function, the step whose failure makes this one meaningless.
STEPS = [
    ("format", step_format, None),
    ("layers", step_layers, None),
    ("tidy", step_tidy, None),
    ("build", step_build, None),
    ("configs", step_configs, "build"),
    ("schema", step_schema, "build"),
    ("headers", step_headers, "build"),
    ("tests", step_tests, "build"),
    ("install", step_install, "build"),
    ("docs", step_docs, "build"),
    ("quickstart", step_quickstart, "build"),
    ("asan", step_asan, None),
    ("tsan", step_tsan, None),
    ("fuzz", step_fuzz, None),
    ("clang-tidy", step_clang_tidy, "build"),
]


def run_step(name, function, needs, results, options):
    if needs and results.get(needs, ("passed",))[0] == "failed":
        return "failed", f"not run: {needs} failed", 0.0
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    try:
        function(options)
        result, note = "passed", ""
    except Skipped as reason:
        result, note = "skipped", str(reason)
    except Failed as reason:
        result, note = "failed", str(reason)
    seconds = time.monotonic() - started
    print(f"== {name}: {result}{': ' if note else ''}{note}", flush=True)
    return result, note, seconds


def print_table(results):
    """Table, then ctest's own closing lines, then one line of counts."""
    print(f"\n{'step':<12} {'seconds':>8}  result")
    for name, (result, note, seconds) in results.items():
        first_line = note.split("\n")[0][:100]
        print(f"{name:<12} {seconds:>8.1f}  {result}{': ' if note else ''}{first_line}")
    for preset, summary in check_tests.SUMMARIES:
        print(f"\nctest {preset}: {summary}")
    total = sum(seconds for _, _, seconds in results.values())
    counts = {kind: sum(1 for row in results.values() if row[0] == kind)
              for kind in ("passed", "failed", "skipped")}
    print(f"\n{total:.0f} s in all"
          + (f", {counts['skipped']} steps skipped, reasons above" if counts["skipped"] else ""))
    print(f"{counts['passed']} passed, {counts['failed']} failed", flush=True)
    return counts


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tools/check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, _, _ in STEPS]
    parser.add_argument("--full", action="store_true",
                        help="whole matrices, fuzzing and clang-tidy")
    parser.add_argument("--only", action="append", choices=names, metavar="STEP",
                        help="run this step: " + ", ".join(names))
    parser.add_argument("--list", action="store_true", help="print the steps and leave")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if options.list:
        print("\n".join(name for name, _, _ in STEPS))
        return 0
    os.chdir(tree.ROOT)
    os.environ["PATH"] = f"{tree.ROOT / 'build/release/bin'}{os.pathsep}{os.environ['PATH']}"
    if options.full:
        os.environ["HEADRACE_FULL"] = "1"
    if shutil.which("cmake") is None:
        print("check: no cmake in PATH; run tools/check, which installs it", file=sys.stderr)
        return 2
    results = {"install-deps": ("passed", "", float(os.environ.get("HEADRACE_INSTALL_SECONDS", 0)))}
    for name, function, needs in STEPS:
        if not options.only or name in options.only:
            results[name] = run_step(name, function, needs, results, options)
    counts = print_table(results)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
