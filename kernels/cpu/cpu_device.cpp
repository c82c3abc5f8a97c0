#include "kernels/cpu/cpu_device.hpp"

#include "kernels/cpu/cpu_context.hpp"
#include "kernels/cpu/cpu_event.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/cpu/inline_stream.hpp"
#include "kernels/cpu/onednn_matmul.hpp"
#include "kernels/cpu/queued_stream.hpp"
#include "kernels/cpu/simd_targets.hpp"
#include "kernels/device_error.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace headrace::kernels {
namespace {

constexpr std::align_val_t kBufferAlignment{256};

// The least of what our kernels and oneDNN can use: it decides the bits.
OnednnIsa detect_isa() {
  const std::int64_t targets = hwy::SupportedTargets();
  const OnednnIsa onednn = limit_onednn_isa();
  const bool has_vectors = (targets & (HWY_AVX2 | HWY_AVX3)) != 0;
  if (!has_vectors || onednn == OnednnIsa::kNone) {
    throw DeviceError(std::string("device cpu: needs AVX2 with FMA; found less for ") +
                      (has_vectors ? "oneDNN" : "the vector kernels") +
                      "; run on an x86-64 machine of 2013 or later, and unset DNNL_MAX_CPU_ISA if "
                      "it is set");
  }
  return (targets & HWY_AVX3) == 0 ? OnednnIsa::kAvx2 : onednn;
}

const char* name_of(OnednnIsa isa) {
  switch (isa) {
    case OnednnIsa::kAvx2:
      return "avx2";
    case OnednnIsa::kAvx512:
      return "avx512";
    case OnednnIsa::kAvx512Bf16:
      return "avx512bf16";
    case OnednnIsa::kAvx512Amx:
      return "avx512amx";
    case OnednnIsa::kNone:
      break;
  }
  return "unknown";
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : options_(options), isa_(detect_isa()), operators_(make_cpu_operators()) {}

  [[nodiscard]] Buffer allocate(std::size_t bytes) override {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    void* data = ::operator new(size, kBufferAlignment);
    std::memset(data, 0, size);
    return Buffer(data, bytes, [](void* p) { ::operator delete(p, kBufferAlignment); });
  }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    const CpuContextOptions context{options_.threads, options_.stop, options_.broken_rule};
    if (!options_.queued) return std::make_unique<InlineStream>(context);
    return std::make_unique<QueuedStream>(context, QueueDelays{next_seed(), options_.delay_us_max});
  }

  [[nodiscard]] std::unique_ptr<Event> make_event() override {
    return std::make_unique<CpuEvent>();
  }

  [[nodiscard]] Operators& operators() override { return *operators_; }

  [[nodiscard]] std::string numerics_id() const override {
    return std::string("cpu/") + name_of(isa_) + "/onednn" + onednn_version() + "/rows" +
           std::to_string(kBlockRows) + "/lanes16/1";
  }

  // oneDNN 2.6 has no bf16 matmul for AVX2.
  [[nodiscard]] bool supports_bf16() const override { return isa_ != OnednnIsa::kAvx2; }

  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }

 private:
  // Each stream has delays of its own; 0 stays 0 (no delays).
  std::uint64_t next_seed() {
    if (options_.delay_seed == 0) return 0;
    const std::uint64_t stream = stream_count_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t seed = options_.delay_seed + stream * 0xD1342543DE82EF95ULL;
    return seed == 0 ? 1 : seed;
  }

  const CpuDeviceOptions options_;
  const OnednnIsa isa_;
  const std::unique_ptr<Operators> operators_;
  std::atomic<std::uint64_t> stream_count_{0};
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  HEADRACE_CHECK(options.threads >= 1 && options.threads <= 256, options.threads);
  return std::make_unique<CpuDevice>(options);
}

}  // namespace headrace::kernels
