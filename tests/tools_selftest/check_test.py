"""Tests of the steps behind tools/check: each must fail loudly on what it is there to find."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_configs  # pylint: disable=wrong-import-position
import check_docs
import check_run
import check_steps
import check_tests

FENCE = "`" * 3


def console(*lines):
    return FENCE + "console\n" + "\n".join(lines) + "\n" + FENCE + "\n"


class Quiet(unittest.TestCase):
    def setUp(self):
        silence = contextlib.redirect_stdout(io.StringIO())
        self.printed = silence.__enter__()
        self.addCleanup(silence.__exit__, None, None, None)


class DocsTest(Quiet):
    def plan(self, text):
        return [row[1:] for row in check_docs.plan_commands(Path("a.md"), text)]

    def test_commands_are_taken_and_output_is_not(self):
        self.assertEqual(self.plan(console("$ headrace --version", "headrace 0.1.0", "$ true")),
                         [("headrace --version", 0, None), ("true", 0, None)])

    def test_a_backslash_joins_lines(self):
        self.assertEqual(self.plan(console("$ headrace train \\", "    a.yaml")),
                         [("headrace train  a.yaml", 0, None)])

    def test_a_marked_block_is_spared_with_its_reason(self):
        text = "<!-- not run: needs a GPU -->\n" + console("$ nvidia-smi")
        self.assertEqual(self.plan(text), [("nvidia-smi", 0, "needs a GPU")])

    def test_a_mark_counts_for_the_next_block_only(self):
        text = "<!-- not run: needs a GPU -->\n" + console("$ one") + "text\n" + console("$ two")
        self.assertEqual([row[2] for row in self.plan(text)], ["needs a GPU", None])

    def test_an_expected_exit_code_is_read(self):
        self.assertEqual(self.plan("<!-- exit: 2 -->\n" + console("$ false")), [("false", 2, None)])

    def test_each_of_two_marks_counts_for_its_own_block(self):
        text = ("<!-- exit: 2 -->\n" + console("$ one") + "text\n<!-- exit: 5 -->\n"
                + console("$ two"))
        self.assertEqual([row[1] for row in self.plan(text)], [2, 5])

    def test_what_nobody_would_run_is_refused(self):
        for text in [FENCE + "bash\nls\n" + FENCE + "\n", console("ls"),
                     "<!-- not run: -->\n" + console("$ ls")]:
            with self.assertRaises(check_run.Failed):
                self.plan(text)

    def test_the_exempt_table_matches_whole_commands(self):
        self.assertIsNotNone(check_docs.find_exemption("./tools/check --full"))
        self.assertIsNone(check_docs.find_exemption("headrace train x # ./tools/check"))
        self.assertIsNone(check_docs.find_exemption("./tools/checks"))

    def test_a_failing_command_fails_the_step(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "README.md")
            page.write_text(console("$ true", "$ exit 3"), encoding="utf-8")
            with mock.patch.object(check_docs, "list_pages", lambda: [page]):
                with self.assertRaisesRegex(check_run.Failed, "exit code 3"):
                    check_docs.run_commands()

    def test_broken_links_and_headings_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "a.md")
            text = "# Some Title\n[a](a.md#some-title) [b](gone.md) [c](#gone)\n"
            page.write_text(text, encoding="utf-8")
            broken = check_docs.find_broken_links(page, text)
        self.assertEqual(len(broken), 2)


class FloorTest(Quiet):
    def check(self, counts, floor):
        with mock.patch.object(check_tests, "count_cases", lambda _: Counter(counts)), \
                mock.patch.object(check_tests, "read_floor", lambda: floor):
            check_tests.check_floor("release")

    def test_enough_cases_pass(self):
        self.check({"unit": 5}, {"unit": 5})

    def test_fewer_missing_and_unknown_labels_fail(self):
        for counts, floor in [({"unit": 4}, {"unit": 5}), ({}, {"unit": 1}),
                              ({"unit": 5, "actor": 1}, {"unit": 5})]:
            with self.assertRaises(check_run.Failed):
                self.check(counts, floor)

    def test_ctest_without_summary_or_with_failures_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder, "ctest")
            for body in ["exit 0", "echo '90% tests passed, 1 tests failed out of 10'; exit 8",
                         "echo '1/1 Test #1: a_NOT_BUILT ***Not Run'; "
                         "echo '100% tests passed, 0 tests failed out of 1'"]:
                fake.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
                fake.chmod(0o755)
                path = f"{folder}:{os.environ['PATH']}"
                with mock.patch.dict(os.environ, {"PATH": path}), \
                        mock.patch.object(check_tests, "SUMMARIES", []), \
                        self.assertRaises(check_run.Failed):
                    check_tests.run("release")


class YamlTest(unittest.TestCase):
    def test_scalars_read_as_our_reader_does(self):
        yaml, loader = check_configs.make_loader()
        text = "{a: 1e-4, b: 3e2, c: yes, d: true, e: null, f: 12, g: 0.5, h: block*2, i: 1F1B}"
        self.assertEqual(yaml.load(text, Loader=loader),
                         {"a": 1e-4, "b": 300.0, "c": "yes", "d": True, "e": None, "f": 12,
                          "g": 0.5, "h": "block*2", "i": "1F1B"})

    def test_every_section_is_broken_once(self):
        broken = list(check_configs.break_sections({"run": {"steps": 1}, "stages": []}))
        self.assertEqual([name for name, _ in broken], ["the top", "run"])


class StepsTest(Quiet):
    def test_a_failed_command_fails_its_step(self):
        result = check_steps.run_step("a", lambda _: check_run.call(["false"]), None, {}, None)
        self.assertEqual(result[0], "failed")

    def test_a_missing_program_fails_its_step(self):
        result = check_steps.run_step("a", lambda _: check_run.call(["no-such-program"]), None, {},
                                      None)
        self.assertEqual(result[0], "failed")

    def test_what_needs_a_failed_step_fails_unrun(self):
        result = check_steps.run_step("b", lambda _: self.fail("was run"), "a",
                                      {"a": ("failed", "", 0.0)}, None)
        self.assertEqual(result[0], "failed")

    def test_the_last_line_counts_and_ctest_speaks_before_it(self):
        with mock.patch.object(check_tests, "SUMMARIES", [("release", "100% tests passed")]):
            check_steps.print_table({"a": ("passed", "", 1.0), "b": ("failed", "why", 2.0)})
        lines = self.printed.getvalue().strip().split("\n")
        self.assertEqual(lines[-1], "1 passed, 1 failed")
        self.assertIn("ctest release: 100% tests passed", lines)

    def test_a_step_that_does_not_exist_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            check_steps.main(["--only", "nothing"])


if __name__ == "__main__":
    unittest.main()
