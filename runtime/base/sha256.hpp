// SHA-256 (FIPS 180-4) through OpenSSL's libcrypto.
//
// What it is for: state hashes, config hashes, content identities. What it does not do: keyed
// digests. Thread rule: distinct objects are independent; a shared object needs outside locking.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // 64 lower-case hex digits; the object must not be updated afterwards.
  [[nodiscard]] std::string finish_hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] std::string sha256_hex(std::string_view text);
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace headrace
