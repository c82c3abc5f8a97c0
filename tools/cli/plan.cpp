#include "tools/cli/plan.hpp"

#include <cctype>

namespace headrace::cli {
namespace {

// The key a refusal of make_plan speaks of: it begins with it, and `stages: stage 2: …` means the
// third entry of the list.
std::string key_of(const std::string& message) {
  static const std::string kStage = "stages: stage ";
  if (message.rfind(kStage, 0) == 0) {
    std::string number;
    for (std::size_t i = kStage.size(); i < message.size() && std::isdigit(message[i]) != 0; ++i) {
      number += message[i];
    }
    return "stages[" + number + "].layers";
  }
  return message.substr(0, message.find(':'));
}

}  // namespace

Result<actors::Plan> plan_of(const std::string& path, const config::Config& config) {
  auto plan = actors::make_plan(config);
  if (plan) return plan;
  const Status refusal = plan.status();
  const std::string& message = refusal.message();
  const std::string place = config.places.of(key_of(message));
  return Status(refusal.code(), (place.empty() ? path : place) + ": " + message);
}

}  // namespace headrace::cli
