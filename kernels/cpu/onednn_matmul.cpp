#include "kernels/cpu/onednn_matmul.hpp"

#include "kernels/cpu/cpu_context.hpp"
#include "kernels/device_error.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace headrace::kernels {
namespace {

using Memory = dnnl::memory;

// Everything a primitive is specialised for.
struct Shape {
  std::int64_t rows, cols, inner;
  std::int64_t a_rows;  // of the whole matrix: the stride of a transposed a
  DType in, out;
  bool transpose_a, transpose_b, accumulate, bias;

  bool operator==(const Shape&) const = default;
};

Memory::data_type onednn_type(DType type) {
  return type == DType::kBf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
}

void require_success(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw DeviceError(std::string("oneDNN: ") + call + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}

}  // namespace

struct OnednnMatmul::ThreadCache {
  // A model has a few dozen shapes; text generation makes one per length, so there is a limit.
  static constexpr std::size_t kPreparedMax = 512;

  struct Prepared {
    Shape shape;
    dnnl::matmul primitive;
    Memory a, b, c, bias, scratch;
    std::size_t scratch_bytes = 0;
    std::uint64_t last_use = 0;
  };

  Prepared& find_or_make(const Shape& shape);
  void execute(Prepared& prepared, void* scratch, const void* a, const void* b, void* c,
               const float* bias);

  [[nodiscard]] std::unique_ptr<Prepared> make(const Shape& shape) const;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::uint64_t uses = 0;
};

OnednnMatmul::ThreadCache::Prepared& OnednnMatmul::ThreadCache::find_or_make(const Shape& shape) {
  ++uses;
  for (const auto& entry : prepared) {
    if (entry->shape != shape) continue;
    entry->last_use = uses;
    return *entry;
  }
  auto entry = make(shape);
  entry->last_use = uses;
  if (prepared.size() < kPreparedMax) {
    prepared.push_back(std::move(entry));
    return *prepared.back();
  }
  const auto oldest = std::min_element(
      prepared.begin(), prepared.end(),
      [](const auto& left, const auto& right) { return left->last_use < right->last_use; });
  *oldest = std::move(entry);
  return **oldest;
}

std::unique_ptr<OnednnMatmul::ThreadCache::Prepared> OnednnMatmul::ThreadCache::make(
    const Shape& shape) const {
  const Memory::dim m = shape.rows, n = shape.cols, k = shape.inner;
  const auto in = onednn_type(shape.in);
  const Memory::dims a_strides =
      shape.transpose_a ? Memory::dims{1, shape.a_rows} : Memory::dims{k, 1};
  const Memory::dims b_strides = shape.transpose_b ? Memory::dims{1, k} : Memory::dims{n, 1};
  const Memory::desc a_desc({m, k}, in, a_strides);
  const Memory::desc b_desc({k, n}, in, b_strides);
  const Memory::desc c_desc({m, n}, onednn_type(shape.out), Memory::dims{n, 1});
  const Memory::desc bias_desc({1, n}, Memory::data_type::f32, Memory::dims{n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc operation = shape.bias
                                           ? dnnl::matmul::desc(a_desc, b_desc, bias_desc, c_desc)
                                           : dnnl::matmul::desc(a_desc, b_desc, c_desc);
  const dnnl::matmul::primitive_desc description(operation, attributes, engine);
  auto entry = std::make_unique<Prepared>();
  entry->shape = shape;
  entry->primitive = dnnl::matmul(description);
  entry->a = Memory(a_desc, engine, nullptr);
  entry->b = Memory(b_desc, engine, nullptr);
  entry->c = Memory(c_desc, engine, nullptr);
  if (shape.bias) entry->bias = Memory(bias_desc, engine, nullptr);
  entry->scratch = Memory(description.scratchpad_desc(), engine, nullptr);
  entry->scratch_bytes = description.scratchpad_desc().get_size();
  return entry;
}

void OnednnMatmul::ThreadCache::execute(Prepared& entry, void* scratch, const void* a,
                                        const void* b, void* c, const float* bias) {
  // The C interface: the C++ one builds a map for every call.
  std::array<dnnl_exec_arg_t, 5> arguments{};
  int count = 0;
  const auto add = [&](int index, Memory& memory, const void* data) {
    require_success(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)),
                    "dnnl_memory_set_data_handle");
    arguments[static_cast<std::size_t>(count++)] = {index, memory.get()};
  };
  add(DNNL_ARG_SRC, entry.a, a);
  add(DNNL_ARG_WEIGHTS, entry.b, b);
  add(DNNL_ARG_DST, entry.c, c);
  if (entry.shape.bias) add(DNNL_ARG_BIAS, entry.bias, bias);
  if (entry.scratch_bytes > 0) add(DNNL_ARG_SCRATCHPAD, entry.scratch, scratch);
  require_success(
      dnnl_primitive_execute(entry.primitive.get(), stream.get(), count, arguments.data()),
      "dnnl_primitive_execute");
}

OnednnMatmul::OnednnMatmul(int threads)
    : caches_(std::make_unique<ThreadCache[]>(static_cast<std::size_t>(threads))) {}

OnednnMatmul::~OnednnMatmul() = default;

void OnednnMatmul::multiply(CpuContext& context, const MatmulArgs& args) {
  const auto* a = static_cast<const std::byte*>(args.a.data);
  auto* c = static_cast<std::byte*>(args.c.data);
  const std::int64_t a_step =
      (args.transpose_a ? 1 : args.inner) * static_cast<std::int64_t>(bytes_of(args.a.type));
  const std::int64_t c_step = args.cols * static_cast<std::int64_t>(bytes_of(args.c.type));
  const auto block = [&](std::int64_t begin, std::int64_t end, int thread) {
    ThreadCache& cache = caches_[static_cast<std::size_t>(thread)];
    const Shape shape{end - begin,     args.cols,           args.inner,       args.rows,
                      args.a.type,     args.c.type,         args.transpose_a, args.transpose_b,
                      args.accumulate, args.bias != nullptr};
    ThreadCache::Prepared& prepared = cache.find_or_make(shape);
    void* scratch = context.thread_scratch(thread).get<std::byte>(
        static_cast<std::int64_t>(prepared.scratch_bytes));
    cache.execute(prepared, scratch, a + begin * a_step, args.b.data, c + begin * c_step,
                  args.bias);
  };
  context.parallel_ranges(args.rows, context.gemm_block_rows(args.rows), block);
}

void matmul(CpuContext& context, const MatmulArgs& args) {
  HEADRACE_CHECK(args.a.type == args.b.type && !(args.accumulate && args.c.type != DType::kF32));
  if (args.rows == 0 || args.cols == 0) return;
  HEADRACE_CHECK(args.inner > 0, args.rows, args.cols, args.inner);
  try {
    context.onednn_matmul().multiply(context, args);
  } catch (const dnnl::error& error) {
    throw DeviceError(std::string("oneDNN refused a matmul: ") + error.what());
  }
}

OnednnIsa limit_onednn_isa() {
  // A person's own limit stands. The call fails when a primitive exists already: then an earlier
  // device has made it.
  const bool has_own_limit =
      std::getenv("DNNL_MAX_CPU_ISA") != nullptr || std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr;
  if (!has_own_limit) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [isa](dnnl_cpu_isa_t wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl_cpu_isa_avx512_core_amx)) return OnednnIsa::kAvx512Amx;
  if (has(dnnl_cpu_isa_avx512_core_bf16)) return OnednnIsa::kAvx512Bf16;
  if (has(dnnl_cpu_isa_avx512_core)) return OnednnIsa::kAvx512;
  if (has(dnnl_cpu_isa_avx2)) return OnednnIsa::kAvx2;
  return OnednnIsa::kNone;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace headrace::kernels
