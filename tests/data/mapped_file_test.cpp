#include "runtime/data/mapped_file.hpp"

#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <utility>

namespace headrace::data {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_refused(const std::string& path, const std::string& reason) {
  const Result<MappedFile> file = MappedFile::open(path);
  REQUIRE_FALSE(file.is_ok());
  const std::string message = file.status().message();
  CAPTURE(message);
  CHECK(file.status().code() == StatusCode::kData);
  CHECK(message.find(path) != std::string::npos);
  CHECK(message.find(reason) != std::string::npos);
}

TEST_CASE("mapped file: shows the contents and survives a move") {
  const TemporaryFolder folder;
  Result<MappedFile> first = MappedFile::open(folder.write("a", "headrace"));
  Result<MappedFile> second = MappedFile::open(folder.write("b", "mill"));
  REQUIRE(first.is_ok());
  REQUIRE(second.is_ok());
  CHECK(text_of(first->bytes()) == "headrace");
  MappedFile moved = std::move(first).value();
  CHECK(text_of(moved.bytes()) == "headrace");
  moved = std::move(second).value();
  CHECK(text_of(moved.bytes()) == "mill");
  CHECK(moved.path() == folder.path("b"));
  CHECK(moved.check_not_shrunk().is_ok());
}

TEST_CASE("mapped file: an empty file is an empty mapping") {
  const TemporaryFolder folder;
  const Result<MappedFile> file = MappedFile::open(folder.write("empty", ""));
  REQUIRE(file.is_ok());
  CHECK(file.value().bytes().empty());
  CHECK(file.value().check_not_shrunk().is_ok());
  std::vector<std::byte> out(3);
  CHECK(file.value().append_to(out).is_ok());
  CHECK(out.size() == 3);
}

TEST_CASE("mapped file: what is no regular file is refused with its kind") {
  const TemporaryFolder folder;
  check_refused(folder.path("missing"), "No such file");
  check_refused(folder.path(), "it is a folder");
  check_refused("/dev/null", "it is a device");
  const std::string pipe_path = folder.path("pipe");
  REQUIRE(::mkfifo(pipe_path.c_str(), 0600) == 0);
  check_refused(pipe_path, "it is a pipe");
}

TEST_CASE("mapped file: a file that shrinks is reported and one that grows is not") {
  const TemporaryFolder folder;
  const std::string path = folder.write("data", std::string(10000, 'x'));
  const Result<MappedFile> file = MappedFile::open(path);
  REQUIRE(file.is_ok());
  std::filesystem::resize_file(path, 20000);
  CHECK(file.value().check_not_shrunk().is_ok());
  std::filesystem::resize_file(path, 9999);
  const Status status = file.value().check_not_shrunk();
  CHECK(status.code() == StatusCode::kData);
  CHECK(status.message().find("10000 bytes when opened") != std::string::npos);
  CHECK(status.message().find("9999") != std::string::npos);
  std::vector<std::byte> out;
  CHECK(file.value().append_to(out).is_ok());
  CHECK(out.size() == 9999);
}

}  // namespace
}  // namespace headrace::data
