// A folder of its own for one test, and the files in it.
//
// What it is for: real files, removed at the end of the test. What it does not do: run as another
// user for longer than a guard lives. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::data {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(std::string_view name) const;
  // Writes a file below the folder, with the folders above it, and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  std::string write16(std::string_view name, std::span<const std::uint16_t> tokens) const;
  std::string write32(std::string_view name, std::span<const std::uint32_t> tokens) const;
  // An llm.c shard: magic, version, the token count that the header promises, then `payload`.
  struct Shard {
    std::int32_t magic = 20240520;
    std::int32_t version = 1;
    std::int32_t promised = 0;
  };
  std::string write_llmc(std::string_view name, const Shard& shard, std::string_view payload) const;

 private:
  std::string path_;
};

[[nodiscard]] std::string bytes_of(std::span<const std::uint16_t> tokens);
[[nodiscard]] std::string bytes_of(std::span<const std::uint32_t> tokens);
// 0, 1, 2, … modulo `modulus`.
[[nodiscard]] std::vector<std::uint16_t> counting_tokens(std::size_t count, std::uint16_t modulus);

// Lets root feel permissions: the effective user is nobody while it lives. Does nothing for other
// users.
class UnprivilegedUser {
 public:
  UnprivilegedUser();
  ~UnprivilegedUser();
  UnprivilegedUser(const UnprivilegedUser&) = delete;
  UnprivilegedUser& operator=(const UnprivilegedUser&) = delete;
  // False where root may not change its user, and permissions cannot be tested.
  [[nodiscard]] bool active() const { return active_; }

 private:
  bool was_root_;
  bool active_;
};

}  // namespace headrace::data
