#include "tools/bench/models.hpp"

#include "runtime/config/load.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace headrace::bench {
namespace {

constexpr int kCorpusBytes = 4 << 20;

// Removes the file when the process ends.
class Corpus {
 public:
  Corpus() {
    const auto name = "headrace-bench-" + std::to_string(getpid()) + ".txt";
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::ofstream file(path_, std::ios::binary);
    std::uint32_t state = 1;
    std::string text;
    text.reserve(kCorpusBytes);
    for (int i = 0; i < kCorpusBytes; ++i) {
      state = state * 1664525U + 1013904223U;  // any text does: speed does not depend on it
      text.push_back(static_cast<char>(' ' + (state >> 24) % 90));
    }
    file << text;
  }
  ~Corpus() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[noreturn]] void leave(const Status& status) {
  std::fprintf(stderr, "headrace_bench: %s\n", status.message().c_str());
  std::exit(1);
}

config::Config base_config(const Layout& layout) {
  config::Config config;
  config.pipeline = {layout.ranks, layout.chunks};
  config.schedule.name = layout.schedule;
  config.determinism.reduction_blocks = layout.reduction_blocks;
  config.batch = {layout.batch, layout.microbatch};
  config.data.train = corpus_path();
  config.data.format = config::DataFormat::kText;
  config.optimizer.learning_rate = 1e-4;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.clip_norm = 1.0;
  config.run.steps = layout.steps;
  config.run.precision = layout.bf16 ? config::Precision::kBf16 : config::Precision::kFp32;
  return config;
}

actors::Plan plan_of(config::Config config) {
  auto finished = config::finish_config(std::move(config));
  if (!finished) leave(finished.status());
  auto plan = actors::make_plan(*finished);
  if (!plan) leave(plan.status());
  return *std::move(plan);
}

}  // namespace

const std::string& corpus_path() {
  static const Corpus corpus;
  return corpus.path();
}

actors::Plan gpt_plan(const GptSize& size, const Layout& layout) {
  config::Config config = base_config(layout);
  config.model.kind = config::ModelKind::kGpt2;
  config.model.layers = size.layers;
  config.model.width = size.width;
  config.model.heads = size.heads;
  config.model.context = size.context;
  return plan_of(std::move(config));
}

actors::Plan probe_plan(const std::string& kind, const Layout& layout) {
  config::Config config = base_config(layout);
  config.model.kind = config::ModelKind::kMlp;
  const std::int32_t stages = layout.ranks * layout.chunks;
  config.model.layers = stages;
  config.model.width = 16;
  config.model.context = 4;
  actors::Plan plan = plan_of(std::move(config));
  for (std::int32_t s = 0; s < stages; ++s) {
    stages::LayerSpec layer;
    layer.kind = kind;
    layer.index = LayerIndex(s);
    layer.number = s;
    plan.partition[static_cast<std::size_t>(s)] = {layer};
  }
  return plan;
}

}  // namespace headrace::bench
