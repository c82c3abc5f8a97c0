// What `headrace train` says to configurations and data it cannot use: exit code and message.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>

#include <string>
#include <unistd.h>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;
using headrace::tests::tiny_config;

struct Wrong {
  std::string what;
  std::vector<std::pair<std::string, std::string>> edits;  // of tiny_config()
  int exit_code;
  std::vector<std::string> says;  // all of it in one message
};

std::string edited(const Wrong& wrong) {
  std::string text = tiny_config();
  for (const auto& [from, to] : wrong.edits) {
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    text.replace(at, from.size(), to);
  }
  return text;
}

// Lines and columns are counted by hand in tiny_config(), from 1.
const std::vector<Wrong>& wrong_forms() {
  static const std::vector<Wrong> table = {
      {"a wrong key",
       {{"layers: 4", "layer: 4"}},
       2,
       {"wrong.yaml:3:3: model.layer: unknown key", "did you mean model.layers?"}},
      {"a key in another section",
       {{"  seed: 1\n", "  seed: 1\n  learning_rate: 0.1\n"}},
       2,
       {"wrong.yaml:22:3: run.learning_rate: unknown key",
        "did you mean optimizer.learning_rate?"}},
      {"a repeated key",
       {{"  seed: 1\n", "  seed: 1\n  steps: 4\n"}},
       2,
       {"wrong.yaml:22:3: run.steps: repeated key", "wrong.yaml:20:3"}},
      {"an empty value", {{"seed: 1", "seed:"}}, 2, {"wrong.yaml:21:3: run.seed: has no value"}},
      {"a tab", {{"  seed: 1", "\tseed: 1"}}, 2, {"wrong.yaml:21:1: a tab", "use spaces"}},
      {"a number with a tail",
       {{"0.001", "1e-4x"}},
       2,
       {"wrong.yaml:18:18: optimizer.learning_rate: '1e-4x'", "'x' after the number"}},
      {"a number with a leading zero", {{"steps: 3", "steps: 08"}}, 2, {"wrong.yaml:20:10: run."}},
      {"a word that is no boolean",
       {{"  seed: 1\n", "  seed: 1\n  queued: yes\n"}},
       2,
       {"wrong.yaml:22:11: run.queued:", "'yes'"}},
      {"a number out of range",
       {{"vocabulary: bytes", "vocabulary: bytes\n  dropout: 1.5"}},
       2,
       {"wrong.yaml:8:12: model.dropout:", "[0, 1)"}},
  };
  return table;
}

const std::vector<Wrong>& wrong_sums() {
  static const std::vector<Wrong> table = {
      {"a batch that is no multiple",
       {{"microbatch_size: 2", "microbatch_size: 3"}},
       2,
       {"wrong.yaml:13:9: batch.size:", "8 = M x 3", "M = 2", "M = 3", "6 or 9"}},
      {"31 blocks in stages and 30 in the model",
       {{"layers: 4", "layers: 30"},
        {"schedule:",
         "stages:\n  - { layers: [embedding, block*15] }\n"
         "  - { layers: [block*16, norm, head] }\nschedule:"}},
       2,
       {"wrong.yaml:10:1: stages:", "15 + 16 = 31 blocks", "model.layers is 30"}},
      {"more stages than layers",
       {{"layers: 4", "layers: 3"}, {"ranks: 2", "ranks: 8"}},
       2,
       {"wrong.yaml:9:10: pipeline.ranks:", "8 x 1 = 8 are too many for 3 layers",
        "at most layers + 3 = 6"}},
      {"microbatches that do not fit interleaving",
       {{"ranks: 2", "ranks: 2\n  chunks: 2"},
        {"1f1b", "interleaved_1f1b"},
        {"size: 8", "size: 10"}},
       2,
       {"wrong.yaml:12:9: schedule.name: schedule interleaved_1f1b cannot run P=2 ranks, M=5 "
        "microbatches, V=2 chunks",
        "the nearest M that fit are 4 and 6"}},
      {"an unknown schedule",
       {{"1f1b", "1f2b"}},
       2,
       {"wrong.yaml:11:9: schedule.name: schedule '1f2b' is unknown",
        "gpipe, 1f1b, eager_1f1b, interleaved_1f1b"}},
      {"a schedule without backward",
       {{"1f1b", "forward_only"}},
       2,
       {"wrong.yaml:11:9: schedule.name: 'forward_only' runs no backward"}},
      {"a layer kind that does not exist",
       {{"schedule:",
         "stages:\n  - { layers: [embedding, block*4] }\n  - { layers: [blok, norm, head] }\n"
         "schedule:"}},
       2,
       {"wrong.yaml:12:15: stages: stage 1: ", "'blok'"}},
      {"a device this build lacks",
       {{"steps: 3", "steps: 3\n  device: cuda"}},
       2,
       {"wrong.yaml:21:11: run.device: this build has no CUDA"}},
  };
  return table;
}

void check_all(const std::vector<Wrong>& table) {
  const RunFolder folder;
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.what);
    folder.write("wrong.yaml", edited(wrong));
    const Outcome outcome = run_headrace(folder, {"train", "wrong.yaml"});
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == wrong.exit_code);
    CHECK(outcome.out.empty());
    for (const std::string& part : wrong.says) {
      CAPTURE(part);
      CHECK(contains(outcome.err, part));
    }
  }
}

}  // namespace

TEST_CASE("tools: train refuses wrong forms with file line and column") {
  check_all(wrong_forms());
}

TEST_CASE("tools: train refuses what does not add up with the numbers") { check_all(wrong_sums()); }

TEST_CASE("tools: train refuses data it cannot read and exits 3") {
  const RunFolder folder;
  const Outcome missing =
      run_headrace(folder, {"train", "tiny.yaml", "--set", "data.train=absent.txt"});
  CHECK(missing.exit_code == 3);
  CHECK(contains(missing.err, "'absent.txt' cannot be read: No such file or directory"));
  folder.write("short.txt", "0123456789abcdef");  // context 16 needs 17
  const Outcome tiny =
      run_headrace(folder, {"train", "tiny.yaml", "--set", "data.train=short.txt"});
  CHECK(tiny.exit_code == 3);
  CHECK(contains(tiny.err, "'short.txt' is too short: found 16 tokens (16 bytes), at least 17"));
}

TEST_CASE("tools: a token outside the vocabulary stops the run before any update") {
  const RunFolder folder;
  // 17 tokens of 16 bits, one sample: every batch holds token 10, whose id is 300.
  std::string tokens;
  for (int i = 0; i < 17; ++i) {
    tokens += static_cast<char>(i == 10 ? 300 % 256 : i);
    tokens += static_cast<char>(i == 10 ? 300 / 256 : 0);
  }
  folder.write("tokens.bin", tokens);
  const Outcome outcome =
      run_headrace(folder, {"train", "tiny.yaml", "--set", "data.train=tokens.bin", "--set",
                            "model.vocabulary=300", "--set", "run.metrics=metrics.jsonl"});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(contains(outcome.err, "token 10 (byte 20) has the id 300, outside the vocabulary of 300"));
  CHECK(folder.read("metrics.jsonl").empty());
}

TEST_CASE("tools: files that cannot be written are refused before the first step") {
  const RunFolder folder;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"train", "tiny.yaml", "--summary", "absent/summary.json"},
        {"train", "tiny.yaml", "--summary", "."},
        {"train", "tiny.yaml", "--set", "run.metrics=absent/metrics.jsonl"}}) {
    CAPTURE(arguments.back());
    const Outcome outcome = run_headrace(folder, arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "cannot be written"));
    CHECK_FALSE(contains(outcome.err, " step=1"));
  }
}

TEST_CASE("tools: no output may be an input or the other output") {
  const RunFolder folder;
  const std::string corpus = folder.read("corpus.txt");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"train", "tiny.yaml", "--set", "run.metrics=./corpus.txt"},
        {"train", "tiny.yaml", "--summary", "corpus.txt"},
        {"train", "tiny.yaml", "--summary", "tiny.yaml"},
        {"train", "tiny.yaml", "--summary", "one", "--set", "run.metrics=one"}}) {
    CAPTURE(arguments.back());
    CHECK(run_headrace(folder, arguments).exit_code == 2);
  }
  CHECK(folder.read("corpus.txt") == corpus);
  CHECK(folder.read("tiny.yaml") == tiny_config());
}

TEST_CASE("tools: a summary goes through links and pipes and spares its neighbours") {
  const RunFolder folder;
  folder.write("real.json", "old");
  folder.write("real.json.partial", "precious");
  REQUIRE(symlink("real.json", (folder.path() + "/link.json").c_str()) == 0);
  CHECK(run_headrace(folder, {"train", "tiny.yaml", "--summary", "link.json"}).exit_code == 0);
  CHECK(contains(folder.read("real.json"), "state_hash"));
  CHECK(folder.read("real.json.partial") == "precious");
  const Outcome piped = run_headrace(folder, {"train", "tiny.yaml", "--summary", "/dev/stdout"});
  CHECK(piped.exit_code == 0);
}

TEST_CASE("tools: a run that fails leaves no summary of an earlier run - a refused one leaves it") {
  const RunFolder folder;
  folder.write("real.json", "old");
  REQUIRE(symlink("real.json", (folder.path() + "/link.json").c_str()) == 0);
  const auto train = [&](const std::string& setting) {
    return run_headrace(folder, {"train", "tiny.yaml", "--summary", "link.json", "--set", setting});
  };
  for (const char* refused : {"schedule.name=x", "run.steps=-1", "run.metrics=absent/m.jsonl"}) {
    CAPTURE(refused);
    CHECK(train(refused).exit_code == 2);
    CHECK(folder.read("real.json") == "old");
  }
  for (const char* failing : {"debug.throw_at=1:2", "data.train=absent.txt"}) {
    CAPTURE(failing);
    folder.write("real.json", "old");
    CHECK(train(failing).exit_code > 2);
    CHECK_FALSE(folder.holds("real.json"));
  }
  // The link still leads to the same place.
  CHECK(train("run.steps=1").exit_code == 0);
  CHECK(contains(folder.read("real.json"), "state_hash"));
}

TEST_CASE("tools: what this build lacks is refused and never ignored") {
  const RunFolder folder;
  for (const char* key : {"data.validation=corpus.txt", "determinism.accept_other_numerics=true"}) {
    CAPTURE(key);
    const Outcome outcome = run_headrace(folder, {"train", "tiny.yaml", "--set", key});
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "this build has no"));
  }
  const Outcome command = run_headrace(folder, {"eval", "tiny.yaml"});
  CHECK(command.exit_code == 2);
  CHECK(contains(command.err, "this build has no command 'eval'"));
}

TEST_CASE("tools: config check as JSON judges the plan as well") {
  const RunFolder folder;
  const Outcome outcome =
      run_headrace(folder, {"config", "check", "--json", "tiny.yaml", "--set", "schedule.name=x"});
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.out, "\"valid\": false"));
  CHECK(contains(outcome.out, "schedule 'x' is unknown"));
}
