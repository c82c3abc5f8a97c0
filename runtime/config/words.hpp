// The YAML words of every enumeration, in enumerator order: one list for parsing, printing and
// docs.
//
// What it is for: a word is written once. What it does not do: parse (reader.hpp).
// Thread rule: constants.
#pragma once

#include "runtime/config/config.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace headrace::config {

using Words = std::span<const std::string_view>;

template <typename Enumeration>
struct WordsOf;

template <>
struct WordsOf<ModelKind> {
  static constexpr std::array<std::string_view, 3> kWords = {"gpt2", "llama", "mlp"};
};
template <>
struct WordsOf<GeluKind> {
  static constexpr std::array<std::string_view, 2> kWords = {"exact", "tanh"};
};
template <>
struct WordsOf<PolicyKind> {
  static constexpr std::array<std::string_view, 2> kWords = {"static", "greedy"};
};
template <>
struct WordsOf<BackwardOrder> {
  static constexpr std::array<std::string_view, 2> kWords = {"ascending", "descending"};
};
template <>
struct WordsOf<DataFormat> {
  static constexpr std::array<std::string_view, 5> kWords = {"auto", "text", "tokens16", "tokens32",
                                                             "llmc"};
};
template <>
struct WordsOf<OptimizerKind> {
  static constexpr std::array<std::string_view, 2> kWords = {"adamw", "sgd"};
};
template <>
struct WordsOf<DecayKind> {
  static constexpr std::array<std::string_view, 3> kWords = {"constant", "linear", "cosine"};
};
template <>
struct WordsOf<Precision> {
  static constexpr std::array<std::string_view, 2> kWords = {"fp32", "bf16"};
};
template <>
struct WordsOf<RecomputeKind> {
  static constexpr std::array<std::string_view, 2> kWords = {"none", "block"};
};
template <>
struct WordsOf<DeviceType> {
  static constexpr std::array<std::string_view, 2> kWords = {"cpu", "cuda"};
};

template <typename Enumeration>
[[nodiscard]] constexpr std::string_view word_of(Enumeration value) {
  return WordsOf<Enumeration>::kWords[static_cast<std::size_t>(value)];
}

}  // namespace headrace::config
