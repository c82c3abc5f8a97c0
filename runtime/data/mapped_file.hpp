// MappedFile: a regular file mapped read-only into memory.
//
// What it is for: training data larger than memory, read in place. An empty file is a valid, empty
// mapping.
// What it does not do: write, map devices, pipes or folders, or survive a failing disk. A page that
// cannot be read raises SIGBUS: check_not_shrunk() finds a file that was cut before the reads that
// follow, but a file cut, or a disk or network share that fails, between the check and the read
// still kills the process. While a run reads them, replace data files by rename, never by
// truncation.
// Thread rule: distinct objects are independent; a shared object may be read from any thread.
#pragma once

#include "runtime/base/status.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace headrace::data {

class MappedFile {
 public:
  // kData with path and reason when the file is missing, unreadable or not a regular file.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  // The contents at the size the file had when it was opened; valid as long as this object lives.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {begin_, size_bytes_}; }
  // kData when the file is now shorter than its mapping. One system call; allocates only to
  // describe a failure.
  [[nodiscard]] Status check_not_shrunk() const;
  // Appends the contents to `out` by system calls, so that a file that shrinks meanwhile ends early
  // and a failing disk is a kData, not a signal. At most the mapped size is read.
  [[nodiscard]] Status append_to(std::vector<std::byte>& out) const;

 private:
  MappedFile() = default;
  void release() noexcept;

  std::string path_;
  const std::byte* begin_ = nullptr;
  std::size_t size_bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace headrace::data
