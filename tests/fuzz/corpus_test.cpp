#include "tests/fuzz/entries.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using namespace headrace;

namespace {

struct Count {
  int accepted = 0;
  int refused = 0;
};

// A broken promise aborts the process with the text that broke it.
Count replay(const std::string& folder, bool (*entry)(std::string_view)) {
  Count count;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(file.path(), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    ++(entry(text.str()) ? count.accepted : count.refused);
  }
  return count;
}

}  // namespace

TEST_CASE("fuzz: the corpus of CSV files keeps every promise") {
  const Count count = replay(HEADRACE_CORPUS_DIR "/csv", fuzz::try_csv);
  CHECK(count.accepted >= 8);
  CHECK(count.refused >= 8);
}

TEST_CASE("fuzz: the corpus of layouts keeps every promise") {
  const Count count = replay(HEADRACE_CORPUS_DIR "/layout", fuzz::try_layout);
  CHECK(count.accepted >= 5);
  CHECK(count.refused >= 5);
}
