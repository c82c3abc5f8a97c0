// Linked against every installed library; running it shows that the loader finds all of them.
#include "runtime/base/sha256.hpp"

int main() { return headrace::sha256_hex("abc").size() == 64 ? 0 : 1; }
