#include "runtime/data/detail/text_folder.hpp"

#include "runtime/data/mapped_file.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

namespace headrace::data::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProbeBytes = 4096;

Status cannot_list(const std::string& path, const std::error_code& error) {
  return {StatusCode::kData, "data folder '" + path + "' cannot be read: " + error.message()};
}

// Adds the regular files below `root` to `paths` and counts what it passes over. Depth first
// through a list of its own: recursive_directory_iterator cannot name the folder that it failed to
// enter.
Status collect(const std::string& root, std::vector<std::string>& paths, SkippedFiles& skipped) {
  std::vector<std::string> folders{root};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const fs::file_status status = entry->symlink_status(error);
      if (error) break;
      if (entry->path().filename().native().starts_with('.')) {
        ++skipped.hidden;
      } else if (fs::is_symlink(status)) {
        ++skipped.links;
      } else if (fs::is_directory(status)) {
        folders.push_back(entry->path().native());
      } else if (fs::is_regular_file(status)) {
        paths.push_back(entry->path().native());
      }
    }
    if (error) return cannot_list(folder, error);
  }
  std::sort(paths.begin(), paths.end());
  return Status::ok();
}

bool is_binary(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min(bytes.size(), kProbeBytes));
  return std::find(probe.begin(), probe.end(), std::byte{0}) != probe.end();
}

// Reads one file behind the others, or counts why not.
Status append(const std::string& path, std::int64_t bytes_max, TextFolder& folder) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.status();
  const std::size_t before = folder.bytes.size();
  if (file.value().bytes().size() > static_cast<std::size_t>(bytes_max) - before) {
    return {StatusCode::kData,
            "data folder with '" + path + "' holds more than " + std::to_string(bytes_max) +
                " bytes, and a folder is read into memory; join its files into one, which is "
                "mapped instead"};
  }
  HEADRACE_RETURN_IF_ERROR(file.value().append_to(folder.bytes));
  const std::span<const std::byte> text = std::span<const std::byte>(folder.bytes).subspan(before);
  if (text.empty()) {
    ++folder.skipped.empty;
  } else if (is_binary(text)) {
    ++folder.skipped.binary;
    folder.bytes.resize(before);
  } else {
    folder.documents.push_back(
        {path, static_cast<std::int64_t>(before), static_cast<std::int64_t>(text.size()), 0});
  }
  return Status::ok();
}

}  // namespace

Result<TextFolder> read_text_folder(const std::string& root, std::int64_t bytes_max) {
  TextFolder folder;
  std::vector<std::string> paths;
  HEADRACE_RETURN_IF_ERROR(collect(root, paths, folder.skipped));
  for (const std::string& path : paths) HEADRACE_RETURN_IF_ERROR(append(path, bytes_max, folder));
  folder.bytes.shrink_to_fit();
  return folder;
}

}  // namespace headrace::data::detail
