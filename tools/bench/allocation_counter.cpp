#include "tools/bench/allocation_counter.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <map>
#include <new>
#include <utility>

extern "C" {
// glibc's own allocator, under the names it keeps for this purpose.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
std::size_t malloc_usable_size(void* memory);
}

namespace headrace::bench {
namespace {

// One caller: the return address of its call. A full table puts the rest into the last entry.
struct Caller {
  std::atomic<void*> address{nullptr};
  std::atomic<std::int64_t> count{0};
};
constexpr std::size_t kCallers = 4096;

std::array<Caller, kCallers> callers;
std::atomic<bool> counting{false};
std::atomic<std::int64_t> counted{0};
constinit thread_local std::int64_t counted_here = 0;
std::atomic<bool> following{false};
std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> held_most{0};

void hold(void* memory) {
  if (memory == nullptr || !following.load(std::memory_order_relaxed)) return;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = held_most.load(std::memory_order_relaxed);
  while (now > most && !held_most.compare_exchange_weak(most, now)) continue;
}

void release(void* memory) {
  if (memory == nullptr || !following.load(std::memory_order_relaxed)) return;
  held.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
}

void free_held(void* memory) {
  release(memory);
  __libc_free(memory);
}

void count(void* address) {
  if (!counting.load(std::memory_order_relaxed)) return;
  counted.fetch_add(1, std::memory_order_relaxed);
  ++counted_here;
  std::size_t slot = (reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15U) >> 52;
  for (std::size_t tries = 0; tries < kCallers; ++tries, slot = (slot + 1) % kCallers) {
    void* known = nullptr;
    if (callers[slot].address.compare_exchange_strong(known, address) || known == address) break;
  }
  callers[slot].count.fetch_add(1, std::memory_order_relaxed);
}

std::string demangled(const char* name) {
  if (name == nullptr) return {};
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

AllocationSource source_of(void* address) {
  AllocationSource source;
  Dl_info info{};
  if (dladdr(address, &info) == 0) return source;
  Dl_info own{};
  const bool is_own = dladdr(reinterpret_cast<void*>(&start_counting_allocations), &own) != 0 &&
                      own.dli_fbase == info.dli_fbase;
  if (!is_own && info.dli_fname != nullptr) source.library = info.dli_fname;
  source.library.erase(0, source.library.find_last_of('/') + 1);
  source.function = demangled(info.dli_sname);
  return source;
}

}  // namespace

void start_counting_allocations() {
  for (Caller& caller : callers) {
    caller.address = nullptr;
    caller.count = 0;
  }
  counted = 0;
  counting = true;
}

void stop_counting_allocations() { counting = false; }

void start_following_bytes() {
  held = held_most = 0;
  following = true;
}

std::int64_t stop_following_bytes() {
  following = false;
  return held_most;
}

std::int64_t allocations_of_process() { return counted.load(std::memory_order_relaxed); }
std::int64_t allocations_counted() { return counted_here; }

std::vector<AllocationSource> allocation_sources() {
  std::map<std::pair<std::string, std::string>, std::int64_t> by_name;
  for (const Caller& caller : callers) {
    if (caller.count == 0) continue;
    const AllocationSource source = source_of(caller.address);
    by_name[{source.library, source.function}] += caller.count;
  }
  std::vector<AllocationSource> sources;
  for (const auto& [name, times] : by_name) sources.push_back({name.first, name.second, times});
  std::sort(sources.begin(), sources.end(),
            [](const auto& a, const auto& b) { return a.count > b.count; });
  return sources;
}

namespace {

void* allocate_or_throw(std::size_t bytes, void* caller) {
  count(caller);
  void* memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  hold(memory);
  return memory;
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes, void* caller) {
  count(caller);
  void* memory = __libc_memalign(alignment, bytes);
  hold(memory);
  return memory;
}

}  // namespace
}  // namespace headrace::bench

// ---- the replaced functions

using headrace::bench::allocate_aligned;
using headrace::bench::allocate_or_throw;
using headrace::bench::free_held;

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* memory =
      allocate_aligned(static_cast<std::size_t>(alignment), bytes, __builtin_return_address(0));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { free_held(memory); }
void operator delete[](void* memory) noexcept { free_held(memory); }
void operator delete(void* memory, std::size_t) noexcept { free_held(memory); }
void operator delete[](void* memory, std::size_t) noexcept { free_held(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free_held(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free_held(memory); }

extern "C" {

void* malloc(std::size_t bytes) {
  headrace::bench::count(__builtin_return_address(0));
  void* memory = __libc_malloc(bytes);
  headrace::bench::hold(memory);
  return memory;
}
void* calloc(std::size_t count, std::size_t bytes) {
  headrace::bench::count(__builtin_return_address(0));
  void* memory = __libc_calloc(count, bytes);
  headrace::bench::hold(memory);
  return memory;
}
void* realloc(void* memory, std::size_t bytes) {
  headrace::bench::count(__builtin_return_address(0));
  headrace::bench::release(memory);
  void* moved = __libc_realloc(memory, bytes);
  headrace::bench::hold(moved);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return allocate_aligned(alignment, bytes, __builtin_return_address(0));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocate_aligned(alignment, bytes, __builtin_return_address(0));
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = allocate_aligned(alignment, bytes, __builtin_return_address(0));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) { free_held(memory); }

}  // extern "C"
