#include "runtime/data/mapped_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace headrace::data {
namespace {

Status cannot_open(const std::string& path, const std::string& reason) {
  return {StatusCode::kData, "data file '" + path + "' cannot be read: " + reason};
}

std::string system_reason(int error) { return std::generic_category().message(error); }

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe";
  if (S_ISSOCK(mode)) return "it is a socket";
  return "it is a device";
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // Without O_NONBLOCK a pipe would block here until somebody writes.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) return cannot_open(path, system_reason(errno));
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) return cannot_open(path, system_reason(errno));
  if (!S_ISREG(info.st_mode)) {
    return cannot_open(path, kind_of(info.st_mode) + ", and a regular file is needed");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return file;  // mmap refuses a length of zero
  void* begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor_, 0);
  if (begin == MAP_FAILED) return cannot_open(path, "mapping failed: " + system_reason(errno));
  file.begin_ = static_cast<const std::byte*>(begin);
  file.size_bytes_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  begin_ = std::exchange(other.begin_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

MappedFile::~MappedFile() { release(); }

void MappedFile::release() noexcept {
  if (begin_ != nullptr) ::munmap(const_cast<std::byte*>(begin_), size_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
  begin_ = nullptr;
  size_bytes_ = 0;
  descriptor_ = -1;
}

Status MappedFile::check_not_shrunk() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) return cannot_open(path_, system_reason(errno));
  if (static_cast<std::size_t>(info.st_size) >= size_bytes_) return Status::ok();
  return {StatusCode::kData, "data file '" + path_ +
                                 "' shrank while it was in use: " + std::to_string(size_bytes_) +
                                 " bytes when opened, " + std::to_string(info.st_size) +
                                 " now; replace data files by rename, and start again"};
}

Status MappedFile::append_to(std::vector<std::byte>& out) const {
  const std::size_t before = out.size();
  out.resize(before + size_bytes_);
  std::size_t done = 0;
  while (done < size_bytes_) {
    const ssize_t count = ::pread(descriptor_, out.data() + before + done, size_bytes_ - done,
                                  static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_open(path_, system_reason(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  out.resize(before + done);
  return Status::ok();
}

}  // namespace headrace::data
