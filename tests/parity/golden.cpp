#include "tests/parity/golden.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>

namespace headrace::kernels::parity {
namespace {

// |actual - golden| <= absolute + relative * |golden|. fp32 has a unit of 6e-8 relative to the
// largest number that appears in a computation, and that is what the rows are made of.
struct Tolerance {
  std::string_view file;
  double absolute;
  double relative;
  std::string_view reason;
};
constexpr std::array<Tolerance, 13> kTolerances{{
    {"layernorm", 1e-6, 1e-6, "sums of 68 terms near 3, and a subtraction of the mean"},
    {"rmsnorm", 1e-6, 1e-6, "sums of 68 terms near 3"},
    {"gelu_exact", 1e-6, 3e-7, "x up to 8 times a normal probability accurate to 1e-7 absolute"},
    {"gelu_tanh", 3e-7, 1e-6, "a sigmoid of up to 2 ulp whose argument of up to 50 was rounded"},
    {"swiglu", 3e-7, 1e-6, "a product of three factors, one a sigmoid of up to 2 ulp"},
    {"rope", 1.5e-7, 1e-7, "two products of numbers below 1, the table rounded once"},
    {"attention_small", 2e-6, 1e-6, "scores up to 10 are rounded to 5e-7 before exp"},
    {"attention_tiles", 3e-6, 1e-6, "scores up to 10, sums of 70 terms"},
    {"embedding", 2e-7, 1e-7, "one addition each, and chains of at most five"},
    {"cross_entropy", 1e-6, 1e-6, "logits up to 6 are rounded once more before exp"},
    {"linear", 2e-6, 1e-6, "sums of up to 28 products below 1"},
    {"adamw", 5e-7, 1e-6, "five steps of about ten roundings each, weights below 1"},
    {"sgd", 3e-7, 1e-6, "five steps of four roundings each, weights below 1"},
}};

Tolerance tolerance_of(std::string_view file) {
  for (const Tolerance& row : kTolerances) {
    if (row.file == file) return row;
  }
  FAIL("no tolerance for ", std::string(file));
  return {};
}

}  // namespace

Golden::Golden(const std::string& name) : name_(name) {
  std::ifstream in(std::string(HEADRACE_PARITY_GOLDEN) + "/" + name + ".bin", std::ios::binary);
  REQUIRE_MESSAGE(in.good(), name);
  std::vector<std::string> order;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    std::istringstream words(line);
    std::string key;
    std::string type;
    words >> key >> type;
    Tensor tensor;
    std::size_t count = 1;
    for (std::int64_t size = 0; words >> size;) {
      tensor.sizes.push_back(size);
      count *= static_cast<std::size_t>(size);
    }
    (type == "i32" ? tensor.integers.resize(count) : tensor.floats.resize(count));
    tensors_[key] = tensor;
    order.push_back(key);
  }
  const auto read = [&](auto& values) {
    in.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(values[0])));
  };
  for (const std::string& key : order) {
    read(tensors_[key].floats);
    read(tensors_[key].integers);
  }
  REQUIRE_MESSAGE(in.good(), name);
  REQUIRE_MESSAGE(in.peek() == std::char_traits<char>::eof(), name);
}

const Golden::Tensor& Golden::find(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  REQUIRE_MESSAGE(found != tensors_.end(), name_, " has no tensor ", tensor);
  return found->second;
}
const std::vector<float>& Golden::floats(const std::string& tensor) const {
  return find(tensor).floats;
}
const std::vector<std::int32_t>& Golden::integers(const std::string& tensor) const {
  return find(tensor).integers;
}
std::int64_t Golden::size(const std::string& tensor, std::size_t dimension) const {
  return find(tensor).sizes.at(dimension);
}

void Golden::compare(const std::string& tensor, const std::vector<float>& actual) const {
  const Tolerance tolerance = tolerance_of(name_);
  const std::vector<float>& golden = floats(tensor);
  REQUIRE(actual.size() == golden.size());
  double worst_error = 0;
  double worst_share = 0;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - static_cast<double>(golden[i]));
    const double share = error / (tolerance.absolute +
                                  tolerance.relative * std::abs(static_cast<double>(golden[i])));
    if (!(error <= worst_error)) worst_error = error;
    if (!(share <= worst_share)) worst_share = share;
  }
  MESSAGE(name_, ".", tensor, ": worst error ", worst_error, ", ", worst_share,
          " of the tolerance (", std::string(tolerance.reason), ")");
  CHECK(worst_share <= 1.0);
}

}  // namespace headrace::kernels::parity
