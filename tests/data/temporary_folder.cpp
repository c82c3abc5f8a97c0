#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace headrace::data {
namespace {

constexpr uid_t kNobody = 65534;

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "headrace_data_XXXXXX").native();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
  // Open to others, so that what a permission test meets is the file's own permission.
  std::filesystem::permissions(path_, std::filesystem::perms(0755));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::path(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string TemporaryFolder::write(std::string_view name, std::string_view content) const {
  const std::string file_path = path(name);
  std::filesystem::create_directories(std::filesystem::path(file_path).parent_path());
  std::ofstream file(file_path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  REQUIRE(file.good());
  return file_path;
}

std::string TemporaryFolder::write16(std::string_view name,
                                     std::span<const std::uint16_t> tokens) const {
  return write(name, bytes_of(tokens));
}

std::string TemporaryFolder::write32(std::string_view name,
                                     std::span<const std::uint32_t> tokens) const {
  return write(name, bytes_of(tokens));
}

std::string TemporaryFolder::write_llmc(std::string_view name, const Shard& shard,
                                        std::string_view payload) const {
  std::vector<std::uint32_t> header(256, 0);
  header[0] = static_cast<std::uint32_t>(shard.magic);
  header[1] = static_cast<std::uint32_t>(shard.version);
  header[2] = static_cast<std::uint32_t>(shard.promised);
  return write(name, bytes_of(header) + std::string(payload));
}

std::string bytes_of(std::span<const std::uint16_t> tokens) {
  std::string bytes;
  for (const std::uint16_t token : tokens) {
    bytes.push_back(static_cast<char>(token & 0xFFU));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

std::string bytes_of(std::span<const std::uint32_t> tokens) {
  std::string bytes;
  for (const std::uint32_t token : tokens) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>((token >> shift) & 0xFFU));
    }
  }
  return bytes;
}

std::vector<std::uint16_t> counting_tokens(std::size_t count, std::uint16_t modulus) {
  std::vector<std::uint16_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::uint16_t>(i % modulus);
  return tokens;
}

UnprivilegedUser::UnprivilegedUser()
    : was_root_(::geteuid() == 0), active_(!was_root_ || ::seteuid(kNobody) == 0) {}

UnprivilegedUser::~UnprivilegedUser() {
  if (was_root_ && active_ && ::seteuid(0) != 0) std::abort();
}

}  // namespace headrace::data
