"""The commands and links that README.md, CONTRIBUTING.md and docs/ show.

Commands stand in ```console blocks on lines that start with "$ "; a backslash at the line's end
goes on. Each is run from the root, in the order of the page, and has to exit with 0. Before a
block, `<!-- not run: REASON -->` spares it and `<!-- exit: N -->` says which exit code is right.
"""

import re
from pathlib import Path

from check_run import Failed, Skipped, call

# Commands that other steps of the check cover, or that would call the check itself.
EXEMPT = [
    (r"\./tools/check( .*)?", "it is this check"),
    (r"\./tools/quickstart( .*)?", "the step quickstart"),
    (r"git clone\b.*", "it is how the tree got here"),
    (r"cd \S+", "each command starts at the root"),
    (r"cmake --(preset|workflow|build)\b.*", "the steps build, asan and tsan"),
    (r"cmake --install\b.*", "the step install"),
    (r"ctest --preset\b.*", "the steps tests, asan and tsan"),
]
SECONDS = 300
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)``` *$",
                   re.M | re.S)
MARK = re.compile(r"<!--\s*(?P<what>not run|exit):\s*(?P<value>(?:(?!-->).)*?)\s*-->\s*\Z", re.S)
SHELLS = {"sh", "bash", "shell", "zsh"}


def list_pages():
    return [path for path in [Path("README.md"), Path("CONTRIBUTING.md"),
                              *sorted(Path("docs").glob("**/*.md"))] if path.exists()]


def list_blocks(text):
    """Console blocks as (line, mark, value, commands); ValueError on what cannot be checked."""
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        kind = fence.group("kind")
        if kind in SHELLS:
            raise ValueError(f"{line}: a block of {kind}; use console and '$ ', so that it is run")
        if kind != "console":
            continue
        mark = MARK.search(text[:fence.start()])
        what, value = (mark.group("what"), mark.group("value")) if mark else (None, None)
        if what == "not run" and not value:
            raise ValueError(f"{line}: 'not run' needs a reason")
        body = re.sub(r"\\\n\s*(?:> )?", " ", fence.group("body"))
        commands = [text_line.strip()[2:] for text_line in body.split("\n")
                    if text_line.strip().startswith("$ ")]
        if not commands:
            raise ValueError(f"{line}: a console block without a line that starts with '$ '")
        yield line, what, value, commands


def find_exemption(command):
    return next((why for pattern, why in EXEMPT if re.fullmatch(pattern, command)), None)


def plan_commands(path, text):
    """(place, command, expected exit code, reason not to run it or None)"""
    planned = []
    try:
        for line, what, value, commands in list_blocks(text):
            for command in commands:
                reason = value if what == "not run" else find_exemption(command)
                expected = int(value) if what == "exit" else 0
                planned.append((f"{path}:{line}", command, expected, reason))
    except ValueError as problem:
        raise Failed(f"{path}:{problem}") from problem
    return planned


def run_commands():
    pages = list_pages()
    if not any(page.name == "README.md" for page in pages):
        raise Skipped("there is no README.md yet")
    done, failures = set(), []
    for page in pages:
        for place, command, expected, reason in plan_commands(page,
                                                              page.read_text(encoding="utf-8")):
            if reason:
                print(f"{place}: not run ({reason}): {command}")
                continue
            if (command, expected) in done:
                continue
            done.add((command, expected))
            try:
                call(["bash", "-euo", "pipefail", "-c", command], quiet=True, expected=expected,
                     timeout=SECONDS, shown=f"{place}: {command}")
            except Failed as failure:
                failures.append(str(failure))
    print(f"{len(done)} commands of {len(pages)} pages run")
    if failures:
        raise Failed("; ".join(failures))


def find_broken_links(page, text):
    prose = FENCE.sub("", text)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists():
            broken.append(f"{page}: link to {target}: there is no such file")
        elif anchor and file.suffix == ".md" and anchor not in list_anchors(file):
            broken.append(f"{page}: link to {target}: there is no such heading")
    return broken


def list_anchors(page):
    headings = re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links():
    broken = [problem for page in list_pages()
              for problem in find_broken_links(page, page.read_text(encoding="utf-8"))]
    for problem in broken:
        print(problem)
    if broken:
        raise Failed(f"{len(broken)} broken links")
