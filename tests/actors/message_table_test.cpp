// The message table of docs/ARCHITECTURE.md and the structs of messages.hpp are the same list.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace headrace::actors {
namespace {

struct Row {
  std::string message, from, to;
  bool operator==(const Row&) const = default;
};

std::string text_of(const Row& row) { return row.message + ": " + row.from + " -> " + row.to; }

std::string trimmed(const std::string& text) {
  const std::string blanks = " \t\r`*";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream rest(line.substr(line.find('|') + 1));
  for (std::string cell; std::getline(rest, cell, '|');) cells.push_back(trimmed(cell));
  return cells;
}

// Rows under the header `| Message | from | to | ...`, to the table's end.
std::vector<Row> rows_of_document(std::istream& document) {
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (trimmed(line).rfind('|', 0) != 0) {
      if (inside) break;
      continue;
    }
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() < 3) continue;
    if (!inside) {
      inside = (cells[0] == "Message" || cells[0] == "message") &&
               (cells[1] == "from" || cells[1] == "From");
      continue;
    }
    if (cells[0].find_first_not_of("-: ") == std::string::npos) continue;
    rows.push_back({cells[0], cells[1], cells[2]});
  }
  return rows;
}

// `// from -> to: …` opens the comment above each struct.
std::vector<Row> rows_of_header(std::istream& header) {
  std::vector<Row> rows;
  Row next;
  std::string before;
  for (std::string line; std::getline(header, line); before = line) {
    const std::size_t arrow = line.find(" -> ");
    const bool opens = line.rfind("// ", 0) == 0 && before.rfind("//", 0) != 0;
    if (opens && arrow != std::string::npos) {
      next.from = line.substr(3, arrow - 3);
      next.to = line.substr(arrow + 4, line.find(':', arrow) - arrow - 4);
    }
    if (line.rfind("struct ", 0) != 0) continue;
    next.message = line.substr(7, line.find(' ', 7) - 7);
    rows.push_back(next);
    next = {};
  }
  return rows;
}

TEST_CASE("message table: the document lists the messages of the header in its order") {
  const std::string root = std::string(HEADRACE_SOURCE_DIR) + "/";
  std::ifstream header(root + "runtime/actors/messages.hpp");
  REQUIRE(header.good());
  const std::vector<Row> expected = rows_of_header(header);
  REQUIRE(expected.size() >= 18);
  CHECK(text_of(expected.front()) == "LoadBatch: scheduler -> data");
  for (const Row& row : expected) {
    CAPTURE(row.message);
    CHECK_FALSE(row.from.empty());
    CHECK_FALSE(row.to.empty());
  }
  std::ifstream document(root + "docs/ARCHITECTURE.md");
  REQUIRE(document.good());
  const std::vector<Row> found = rows_of_document(document);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(text_of(found[i]) == text_of(expected[i]));
  }
}

}  // namespace
}  // namespace headrace::actors
