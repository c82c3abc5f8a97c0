#include "runtime/config/config.hpp"

#include "runtime/config/words.hpp"

namespace headrace::config {

std::string_view to_string(ModelKind value) { return word_of(value); }
std::string_view to_string(GeluKind value) { return word_of(value); }
std::string_view to_string(PolicyKind value) { return word_of(value); }
std::string_view to_string(DataFormat value) { return word_of(value); }
std::string_view to_string(OptimizerKind value) { return word_of(value); }
std::string_view to_string(BackwardOrder value) { return word_of(value); }
std::string_view to_string(DecayKind value) { return word_of(value); }
std::string_view to_string(Precision value) { return word_of(value); }
std::string_view to_string(RecomputeKind value) { return word_of(value); }
std::string_view to_string(DeviceType value) { return word_of(value); }

std::string Places::of(std::string path) const {
  for (;;) {
    const auto found = by_path.find(path);
    if (found != by_path.end()) return found->second;
    const std::size_t cut = path.find_last_of(".[");
    if (cut == std::string::npos) return {};
    path.resize(cut);
  }
}

}  // namespace headrace::config
