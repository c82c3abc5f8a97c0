#include "runtime/base/status.hpp"

namespace headrace {

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInternal:
      return 1;
    case StatusCode::kUsage:
    case StatusCode::kConfig:
      return 2;
    case StatusCode::kData:
    case StatusCode::kCheckpoint:
      return 3;
    case StatusCode::kPeerFailed:
    case StatusCode::kStageFailed:
    case StatusCode::kDeviceFailed:
    case StatusCode::kTimeout:
    case StatusCode::kCancelled:
      return 4;
    case StatusCode::kNumerics:
      return 5;
  }
  return 1;
}

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInternal:
      return "internal";
    case StatusCode::kUsage:
      return "usage";
    case StatusCode::kConfig:
      return "config";
    case StatusCode::kData:
      return "data";
    case StatusCode::kCheckpoint:
      return "checkpoint";
    case StatusCode::kPeerFailed:
      return "peer_failed";
    case StatusCode::kStageFailed:
      return "stage_failed";
    case StatusCode::kDeviceFailed:
      return "device_failed";
    case StatusCode::kNumerics:
      return "numerics";
    case StatusCode::kTimeout:
      return "timeout";
    case StatusCode::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace headrace
