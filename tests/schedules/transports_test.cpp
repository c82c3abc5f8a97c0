#include "schedules/transports.hpp"

#include "schedules/passes.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace headrace::schedules {
namespace {

using nlohmann::json;
using testing::contains;
using testing::program_of;
using testing::program_of_rows;

std::string word_of(const Verdict& verdict) {
  if (verdict.deadlock) return "deadlock";
  return verdict.wrong_message ? "mismatch" : "ok";
}

Verdict verdict_of(const TransportReport& report, std::string_view lowering,
                   std::string_view model) {
  for (const NamedVerdict& named : report.verdicts)
    if (named.lowering == lowering && named.model == model) return named.verdict;
  FAIL("no such verdict");
  return {};
}

TEST_CASE("transports: every verdict and buffer count equals the reference") {
  std::ifstream in(std::string(HEADRACE_GOLDEN_DIR) + "/golden.json");
  const json golden = json::parse(in);
  int records = 0;
  int compared = 0;
  for (const json& record : golden.at("deadlock")) {
    ScheduleSpec spec =
        testing::spec_of(record.at("schedule").get<std::string>(),
                         {record.at("P").get<std::int32_t>(), record.at("M").get<std::int32_t>(),
                          record.at("V").get<std::int32_t>()});
    spec.descending_backward = spec.name == "looped_bfs";
    const Program program = make_program(spec).value();
    const TransportReport report = examine_transports(program);
    for (const NamedVerdict& named : report.verdicts) {
      if (!record.at("verdict").contains(named.lowering)) continue;  // units: interleaved only
      CHECK_MESSAGE(word_of(named.verdict) ==
                        record.at("verdict").at(named.lowering).at(named.model).get<std::string>(),
                    spec.name, " P=", spec.ranks, " M=", spec.microbatches, " V=", spec.chunks, " ",
                    named.lowering, " ", named.model, ": ", named.verdict.text);
      CHECK(named.verdict.text.empty() == (word_of(named.verdict) == "ok"));
      ++compared;
    }
    CHECK_MESSAGE(report.least_buffers == record.at("naive_min_buffers").get<std::int32_t>(),
                  spec.name, " P=", spec.ranks, " M=", spec.microbatches, " V=", spec.chunks);
    CHECK(report.runtime_ok);
    ++records;
  }
  CHECK(records == 233);
  CHECK(compared == 233 * 21 + 30 * 7);
}

TEST_CASE("transports: C10 an order that buffered sends allow hangs where sends block") {
  const Program program = program_of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                           "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"},
                                          1, 2);
  const TransportReport report = examine_transports(program);
  CHECK(report.runtime_ok);
  const Verdict blocking = verdict_of(report, "given", "rendezvous_tag");
  CHECK(blocking.deadlock);
  CHECK(contains(blocking.text, "rank 0 at 0SEND_F1 waits for rank 1; rank 1 at 1SEND_B0 waits"));
  CHECK(contains(blocking.text, "rank 0, from column 0: 0F0 0SEND_F0 0F1 >0SEND_F1<"));
  CHECK(contains(blocking.text, "1B0 >1SEND_B0< 1RECV_F1"));
  CHECK_FALSE(verdict_of(report, "given", "buffer1_tag").deadlock);
  CHECK_FALSE(verdict_of(report, "given", "buffered_fifo").deadlock);
  CHECK(report.least_buffers == 1);
}

TEST_CASE("transports: C10 a receive before the backward suits blocking sends too") {
  const Program program = program_of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                           "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"},
                                          1, 2);
  const TransportReport report = examine_transports(program);
  CHECK(report.runtime_ok);
  for (const NamedVerdict& named : report.verdicts)
    if (named.lowering == "given" && contains(named.model, "_tag"))
      CHECK_FALSE(named.verdict.deadlock);
  CHECK(report.least_buffers == 0);
}

TEST_CASE("transports: C10 an order no rank can run fails in every model") {
  const Program program = program_of_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"}, 1, 2);
  const TransportReport report = examine_transports(program);
  CHECK_FALSE(report.runtime_ok);
  CHECK(report.verdicts.size() == 28);
  for (const NamedVerdict& named : report.verdicts) {
    // By order alone, a receive takes what comes and the run goes on with wrong data.
    if (contains(named.model, "_tag")) CHECK(named.verdict.deadlock);
    CHECK_MESSAGE(word_of(named.verdict) != "ok", named.lowering, " ", named.model);
    CHECK_FALSE(named.verdict.text.empty());
  }
  CHECK(report.least_buffers == -1);
}

TEST_CASE("transports: C48 both sides send first unless the exchange is posted together") {
  const TransportReport report = examine_transports(program_of("1f1b", {2, 64}));
  const Verdict naive = verdict_of(report, "naive", "rendezvous_tag");
  CHECK(naive.deadlock);
  CHECK(contains(naive.text,
                 "rank 0 at 0SEND_F1 waits for rank 1; rank 1 at 1SEND_B0 waits for "
                 "rank 0"));
  CHECK_FALSE(verdict_of(report, "batched", "rendezvous_tag").deadlock);
  CHECK_FALSE(verdict_of(report, "torch", "rendezvous_tag").deadlock);
  CHECK(report.least_buffers == 1);
}

TEST_CASE("transports: C43 a receive in the list does not hold back a forward before it") {
  // Rank 0 of an interleaved warm-up: its second forward needs nothing from rank 1.
  const std::vector<LoweredList> lists =
      lower(program_of("interleaved_1f1b", {2, 4, 2}), Lowering::kNaive).value();
  const std::vector<Action>& first = lists[0].actions;
  CHECK(to_string(first[0]) == "0F0");
  CHECK(to_string(first[1]) == "0SEND_F0");
  CHECK(to_string(first[2]) == "0F1");
}

TEST_CASE("transports: one order for both kinds of message takes an activation for a gradient") {
  const TransportReport report = examine_transports(program_of("zbv", {4, 8, 2}));
  const Verdict verdict = verdict_of(report, "naive", "buffered_fifo");
  CHECK(verdict.wrong_message);
  CHECK(contains(verdict.text, "takes for"));
  CHECK_FALSE(verdict_of(report, "naive", "buffered_tag").wrong_message);
  // Apart by kind, order is enough on every link.
  for (const LinkMatching& link : report.links) CHECK(link.order_suffices);
  // Together it is not on the way to the higher rank: activations of the first half of the stages
  // and gradients of the second.
  for (const LinkMatching& link : report.links)
    CHECK(link.shared_order_suffices == (link.from > link.to));
  const TransportReport plain = examine_transports(program_of("1f1b", {4, 8}));
  CHECK(plain.links.size() == 6);
  for (const LinkMatching& link : plain.links) CHECK(link.shared_order_suffices);
}

TEST_CASE("transports: a link whose ends differ in order is named") {
  const TransportReport report =
      examine_transports(program_of_rows({"0F0,0F1,0B0,0B1", "1F1,1F0,1B0,1B1"}, 1, 2));
  CHECK_FALSE(report.runtime_ok);
  REQUIRE(report.links.size() == 2);
  CHECK(report.links[0].from == Rank{0});
  CHECK_FALSE(report.links[0].gradient);
  CHECK_FALSE(report.links[0].order_suffices);
  CHECK(report.links[1].gradient);
  CHECK(report.links[1].order_suffices);
  CHECK(verdict_of(report, "naive", "buffered_fifo").wrong_message);
}

TEST_CASE("transports: the torch sweep puts a receive where its send was made") {
  const std::vector<LoweredList> lists =
      lower(program_of("1f1b", {2, 2}), Lowering::kTorch).value();
  const auto text = [](const LoweredList& list) {
    std::string out;
    for (const Action& action : list.actions) out += to_string(action) + " ";
    return out;
  };
  CHECK(text(lists[0]) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 ");
  CHECK(text(lists[1]) == "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 ");
}

TEST_CASE("transports: a pair is one step between its receives and its sends") {
  const Program program = program_of("dualpipev", {2, 4, 2});
  for (Lowering lowering : {Lowering::kNaive, Lowering::kBatched, Lowering::kTorch}) {
    const std::vector<LoweredList> lists = lower(program, lowering).value();
    for (const LoweredList& list : lists) {
      std::int32_t begin = 0;
      for (std::int32_t end : list.ends) {
        const Action& first = list.actions[static_cast<std::size_t>(begin)];
        if (first.overlaps_next) CHECK(end - begin == 2);
        if (is_compute(first.kind) && !first.overlaps_next) CHECK(end - begin == 1);
        begin = end;
      }
    }
  }
}

// The second opinion on links that hold `buffers` messages, one transfer at a time, by trying all
// ranks again and again. No queues of waiting sends, no wake-ups.
class OneByOne {
 public:
  OneByOne(const Program& lowered, std::size_t buffers)
      : program_(lowered), buffers_(buffers), next_(lowered.actions.size(), 0) {}

  bool completes() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (head(r) != nullptr) return false;
    return true;
  }

 private:
  using Key = std::tuple<bool, std::int32_t, std::int32_t>;  // gradient, sender's stage, microbatch

  const Action* head(std::size_t rank) {
    const std::vector<Action>& list = program_.actions[rank];
    while (next_[rank] < list.size() && !is_transfer(list[next_[rank]].kind)) ++next_[rank];
    return next_[rank] < list.size() ? &list[next_[rank]] : nullptr;
  }
  static bool is_send(const Action& a) {
    return a.kind == ActionKind::kSendForward || a.kind == ActionKind::kSendBackward;
  }
  static Key key(const Action& a) {
    const bool gradient =
        a.kind == ActionKind::kSendBackward || a.kind == ActionKind::kRecvBackward;
    const std::int32_t back = is_send(a) ? 0 : (gradient ? 1 : -1);
    return {gradient, a.stage.value + back, a.microbatch.value};
  }
  std::size_t rank_at(const Key& k, std::int32_t step) const {
    return program_
        .rank_of(StageIndex{std::get<1>(k) + (std::get<0>(k) ? -step : step)},
                 MicrobatchIndex{std::get<2>(k)})
        .index();
  }

  bool advance(std::size_t rank) {
    const Action* action = head(rank);
    if (action == nullptr) return false;
    const Key k = key(*action);
    std::set<Key>& link = links_[{rank_at(k, 0), rank_at(k, 1)}];
    if (!is_send(*action)) {
      if (link.erase(k) == 0) return false;
      ++next_[rank];
      return true;
    }
    const std::size_t peer = rank_at(k, 1);
    const Action* other = head(peer);
    if (other != nullptr && !is_send(*other) && key(*other) == k)
      ++next_[peer];
    else if (link.size() < buffers_)
      link.insert(k);
    else
      return false;
    ++next_[rank];
    return true;
  }

  const Program& program_;
  std::size_t buffers_;
  std::vector<std::size_t> next_;
  std::map<std::pair<std::size_t, std::size_t>, std::set<Key>> links_;
};

TEST_CASE("transports: the sweep over small shapes keeps what theory and brute force say") {
  int programs = 0;
  int hangs = 0;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;
    for (std::int32_t p : {2, 3, 4, 6, 8})
      for (std::int32_t m : {1, 2, 3, 4, 8, 12, 16, 24})
        for (std::int32_t v : {1, 2, 3, 4}) {
          const Result<Program> program = make_program(testing::spec_of(info.name, {p, m, v}));
          if (!program.is_ok()) continue;
          CAPTURE(std::string(info.name));
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(v);
          ++programs;
          const TransportReport report = examine_transports(*program);
          CHECK(report.runtime_ok);
          for (const NamedVerdict& named : report.verdicts) {
            if (named.lowering == "torch") CHECK(word_of(named.verdict) == "ok");
            if (named.model == "buffered_tag" && named.lowering != "units")
              CHECK(word_of(named.verdict) == "ok");
          }
          const bool all_shared =
              std::all_of(report.links.begin(), report.links.end(),
                          [](const LinkMatching& link) { return link.shared_order_suffices; });
          CHECK(all_shared == (word_of(verdict_of(report, "naive", "buffered_fifo")) == "ok"));
          const bool hung = verdict_of(report, "naive", "rendezvous_tag").deadlock;
          hangs += hung ? 1 : 0;
          const Program lowered = with_transfers(*program);
          const auto least = static_cast<std::size_t>(report.least_buffers);
          CHECK(OneByOne(lowered, least).completes());
          if (least > 0) CHECK_FALSE(OneByOne(lowered, least - 1).completes());
          CHECK((report.least_buffers == 0) == !hung);
          CHECK((report.least_buffers <= 1) ==
                !verdict_of(report, "naive", "buffer1_tag").deadlock);
        }
  }
  CHECK(programs > 500);
  CHECK(hangs > 100);
}

// One row of the table in docs/SCHEDULES.md.
struct TableRow {
  std::string_view name;
  std::int32_t chunks;
  bool naive_hangs;
  bool batched_hangs;
  std::int32_t most_buffers;  // largest least_buffers
  std::int32_t wrong_from;    // smallest P at which one queue for both kinds errs, 0 = none
};

constexpr TableRow kTable[] = {
    {"gpipe", 1, false, false, 0, 0},
    {"looped_bfs", 1, false, false, 0, 0},
    {"forward_only", 1, false, false, 0, 0},
    {"1f1b", 1, true, false, 1, 0},
    {"eager_1f1b", 1, true, false, 1, 0},
    {"zb_h1", 1, true, false, 1, 0},
    {"chimera", 1, true, false, 1, 0},
    {"hanayo", 2, true, false, 1, 0},
    {"forward_only_v", 2, true, false, 1, 0},
    {"interleaved_1f1b", 1, true, false, 1, 0},
    {"interleaved_zb", 1, true, false, 1, 0},
    {"forward_only", 2, true, false, 1, 0},
    {"forward_only", 3, true, false, 1, 0},
    {"zb_h2", 1, true, true, 1, 0},
    {"interleaved_1f1b", 2, true, true, 2, 0},
    {"interleaved_1f1b", 3, true, true, 2, 0},
    {"looped_bfs", 2, true, true, 4, 0},
    {"looped_bfs", 3, true, true, 4, 0},
    {"interleaved_zb", 2, true, true, 4, 2},
    {"interleaved_zb", 3, true, true, 5, 2},
    {"zbv", 2, true, true, 2, 2},
    {"v_half", 2, true, true, 1, 2},
    {"v_min", 2, true, true, 2, 2},
    {"dualpipe", 1, true, true, 2, 6},
    {"dualpipev", 2, true, true, 2, 3},
};

TEST_CASE("transports: the table of the documentation is what the sweep shows") {
  for (const TableRow& row : kTable) {
    CAPTURE(std::string(row.name));
    CAPTURE(row.chunks);
    bool naive_hangs = false;
    bool batched_hangs = false;
    std::int32_t most_buffers = 0;
    std::set<std::int32_t> wrong;  // P
    for (std::int32_t p : {2, 3, 4, 6, 8})
      for (std::int32_t m : {p / 2, p, p + 1, 2 * p, 3 * p, 4 * p}) {
        const Result<Program> program =
            make_program(testing::spec_of(row.name, {p, m, row.chunks}));
        if (!program.is_ok()) continue;
        const TransportReport report = examine_transports(*program);
        naive_hangs |= verdict_of(report, "naive", "rendezvous_tag").deadlock;
        batched_hangs |= verdict_of(report, "batched", "rendezvous_tag").deadlock;
        most_buffers = std::max(most_buffers, report.least_buffers);
        if (verdict_of(report, "naive", "buffered_fifo").wrong_message) wrong.insert(p);
        CHECK(verdict_of(report, "batched", "async_rank_fifo").deadlock ==
              verdict_of(report, "batched", "rendezvous_tag").deadlock);
        CHECK(verdict_of(report, "naive", "async_rank_fifo").deadlock ==
              verdict_of(report, "naive", "rendezvous_tag").deadlock);
      }
    CHECK(naive_hangs == row.naive_hangs);
    CHECK(batched_hangs == row.batched_hangs);
    CHECK(most_buffers == row.most_buffers);
    CHECK((wrong.empty() ? 0 : *wrong.begin()) == row.wrong_from);
    if (row.name == "interleaved_zb") CHECK(wrong.size() <= 1);
  }
}

}  // namespace
}  // namespace headrace::schedules
