"""How a step of the check runs a command, fails and skips."""

import os
import shlex
import subprocess
import sys

JOBS = len(os.sched_getaffinity(0))
PYTHON = [sys.executable, "-B"]
HEADRACE = "build/release/bin/headrace"


class Failed(Exception):
    """The step failed; the text says why."""


class Skipped(Exception):
    """What the step needs does not exist; the text says what."""


def call(command, shown=None, quiet=False, capture=False, expected=0, timeout=None):
    """Runs a command; its output goes on to ours (shown only on failure when quiet).

    Returns standard output when `capture` is set. Raises Failed on another exit code.
    """
    text = shown or shlex.join(command)
    print(f"+ {text}", flush=True)
    held = quiet or capture
    try:
        done = subprocess.run(command, check=False, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE if held else None,
                              stderr=subprocess.STDOUT if quiet and not capture else None)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{text}: not done after {timeout} s") from late
    except OSError as error:
        raise Failed(f"{text}: {error.strerror}") from error
    if done.returncode != expected:
        if held:
            print(done.stdout, flush=True)
        raise Failed(f"{text}: exit code {done.returncode}, expected {expected}")
    return done.stdout if capture else None
