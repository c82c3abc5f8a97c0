// Golden tensors that PyTorch computed (generate.py), and how close to them we must be.
//
// What it is for: reading a file of tests/parity/golden and comparing a result with one of its
// tensors, at the tolerance of its row in the one table. What it does not do: need PyTorch. Thread
// rule: distinct objects.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace headrace::kernels::parity {

class Golden {
 public:
  // Reads golden/NAME.bin; a file that is missing or malformed fails the test case.
  explicit Golden(const std::string& name);

  [[nodiscard]] const std::vector<float>& floats(const std::string& tensor) const;
  [[nodiscard]] const std::vector<std::int32_t>& integers(const std::string& tensor) const;
  [[nodiscard]] std::int64_t size(const std::string& tensor, std::size_t dimension) const;

  // Checks `actual` against the tensor at the tolerance of the table and prints the worst error.
  void compare(const std::string& tensor, const std::vector<float>& actual) const;

 private:
  struct Tensor {
    std::vector<std::int64_t> sizes;
    std::vector<float> floats;
    std::vector<std::int32_t> integers;
  };
  [[nodiscard]] const Tensor& find(const std::string& tensor) const;

  std::string name_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace headrace::kernels::parity
