// The configuration of a run: one plain struct per section of the YAML file.
//
// What it is for: everything a run may be told, typed and in range, with every default filled in.
// What it does not do: read files (load.hpp) or describe keys (schema.hpp). Thread rule: values;
// distinct objects are independent.
//
// Invariants of a Config that load_config, parse_config or finish_config returned:
//  1. Every value lies in the range its schema row states, and the cross-checks of rules.hpp hold.
//  2. Nothing is left to be derived: kv_heads, hidden and decay_steps hold their final values.
//  3. ranks has one entry per rank; stages is empty (automatic split) or has one entry per stage.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::config {

inline constexpr std::int32_t kLayersMax = 65536;

enum class ModelKind : std::uint8_t { kGpt2, kLlama, kMlp };
enum class GeluKind : std::uint8_t { kExact, kTanh };
enum class PolicyKind : std::uint8_t { kStatic, kGreedy };
enum class DataFormat : std::uint8_t { kAuto, kText, kTokens16, kTokens32, kLlmc };
enum class OptimizerKind : std::uint8_t { kAdamw, kSgd };
enum class BackwardOrder : std::uint8_t { kAscending, kDescending };
enum class DecayKind : std::uint8_t { kConstant, kLinear, kCosine };
enum class Precision : std::uint8_t { kFp32, kBf16 };
enum class RecomputeKind : std::uint8_t { kNone, kBlock };
enum class DeviceType : std::uint8_t { kCpu, kCuda };

// The words of the YAML file, for messages and logs.
[[nodiscard]] std::string_view to_string(ModelKind value);
[[nodiscard]] std::string_view to_string(GeluKind value);
[[nodiscard]] std::string_view to_string(PolicyKind value);
[[nodiscard]] std::string_view to_string(DataFormat value);
[[nodiscard]] std::string_view to_string(OptimizerKind value);
[[nodiscard]] std::string_view to_string(BackwardOrder value);
[[nodiscard]] std::string_view to_string(DecayKind value);
[[nodiscard]] std::string_view to_string(Precision value);
[[nodiscard]] std::string_view to_string(RecomputeKind value);
[[nodiscard]] std::string_view to_string(DeviceType value);

// Token ids 0..size-1. `bytes` means that text is read byte by byte and size is 256.
struct Vocabulary {
  bool bytes = true;
  std::int32_t size = 256;

  bool operator==(const Vocabulary&) const = default;
};

struct ModelConfig {
  ModelKind kind = ModelKind::kGpt2;
  std::int32_t layers = 0;    // blocks, without embedding, norm and head
  std::int32_t width = 0;     // features of the residual stream
  std::int32_t heads = 0;     // attention heads; 0 only for mlp
  std::int32_t kv_heads = 0;  // key/value heads; == heads unless llama; 0 before finish_config
  std::int32_t hidden = 0;    // width inside the MLP; 0 before finish_config
  std::int32_t context = 0;   // tokens of one sequence
  Vocabulary vocabulary;
  double dropout = 0.0;  // [0, 1)
  bool tied = false;     // head and embedding share one matrix
  GeluKind gelu = GeluKind::kTanh;
  double rope_base = 10000.0;  // llama only

  bool operator==(const ModelConfig&) const = default;
};

struct PipelineConfig {
  std::int32_t ranks = 1;   // P
  std::int32_t chunks = 1;  // V, stages per rank

  bool operator==(const PipelineConfig&) const = default;
};

// Where a value stood, 1-based; line 0 when it came from a default or from code.
struct SourcePosition {
  std::int32_t line = 0;
  std::int32_t column = 0;
  std::int32_t override_number = 0;  // 0 = the file, n = the n-th --set
};

// `block*3` is {"block", 3}. Equality ignores the position: it is for messages only.
struct LayerRun {
  std::string kind;
  std::int32_t count = 1;
  SourcePosition position;

  friend bool operator==(const LayerRun& a, const LayerRun& b) {
    return a.kind == b.kind && a.count == b.count;
  }
};

struct StageConfig {
  std::vector<LayerRun> layers;
  bool frozen = false;  // its parameters are never updated

  bool operator==(const StageConfig&) const = default;
};

struct RankConfig {
  std::int32_t process = 0;
  DeviceType device = DeviceType::kCpu;
  std::int32_t threads = 1;  // compute threads of a CPU rank

  bool operator==(const RankConfig&) const = default;
};

// What F, I and W take, in any one unit.
struct ActionTimes {
  double forward = 1;
  double input = 1;
  double weight = 1;

  bool operator==(const ActionTimes&) const = default;
};

struct ScheduleConfig {
  std::string name = "1f1b";        // `file` when `file` is set
  std::optional<std::string> file;  // PyTorch's CSV
  PolicyKind policy = PolicyKind::kStatic;
  BackwardOrder backward = BackwardOrder::kAscending;
  std::int32_t group = 0;             // microbatches; 0 = the schedule's own rule
  std::optional<ActionTimes> times;   // auto only; without it the model's cost estimate
  std::int32_t activation_limit = 0;  // auto only; chunks a rank; 0 = 2 P V

  bool operator==(const ScheduleConfig&) const = default;
};

struct BatchConfig {
  std::int32_t size = 0;             // sequences per step over the whole layout
  std::int32_t microbatch_size = 0;  // sequences

  // M_total, exact by the cross-checks.
  [[nodiscard]] std::int32_t microbatches() const { return size / microbatch_size; }
  bool operator==(const BatchConfig&) const = default;
};

struct DataConfig {
  std::string train;  // file or folder
  std::optional<std::string> validation;
  std::uint64_t order_seed = 1;
  DataFormat format = DataFormat::kAuto;
  std::optional<std::int32_t> ignore_token;  // as a target: not supervised; never an input id

  bool operator==(const DataConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamw;
  double learning_rate = 0.0;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double momentum = 0.0;  // sgd only
  std::int64_t warmup_steps = 0;
  DecayKind decay = DecayKind::kConstant;
  std::int64_t decay_steps = 0;  // step at which decay ends; 0 before finish_config
  double final_learning_rate_fraction = 0.1;
  double weight_decay = 0.0;
  double clip_norm = 0.0;  // 0 = off

  bool operator==(const OptimizerConfig&) const = default;
};

struct RunConfig {
  std::int64_t steps = 0;
  std::uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  RecomputeKind recompute = RecomputeKind::kNone;
  DeviceType device = DeviceType::kCpu;
  bool queued = false;            // CPU streams run on queued workers with seeded delays
  std::uint64_t queued_seed = 1;  // seed of those delays
  double action_timeout_seconds = 60.0;
  std::int64_t log_every = 1;          // steps
  std::optional<std::string> metrics;  // path of metrics.jsonl

  bool operator==(const RunConfig&) const = default;
};

struct DeterminismConfig {
  std::int32_t reduction_blocks = 1;  // R
  bool accept_other_numerics = false;

  bool operator==(const DeterminismConfig&) const = default;
};

// `STAGE:STEP`: where a test-only fault strikes.
struct FaultPoint {
  std::int32_t stage = 0;
  std::int64_t step = 1;

  bool operator==(const FaultPoint&) const = default;
};

// Switches for tests; a run for results leaves them alone.
struct DebugConfig {
  std::optional<FaultPoint> nan_at;    // the stage's first parameter becomes NaN at this step
  std::optional<FaultPoint> throw_at;  // throw inside this stage at this step

  bool operator==(const DebugConfig&) const = default;
};

// Where each key was written, as `file:line:column` or `--set …`, for whoever refuses a value
// later. Equality ignores it: two configurations that say the same are equal.
struct Places {
  std::map<std::string, std::string> by_path;

  // The place of the key, else of the nearest enclosing one that was written, else empty.
  [[nodiscard]] std::string of(std::string path) const;
  bool operator==(const Places&) const { return true; }
};

struct Config {
  ModelConfig model;
  PipelineConfig pipeline;
  std::vector<StageConfig> stages;  // [stage]; empty = automatic split
  std::vector<RankConfig> ranks;    // [rank]
  ScheduleConfig schedule;
  BatchConfig batch;
  DataConfig data;
  OptimizerConfig optimizer;
  RunConfig run;
  DeterminismConfig determinism;
  DebugConfig debug;
  Places places;

  bool operator==(const Config&) const = default;
};

}  // namespace headrace::config
