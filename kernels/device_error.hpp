// The exception of a failed device or device library call.
//
// What it is for: kernels/ and stages/ throw it; the stream or the actor boundary catches it and
// turns it into a Status with code kDeviceFailed. What it does not do: report bad input. Thread
// rule: a value.
#pragma once

#include <stdexcept>
#include <string>

namespace headrace::kernels {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace headrace::kernels
