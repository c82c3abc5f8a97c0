#include "tests/data/allocation_count.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace headrace::data {
namespace {
std::atomic<std::int64_t> count_of_allocations{0};
}  // namespace

std::int64_t allocation_count() { return count_of_allocations.load(); }

static void* counted_allocation(std::size_t size) {
  ++count_of_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace headrace::data

void* operator new(std::size_t size) { return headrace::data::counted_allocation(size); }
void* operator new[](std::size_t size) { return headrace::data::counted_allocation(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
