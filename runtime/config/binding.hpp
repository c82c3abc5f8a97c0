// Makes the typed read and write functions of a schema row from a pointer to member.
//
// What it is for: the table in schema.cpp names each member once. What it does not do: convert
// between types; a Value that does not fit the member is a bug. Thread rule: free functions.
#pragma once

#include "runtime/config/schema.hpp"

#include <optional>
#include <type_traits>
#include <variant>

namespace headrace::config {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
void assign(T& member, const Value& value) {
  if constexpr (IsOptional<T>::value) {
    member.reset();
    if (!std::holds_alternative<std::monostate>(value)) assign(member.emplace(), value);
  } else if constexpr (std::is_same_v<T, bool>) {
    member = std::get<bool>(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    member = static_cast<T>(std::get<std::int64_t>(value));
  } else {
    member = std::get<T>(value);
  }
}

template <typename T>
Value read(const T& member) {
  if constexpr (IsOptional<T>::value) {
    return member ? read(*member) : Value{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return Value{member};
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return Value{static_cast<std::int64_t>(member)};
  } else {
    return Value{member};
  }
}

template <typename Section, typename Member>
Section section_type(Member Section::*);

template <auto kMember>
constexpr Binding bind() {
  using Section = decltype(section_type(kMember));
  return {[](void* section, const Value& value) {
            assign(static_cast<Section*>(section)->*kMember, value);
          },
          [](const void* section) { return read(static_cast<const Section*>(section)->*kMember); }};
}

}  // namespace headrace::config
