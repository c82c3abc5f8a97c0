"""The self-test of tools/tidy.py: a clean small tree, and one broken tree per rule."""

HEADER = "// What it is for. Thread rule: values.\n#pragma once\n"
LISTED = {"schedules/CMakeLists.txt": "HEADERS a.hpp SOURCES a.cpp\n",
          "stages/CMakeLists.txt": "a.cpp", "kernels/CMakeLists.txt": "a.cpp cuda/a.cpp",
          "runtime/base/CMakeLists.txt": "a.cpp check.cpp",
          "tests/base/CMakeLists.txt": "a_test.cpp"}
CASE = 'TEST_CASE("base: holds") {}\n'
PLACE = "/ho" + "me/me/corpus.txt"
LONG_BODY = "  step();\n" * 70


def body(lines, head="int run()"):
    return f"{head} {{\n" + "  step();\n" * (lines - 2) + "}\n"


CLEAN = {
    "schedules/a.hpp": HEADER + "struct Action {\n  Action(const Action&) = delete;\n};\n",
    "schedules/a.cpp": "// new delete std::cout printf( in a comment\n"
                       'const char* text = "new delete std::cout printf(";\n' + body(70),
    "tests/base/a_test.cpp": '#include "tests/base/child.hpp"\n' + CASE,
    "tests/base/child.hpp": HEADER,
    "runtime/base/check.cpp": "void say() { std::fprintf(stderr, text); }\n",
    "docs/a.md": "`" + "/usr/include/c++` and https://arxiv.org/abs/1811.06965 at 127.0.0.1\n",
}

# What is added to the clean tree, and what a finding must then say.
BROKEN = [
    ({"schedules/a.cpp": "int a;  // " + "x" * 100 + "\n"}, "schedules/a.cpp:1: width: "),
    ({"schedules/a.cpp": "int a; \n"}, "blanks: the line ends"),
    ({"schedules/a.cpp": "int a;"}, "blanks: the last line"),
    ({"docs/b.md": "TO" + "DO later\n"}, "docs/b.md:1: word"),
    ({"stages/a.cpp": "auto* a = new Layer();\n"}, "raw-new"),
    ({"stages/a.cpp": "auto* a = new (place) Layer();\n"}, "raw-new"),
    ({"stages/a.cpp": "void f() { delete a; }\n"}, "raw-delete"),
    ({"stages/a.cpp": "void f() { delete[] a; }\n"}, "raw-delete"),
    ({"stages/a.cpp": "std::thread worker;\n"}, "thread: "),
    ({"kernels/a.cpp": "void f() { std::cout << 1; }\n"}, "print: "),
    ({"kernels/a.cpp": "void f() { printf(text); }\n"}, "print: "),
    ({"runtime/base/a.cpp": "void f() { std::fprintf(stderr, text); }\n"}, "print: "),
    ({"runtime/base/a.cpp": "void f() { std::exit(1); }\n"}, "exit: "),
    ({"kernels/cuda/a.cpp": "void f() { cudaDeviceSynchronize(); }\n"}, "sync: "),
    ({"stages/a.cpp": "void f() { cudaMalloc(&p, 1); }\n"}, "cuda-malloc: "),
    ({"stages/a.cpp": "int f() { return std::rand(); }\n"}, "rand: "),
    ({"docs/b.md": f"see {PLACE}\n"}, "place: "),
    ({"docs/b.md": "see https:" + "//intranet.acme.test/x\n"}, "place: host"),
    ({"docs/b.md": "ping 172.16." + "5.4 first\n"}, "place: address"),
    ({"schedules/a.hpp": HEADER + "class RankManager {};\n"}, "name: type 'RankManager'"),
    ({"schedules/a.hpp": HEADER + "struct NewPlan {};\n"}, "name: type 'NewPlan'"),
    ({"docs/graph_utils.md": "text\n"}, "name: 'graph_utils.md'"),
    ({"schedules/a.hpp": "#pragma once\n"}, "header: opens"),
    ({"schedules/a.hpp": "// What it is for.\n"}, "header: has no"),
    ({"schedules/a.cpp": body(71)}, "schedules/a.cpp run: size: 71"),
    ({"kernels/a.cpp": body(121)}, "kernels/a.cpp run: size: 121"),
    ({"schedules/a.cpp": "Plan::Plan() : a_{1}, b_(2) {\n" + LONG_BODY + "}\n"},
     "Plan::Plan: size: 72"),
    ({"schedules/a.cpp": "int a;\n" * 601}, "schedules/a.cpp: size: 601"),
    ({"tools/tidy_ratchet.txt": "90 schedules/a.cpp run\n"}, "shrink or drop"),
    ({"schedules/a.cpp": body(95), "tools/tidy_ratchet.txt": "90 schedules/a.cpp run\n"},
     "limit is 90"),
    ({"schedules/b.cpp": "int a;\n"}, "schedules/b.cpp:1: lost"),
    ({"schedules/detail/b.hpp": HEADER}, "nothing includes it"),
    ({"tests/base/a_test.cpp": CASE + CASE}, "test-name: 'base: holds' is also"),
    ({"tests/base/a_test.cpp": 'TEST_CASE("base: a;b") {}\n'}, "test-name: 'base: a;b'"),
    ({"tests/base/a_test.cpp": 'TEST_CASE("base: a, b") {}\n'}, "test-name: 'base: a, b'"),
    ({"tests/base/a_test.cpp": 'TEST_CASE("no component") {}\n'}, "test-name: 'no component'"),
    ({"tests/base/a_test.cpp": "int a;\n"}, "without a test case"),
    ({"tests/base/a_test.cpp": 'TEST_CASE("base: x" * doctest::skip()) {}\n'}, "number of an"),
]

EXCUSED = [
    {"stages/a.cpp": "auto* a = new T();  // tidy: allow raw-new because the library frees it\n"},
    {"tests/base/a_test.cpp": CASE + "void* operator new(std::size_t size);\n"},
    {"schedules/a.cpp": body(80), "tools/tidy_ratchet.txt": "80 schedules/a.cpp run\n"},
    {"tests/base/a_test.cpp": 'TEST_CASE("base: x" * doctest::skip()) {}  // issue 12\n'},
    {"kernels/a.cpp": body(120)},
    {"stages/a.cpp": "std::unique_ptr<Stage> stage(new Stage(plan));\n"},
    {"stages/a.cpp": "auto f() { return std::unique_ptr<Stage>(\n    new Stage(plan)); }\n"},
]

FUNCTIONS = """
namespace a {
struct S { int x = 1; };
int first() { return 1; }
S::S(int a)
    : a_{a}, b_(a) {
  for (int i = 0; i < 2; ++i) { step(); }
}
auto second(int a) -> int {
  const std::vector<int> v = {1, 2, 3};
  auto add = [&](int b) { return a + b; };
  return add(v[0]);
}
TEST_CASE("a: b") {
  CHECK(first() == 1);
}
}
"""
EXPECTED_FUNCTIONS = [("first", 4, 4), ("S::S", 5, 8), ("second", 9, 13), ("TEST_CASE", 14, 16)]


def run(check_files, list_functions):
    failures = [f"clean tree: {finding}" for finding in check_files({**LISTED, **CLEAN})
                if "CMakeLists" not in finding]
    for change, expected in BROKEN:
        findings = check_files({**LISTED, **CLEAN, **change})
        if not any(expected in finding for finding in findings):
            failures.append(f"{change}: expected '{expected}', found {findings}")
    for change in EXCUSED:
        findings = [text for text in check_files({**LISTED, **CLEAN, **change})
                    if "CMakeLists" not in text]
        failures += [f"excused {change}: {finding}" for finding in findings]
    found = [(name.split(" ")[0], first, last) for name, first, last in list_functions(FUNCTIONS)]
    if found != EXPECTED_FUNCTIONS:
        failures.append(f"functions: expected {EXPECTED_FUNCTIONS}, found {found}")
    return failures
