#include "schedules/csv.hpp"

#include "schedules/passes.hpp"
#include "schedules/validator.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace headrace;
using namespace headrace::schedules;
using namespace std::string_literals;

namespace {

CsvReading read(std::string_view text, CsvForm form = CsvForm::kComputeOnly) {
  return read_csv(text, {"my.csv", form, 0});
}

std::string refusal(std::string_view text, CsvForm form = CsvForm::kComputeOnly) {
  return parse_csv(text, {"my.csv", form, 0}).status().message();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The compute-only text of what was read, in the current letters.
std::string canonical(std::string_view text, CsvForm form = CsvForm::kComputeOnly) {
  const Result<Program> program = parse_csv(text, {"my.csv", form, 0});
  return program.is_ok() ? write_csv(*program, form) : program.status().message();
}

// Four ranks, eight stages as a V, one microbatch: rank r holds r and 7-r.
constexpr std::string_view kVShape =
    "0F0,7F0,7B0,0B0\n1F0,6F0,6B0,1B0\n2F0,5F0,5B0,2B0\n3F0,4F0,4B0,3B0\n";

}  // namespace

TEST_CASE("csv: a plain file gives ranks stages microbatches and placement") {
  const CsvReading reading = read("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  REQUIRE(reading.program);
  CHECK(reading.program->schedule == "my.csv");
  CHECK(reading.program->ranks == 2);
  CHECK(reading.program->chunks == 1);
  CHECK(reading.program->stages == 2);
  CHECK(reading.program->microbatches == 2);
  CHECK(reading.program->placement == Placement::kLoop);
  CHECK_FALSE(reading.program->forward_only);
  CHECK(reading.notes.empty());
  CHECK(reading.cells[1] == std::vector<std::int32_t>{0, 1, 2, 3});
  CHECK(validate(*reading.program).is_ok());
}

TEST_CASE("csv: a file of forwards alone is forward only") {
  const CsvReading reading = read("0F0,0F1\n1F0,1F1");
  REQUIRE(reading.program);
  CHECK(reading.program->forward_only);
}

TEST_CASE("csv: C37 the V shape is taken from the file and its fold is local") {
  const CsvReading reading = read(kVShape);
  REQUIRE(reading.program);
  CHECK(reading.program->placement == Placement::kVShape);
  CHECK(reading.program->chunks == 2);
  CHECK(validate(*reading.program).is_ok());
  const std::string comms = write_csv(*reading.program, CsvForm::kComputeComms);
  CHECK_FALSE(contains(comms, "3SEND_F0"));
  CHECK_FALSE(contains(comms, "4RECV_F0"));
  CHECK(contains(comms, "2SEND_F0"));
  CHECK(contains(comms, "5SEND_B0"));
  CHECK(contains(comms, "4SEND_F0"));
}

TEST_CASE("csv: bidirectional and freely placed stages are recognised") {
  const CsvReading both = read("0F0,1F1,0B0,1B1\n1F0,0F1,1B0,0B1\n");
  REQUIRE(both.program);
  CHECK(both.program->placement == Placement::kBidirectional);
  CHECK(both.program->chunks == 1);
  const CsvReading table = read("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n");
  REQUIRE(table.program);
  CHECK(table.program->placement == Placement::kTable);
  CHECK(table.program->stage_ranks == std::vector<Rank>{Rank{0}, Rank{0}, Rank{1}, Rank{1}});
  CHECK(validate(*table.program).is_ok());
  CHECK(read("1F0,1B0\n0F0,0B0\n").program->placement == Placement::kTable);
}

TEST_CASE("csv: placements that no rank table describes are refused with the cell") {
  CHECK(contains(refusal("0F0,0B0,1F1,1B1\n1F0,1B0,0F1\n0B1,2F0,2B0,2F1,2B1\n"),
                 "my.csv:1:3: rank 0, cell 2: '1F1' stands on rank 0, but the other actions place "
                 "stage 1 on rank 1"));
  // Bidirectional placement has no middle for an odd number of microbatches.
  CHECK(contains(refusal("0F0,1F1,1F2\n1F0,0F1,0F2\n"), "'1F1' stands on rank 0, but"));
  CHECK(refusal("0F0,1F0,2F0\n3F0\n") ==
        "my.csv: the ranks hold unequal numbers of stages: 3, 1; every rank must hold 2");
  CHECK(refusal("0F0,1F0\n2F0\n") ==
        "my.csv: 3 stages do not fit 2 ranks (rows): every rank holds the same number of stages");
}

TEST_CASE("csv: numbers with holes are refused and cost no memory") {
  CHECK(refusal("0F0,0B0,2F0,2B0\n") ==
        "my.csv:1:3: rank 0, cell 2: '2F0' is of stage 2, but nothing in the file is of stage 1");
  CHECK(contains(refusal("0F0,0F2147483646\n"),
                 "'0F2147483646' is of microbatch 2147483646, but nothing in the file is of "
                 "microbatch 1"));
  std::string sparse = "0F0";
  for (int i = 1; i < 100; ++i) sparse += "," + std::to_string(i) + "F" + std::to_string(i);
  CHECK(refusal(sparse) ==
        "my.csv: 100 stages with 100 microbatches are 10000 forwards, but the file holds 100");
}

TEST_CASE("csv: every malformed cell is refused with its place and text") {
  struct Case {
    std::string cell;
    std::string_view part;
  };
  const Case cases[] = {
      {"X", "'X' is no action"},
      {"0X0", "'0X0' is no action"},
      {"F0", "the stage must be a number"},
      {"0F", "the microbatch must be a number"},
      {"-1F0", "is no action"},
      {"00F0", "the stage must be a number"},
      {"0F00", "the microbatch must be a number"},
      {"0f0", "is no action"},
      {"0F0x", "is no action"},
      {"0F2147483647", "from 0 to 2147483646"},
      {"99999999999999999999F0", "from 0 to 2147483646"},
      {"0F0 ", "holds blanks"},
      {" 0F0", "holds blanks"},
      {"0F0\t", "holds blanks"},
      {" ", "holds blanks"},
      {"\"0F0\"", "is quoted"},
      {"'0F0'", "is quoted"},
      {"0F0\0"s, "NUL byte"},
      {"0F0\r", "carriage return"},
      {"0F\xC3\xA9", "not printable ASCII"},
      {"0F0;0B0", "is no action"},
      {"0REDUCE_GRAD0", "takes no microbatch"},
      {"UNSHARD", "the stage must be a number"},
      {"0WAIT_REDUCE_GRAD0", "takes no microbatch"},
      {"0WAIT_SEND_F", "the microbatch must be a number"},
      {"0WAIT_SEND_F0", "waits for no send that stands before it in the row"},
      {"NORM", "part of the step's end"},
      {"0TIED_SEND", "part of the step's end"},
      {"(0F1;1B0", "the parenthesis is not closed"},
      {"()OVERLAP_F_B", "is an empty pair"},
      {"(0F1;1B0)", "OVERLAP_F_B must follow"},
      {"(0F1;1B0)OVERLAP", "OVERLAP_F_B must follow"},
      {"(0F1;1B0)OVERLAP_F_B7", "OVERLAP_F_B must follow"},
      {"(0F1)OVERLAP_F_B", "needs two actions"},
      {"(0F1;1B0;0F2)OVERLAP_F_B", "needs two actions"},
      {"(0F1;)OVERLAP_F_B", "is no pair"},
      {"(;0B1)OVERLAP_F_B", "is no pair"},
      {"(1B0;0F1)OVERLAP_F_B", "the first must be a forward F"},
      {"(0F1;0F2)OVERLAP_F_B", "the second a backward B or I"},
      {"(0F1;1W0)OVERLAP_F_B", "the second a backward B or I"},
      {"((0F1;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B", "is no pair"},
      {"(0F1;0B1)OVERLAP_F_B", "the backward of microbatch 1 needs its forward"},
      {"OVERLAP_F_B", "is no action"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.cell);
    const std::string text = "0F0,0B0\n0F0," + wrong.cell + ",0B0\n";
    CHECK(contains(refusal(text), "my.csv:2:2: rank 1, cell 1: "));
    CHECK(contains(refusal(text), wrong.part));
    const CsvReading reading = read(text);
    REQUIRE(reading.faults.size() == 1);
    CHECK(reading.faults[0].rank == 1);
    CHECK(reading.faults[0].cell == 1);
    CHECK_FALSE(reading.program);
  }
}

TEST_CASE("csv: files without a schedule in them are refused") {
  CHECK(refusal("") == "my.csv: the file is empty");
  CHECK(contains(refusal("\xEF\xBB\xBF"
                         "0F0,0B0\n"),
                 "my.csv:1:1: rank 0, cell 0: the file begins with a byte order mark"));
  CHECK(contains(refusal("0F0,0B0\n\n"), "my.csv:2: rank 1: the row is empty"));
  CHECK(contains(refusal("\n"), "my.csv:1: rank 0: the row is empty"));
  CHECK(contains(refusal("0F0,0B0\n,,\n"), "my.csv:2: rank 1: the row holds no action"));
  CHECK(contains(refusal("0F0,0B0\n1UNSHARD\n"), "the row holds no action"));
  CHECK(parse_csv("0F0,0B0\n", {"my.csv", CsvForm::kComputeOnly, 2}).status().message() ==
        "my.csv: the file has 1 rows, one per rank, but the pipeline has 2 ranks");
}

TEST_CASE("csv: every faulty cell is listed up to the limit") {
  const CsvReading reading = read("0F0,a,0B0,b\n1F0\nc\n");
  REQUIRE(reading.faults.size() == 3);
  CHECK(reading.faults[1].cell == 3);
  CHECK(reading.faults[2].rank == 2);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "x,";
  CHECK(read(many).faults.size() == 64);
}

TEST_CASE("csv: idle cells and both line ends are accepted") {
  const std::string plain = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  CHECK(canonical(plain) == plain);
  CHECK(canonical("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n") == plain);
  CHECK(canonical("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1") == plain);
  CHECK(canonical("0F0,0F1,,,0B0,0B1,\n,1F0,1B0,1F1,1B1\n") == plain);
  const CsvReading reading = read("0F0,0F1,,,0B0,0B1,\n,1F0,1B0,1F1,1B1\n");
  CHECK(reading.notes == std::vector<std::string>{"idle (empty) cells are left out: 4"});
  CHECK(reading.cells[0] == std::vector<std::int32_t>{0, 1, 4, 5});
}

TEST_CASE("csv: C41 sharding actions are left out and said once") {
  const CsvReading reading = read("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n");
  REQUIRE(reading.program);
  CHECK(to_csv(*reading.program) == "0F0,0B0\n");
  REQUIRE(reading.notes.size() == 1);
  CHECK(contains(reading.notes[0],
                 "UNSHARD, RESHARD and REDUCE_GRAD are left out, 3 in all, the first '0UNSHARD'"));
  CHECK(reading.cells[0] == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("csv: C41 waits for sends follow their send and are left out") {
  const CsvReading reading = read(
      "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n",
      CsvForm::kComputeComms);
  REQUIRE(reading.program);
  CHECK(to_csv(*reading.program) == "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK(validate(*reading.program).is_ok());
  REQUIRE(reading.notes.size() == 2);
  CHECK(contains(reading.notes[1],
                 "WAIT_SEND_F and WAIT_SEND_B are left out, 2 in all, the first '0WAIT_SEND_F0'"));
  const auto refused = [](std::string_view first_row) {
    return refusal(std::string(first_row) + "\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   CsvForm::kComputeComms);
  };
  CHECK(contains(refused("0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0"), "my.csv:1:2: "));
  CHECK(contains(refused("0F0,0SEND_F0,0WAIT_SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0"), "my.csv:1:4: "));
  CHECK(contains(refused("0F0,0SEND_F0,0WAIT_SEND_B0,0RECV_B0,0B0"), "my.csv:1:3: "));
  CHECK(contains(refused("0F0,0SEND_F0,0RECV_B0,0B0,1WAIT_SEND_B0"), "my.csv:1:5: "));
}

TEST_CASE("csv: C41 a pair becomes two neighbours and prints as one cell") {
  const std::string text = "0F0,0F1,(0F2;1B0)OVERLAP_F_B,1B1,(1F0;0I1)OVERLAP_F_B\n";
  const CsvReading reading = read(text);
  REQUIRE(reading.program);
  const std::vector<Action>& list = reading.program->actions[0];
  REQUIRE(list.size() == 7);
  CHECK(list[2] == Action{ActionKind::kForward, StageIndex{0}, MicrobatchIndex{2}, true});
  CHECK(list[3] == Action{ActionKind::kBackward, StageIndex{1}, MicrobatchIndex{0}});
  CHECK(list[6].kind == ActionKind::kBackwardInput);
  CHECK(reading.cells[0] == std::vector<std::int32_t>{0, 1, 2, 2, 3, 4, 4});
  CHECK(to_csv(*reading.program) == text);
}

TEST_CASE("csv: old letters are read as current ones and said") {
  const std::string current = "0F0,0I0,0W0,0F1,0B1\n";
  CHECK(canonical(current) == current);
  CHECK(canonical("0F0,0B0,0W0,0F1,0BW1\n") == current);
  CHECK(canonical("0F0,0B0,0F1,0B1,0W0,0W1\n") == "0F0,0I0,0F1,0I1,0W0,0W1\n");
  CHECK(canonical("0F0,0BW0\n") == "0F0,0B0\n");
  CHECK(canonical("0F0,0F1,(0F2;0BW0)OVERLAP_F_B,0BW1,0BW2\n") ==
        "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n");
  const CsvReading reading = read("0F0,0B0,0W0\n");
  REQUIRE(reading.notes.size() == 1);
  CHECK(contains(reading.notes[0], "old letters"));
  // Without W both eras mean the full backward.
  CHECK(canonical("0F0,0B0\n") == "0F0,0B0\n");
  CHECK(read("0F0,0B0\n").notes.empty());
}

TEST_CASE("csv: a file of two letter eras is refused by their names") {
  const std::string mixed = refusal("0F0,0I0,0W0,0F1,0BW1\n");
  CHECK(
      contains(mixed, "my.csv:1:5: rank 0, cell 4: '0BW1' is the full backward of PyTorch's old"));
  CHECK(contains(mixed, "'0I0' elsewhere is of the current ones"));
  CHECK(contains(refusal("0F0,0B0,0W0,0F1,0B1\n"), "my.csv:1:5: rank 0, cell 4: '0B1' has no W"));
  CHECK(contains(refusal("0F0,0B0,0F1,0W1,0W0\n"), "'0W1' has no B"));
  CHECK(contains(refusal("0F0,0BW0,0W0\n"), "my.csv:1:3: rank 0, cell 2: '0W0' has no B: in "));
}

TEST_CASE("csv: C40 transfers in a compute only file are refused with their partner") {
  const std::string text = refusal("0F0,0SEND_F0,0B0\n1F0,1B0\n");
  CHECK(contains(text,
                 "my.csv:1:2: rank 0, cell 1: '0SEND_F0' is a transfer (its partner is "
                 "1RECV_F0), and 1 transfer stands"));
  CHECK(contains(text, "compute_only schedule is wanted"));
  CHECK(contains(text, "this is compute_comms"));
  CHECK(contains(refusal("0F0,0B0\n1RECV_B3\n"), "its partner is 2SEND_B3"));
  CHECK(contains(refusal("0F0,0B0\n1SEND_B3\n"), "its partner is 0RECV_B3"));
  CHECK(contains(refusal("0F0,0B0\n0RECV_F3\n"), "missing: there is no stage below 0"));
}

TEST_CASE("csv: C40 a comms file without transfers is refused by name") {
  const std::string text = "0F0,0B0\n1F0,1B0\n";
  CHECK(contains(refusal(text, CsvForm::kComputeComms),
                 "no transfer stands in the file, though stage 0 lives on rank 0 and stage 1 on "
                 "rank 1: a compute_comms schedule is wanted"));
  // One rank sends nothing: both forms are the same text.
  CHECK(canonical("0F0,1F0,1B0,0B0\n", CsvForm::kComputeComms) == "0F0,1F0,1B0,0B0\n");
}

TEST_CASE("csv: C40 transfers without a partner are for the validator to name") {
  const auto judged = [](std::string_view text) {
    const Result<Program> program = parse_csv(text, {"my.csv", CsvForm::kComputeComms, 0});
    REQUIRE_MESSAGE(program.is_ok(), program.status().message());
    return validate(*program).status().message();
  };
  CHECK(judged("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n").empty());
  CHECK(contains(judged("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n"), "1RECV_F0"));
  CHECK(contains(judged("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0\n"),
                 "1RECV_F0"));
  CHECK(contains(judged("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n"),
                 "1SEND_F0"));
  CHECK(contains(judged("0F0,0SEND_F0,1F0,1SEND_F0,2F0,2B0,1B0,0B0\n"), "0SEND_F0"));
}

TEST_CASE("csv: every send has its wait at the end of the row where that is asked for") {
  const Program program = parse_csv("0F0,0B0\n1F0,1B0\n", {}).value();
  const std::string text = write_csv_with_waits(program);
  CHECK(text ==
        "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n");
  const CsvReading reading = read(text, CsvForm::kComputeComms);
  REQUIRE(reading.program);
  CHECK(write_csv(*reading.program, CsvForm::kComputeComms) ==
        write_csv(program, CsvForm::kComputeComms));
}

TEST_CASE("csv: comms in old letters with a full backward on one rank are read") {
  // The file PyTorch's own pipelining tests compare with, in the old letters.
  const std::string text =
      "0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,2BW0,"
      "2SEND_B0,2RECV_B1,2BW1,2SEND_B1,0RECV_B0,0BW0,0RECV_B1,0BW1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,1RECV_B0,"
      "3F1,3B1,3SEND_B1,1RECV_B1,3W0,1B0,1SEND_B0,3W1,1B1,1SEND_B1,1W0,1W1\n";
  const CsvReading reading = read(text, CsvForm::kComputeComms);
  REQUIRE(reading.program);
  CHECK(reading.program->chunks == 2);
  CHECK(contains(to_csv(*reading.program), "2RECV_B0,2B0,2SEND_B0"));
  CHECK(contains(to_csv(*reading.program), "3RECV_F1,3I0,3SEND_B0"));
}
