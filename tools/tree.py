"""The files of the tree, and C++ text without comments and strings.

For the checks in this folder. It judges nothing itself.
"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP_SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu"}
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "runs"}


def list_files(root=ROOT):
    """Files git knows or would add, as paths from the root; a walk where git does not answer."""
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted({name for name in names if (root / name).is_file()})


def is_cpp(path):
    return Path(path).suffix in CPP_SUFFIXES


def read_text(path, root=ROOT):
    """The file as text, or None when it is not text."""
    data = (root / path).read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def _blank(match):
    text = match.group(0)
    if text.startswith(("//", "/*")):
        return re.sub(r"[^\n]", " ", text)
    return '"' + re.sub(r"[^\n]", " ", text[1:-1]) + '"'


def strip_cpp(text):
    """The same text with the insides of comments and literals blanked; positions stay."""
    return _TOKEN.sub(_blank, text)


def strip_cpp_comments(text):
    """The same text with comments blanked and literals kept."""
    return _TOKEN.sub(
        lambda m: _blank(m) if m.group(0).startswith(("//", "/*")) else m.group(0), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1
