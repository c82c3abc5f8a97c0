// headrace_same_bits: runs the same-bits table, and each mutation that must turn it red.
#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "runtime/actors/train.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/sha256.hpp"
#include "runtime/config/load.hpp"
#include "tools/same_bits/cells.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace::same_bits {
namespace {

struct Options {
  bool full = false;
  bool mutations = false;
  bool cells = true;
  std::uint64_t seed = 20261130;
  std::vector<std::string> only;  // a row must contain each of them
};

// Random tokens below 64, so that both models can read them; removed at the end.
class TokenFile {
 public:
  explicit TokenFile(std::uint64_t seed) {
    std::string pattern = (std::filesystem::temp_directory_path() / "same-bits-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    std::mt19937_64 random(seed);
    std::ofstream file(path(), std::ios::binary);
    for (int i = 0; i < 60000; ++i) {
      const auto token = static_cast<std::uint16_t>(random() % 64);
      file.write(reinterpret_cast<const char*>(&token), sizeof token);
    }
  }
  ~TokenFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;
  [[nodiscard]] std::string path() const { return (folder_ / "tokens.bin").string(); }

 private:
  std::filesystem::path folder_;
};

// What must be equal: the state after the last step, and loss and norm of every step, to the last
// bit.
struct Bits {
  std::string state_hash;
  std::string steps_hash;
  bool operator==(const Bits&) const = default;
};

std::string hash_of_steps(const std::vector<actors::StepRecord>& steps) {
  std::vector<double> values;
  for (const actors::StepRecord& step : steps) {
    values.push_back(step.loss);
    values.push_back(step.grad_norm);
  }
  return sha256_hex(std::as_bytes(std::span(values)));
}

// The bits of a cell, or why there are none.
Result<Bits> bits_of(const Cell& cell, const std::string& data, BrokenRule rule) {
  const auto config = config::finish_config(config_of(cell, data));
  if (!config) return config.status();
  const auto plan = actors::make_plan(*config, rule);
  if (!plan) return plan.status();
  std::optional<kernels::InstructionSetLimit> limit;
  if (cell.avx2) limit.emplace(kernels::InstructionSet::kAvx2);
  const actors::RunResult result = actors::train(*plan);
  if (!result.status.is_ok()) return result.status;
  return Bits{result.state_hash, hash_of_steps(result.steps)};
}

// Prints a row per cell and returns how many failed or differ from the first of their key.
int run_table(const std::vector<Cell>& cells, const std::string& data) {
  std::map<std::string, Bits> expected;
  std::map<std::string, int> counts;
  int wrong = 0;
  for (const Cell& cell : cells) {
    const std::string key = key_of(cell);
    const auto bits = bits_of(cell, data, BrokenRule::kNone);
    std::string verdict = "same";
    if (!bits) {
      verdict = "FAILED " + bits.status().message();
      ++wrong;
    } else {
      const auto [first, added] = expected.try_emplace(key, *bits);
      if (added) verdict = "first";
      if (!(*bits == first->second)) {
        verdict = "DIFFERENT";
        ++wrong;
      }
      ++counts[key];
    }
    std::cout << (bits ? bits->state_hash.substr(0, 16) : std::string(16, '-')) << "  " << key
              << "  " << text_of(cell) << "  " << verdict << std::endl;
  }
  std::cout << '\n';
  for (const auto& [key, bits] : expected) {
    std::cout << key << ": " << counts[key] << " cells, state_hash " << bits.state_hash << '\n';
  }
  return wrong;
}

// Returns how many rules could be broken without the table noticing.
int run_mutations(bool with_bf16, const std::string& data) {
  int unseen = 0;
  const bool with_avx512 = kernels::has_instruction_set(kernels::InstructionSet::kAvx512);
  if (!with_avx512) std::cout << "no AVX-512 here: three rules have nothing to be compared with\n";
  for (const Mutation& mutation : mutations(with_bf16, with_avx512)) {
    std::set<std::string> sound;
    std::set<std::string> broken;
    for (const Cell& cell : mutation.cells) {
      const auto before = bits_of(cell, data, BrokenRule::kNone);
      const auto after = bits_of(cell, data, mutation.rule);
      sound.insert(before ? before->state_hash + before->steps_hash : before.status().message());
      broken.insert(after ? after->state_hash + after->steps_hash : after.status().message());
    }
    const bool red = sound.size() == 1 && broken.size() > 1;
    unseen += red ? 0 : 1;
    std::cout << "mutation " << to_string(mutation.rule) << ": " << sound.size()
              << " result without, " << broken.size() << " with it: " << (red ? "red" : "NOT SEEN")
              << std::endl;
  }
  return unseen;
}

bool is_wanted(const Cell& cell, const std::vector<std::string>& only) {
  const std::string row = key_of(cell) + "  " + text_of(cell) + " ";
  return std::all_of(only.begin(), only.end(),
                     [&](const std::string& text) { return row.find(text) != std::string::npos; });
}

int run(const Options& options) {
  set_log_level(LogLevel::kError);
  const bool with_bf16 = kernels::make_cpu_device({})->supports_bf16();
  const TokenFile data(options.seed);
  std::cout << "seed " << options.seed << (options.full ? ", whole table" : ", pairwise sample")
            << (with_bf16 ? "" : ", no bf16 on this processor") << '\n';
  int wrong = 0;
  if (options.cells) {
    std::vector<Cell> cells = narrow_cells();
    const std::vector<Cell> library = options.full ? library_cells() : library_sample(options.seed);
    if (!options.full) cells = pairwise_sample(cells, options.seed);
    cells.insert(cells.end(), library.begin(), library.end());
    for (const auto& more : {tree_cells(), wide_cells(with_bf16), instruction_set_cells()}) {
      cells.insert(cells.end(), more.begin(), more.end());
    }
    std::erase_if(cells, [&](const Cell& cell) { return !is_wanted(cell, options.only); });
    if (cells.empty()) throw std::runtime_error("no row contains what --only asks for");
    wrong += run_table(cells, data.path());
  }
  if (options.mutations) wrong += run_mutations(with_bf16, data.path());
  std::cout << (wrong == 0 ? "same bits: all agree\n"
                           : "same bits: " + std::to_string(wrong) + " wrong\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace::same_bits

int main(int argc, char** argv) {
  headrace::same_bits::Options options;
  CLI::App app{"Trains the same model in every layout and compares the state to the last bit."};
  app.add_flag("--full", options.full, "Every cell instead of a seeded pairwise sample");
  app.add_flag("--mutations", options.mutations,
               "Also break each rule once: the table must notice");
  app.add_flag("!--no-cells", options.cells, "Skip the table itself");
  app.add_option("--seed", options.seed, "Seed of the sample and of the tokens");
  app.add_option("--only", options.only, "Only rows that contain TEXT, as in \"static inline\"");
  CLI11_PARSE(app, argc, argv);
  if (std::getenv("HEADRACE_FULL") != nullptr) options.full = true;
  try {
    return headrace::same_bits::run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "same-bits: %s\n", failure.what());
    return 1;
  }
}
