#include "runtime/base/sha256.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace headrace;

namespace {

// Test vectors of FIPS 180-4 (NIST's examples for SHA-256).
const char* const kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const char* const kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const char* const kTwoBlocks = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
const char* const kMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

}  // namespace

TEST_CASE("sha256: the published vectors come out") {
  CHECK(sha256_hex(std::string_view{}) == kEmpty);
  CHECK(sha256_hex("abc") == kAbc);
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") == kTwoBlocks);
  CHECK(sha256_hex(std::string(1'000'000, 'a')) == kMillionA);
}

TEST_CASE("sha256: pieces hash like the whole wherever they are cut") {
  const std::string text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(std::string_view(text).substr(0, cut));
    hash.update(std::string_view(text).substr(cut));
    REQUIRE(hash.finish_hex() == kTwoBlocks);
  }
}

TEST_CASE("sha256: a moved object goes on where the other stopped") {
  Sha256 first;
  first.update("ab");
  Sha256 second = std::move(first);
  second.update("c");
  CHECK(second.finish_hex() == kAbc);
}
