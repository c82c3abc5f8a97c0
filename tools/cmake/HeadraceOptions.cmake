# Options and the one INTERFACE target that carries language standard, warnings and sanitizers.
option(HEADRACE_BUILD_TESTS "Build the tests" ON)
option(HEADRACE_BUILD_BENCH "Build tools/bench" ON)
option(HEADRACE_BUILD_CLI "Build the headrace binary" ON)
option(HEADRACE_WERROR "Treat warnings as errors" OFF)
option(HEADRACE_FUZZ "Build the libFuzzer targets of tests/fuzz; needs clang" OFF)
set(HEADRACE_SANITIZE "" CACHE STRING "Comma-separated sanitizers: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_program(HEADRACE_CCACHE ccache)
if(HEADRACE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${HEADRACE_CCACHE}")
endif()

add_library(headrace_flags INTERFACE)
add_library(headrace::flags ALIAS headrace_flags)
target_compile_features(headrace_flags INTERFACE cxx_std_20)
# [Note: bits] Contraction would let the compiler fuse a*b+c differently per ISA and per version.
target_compile_options(headrace_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
target_compile_options(headrace_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wshadow;-Wconversion;-Wno-sign-conversion>>)
# g++ 12 reports overlaps in its own std::string (GCC bug 105651); clang-tidy, which reads these
# flags too, does not know that warning.
target_compile_options(headrace_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-unknown-warning-option>>)
if(HEADRACE_WERROR)
  target_compile_options(headrace_flags INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Werror>>)
endif()
if(HEADRACE_SANITIZE)
  target_compile_options(headrace_flags INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${HEADRACE_SANITIZE};-fno-omit-frame-pointer>)
  target_link_options(headrace_flags INTERFACE $<BUILD_INTERFACE:-fsanitize=${HEADRACE_SANITIZE}>)
  if(HEADRACE_SANITIZE MATCHES "undefined")
    # CAF 0.17 binds null references inside its own headers; without recovery that is fatal.
    target_compile_options(headrace_flags INTERFACE
      $<BUILD_INTERFACE:-fno-sanitize=null;-fno-sanitize-recover=undefined>)
  endif()
endif()
if(HEADRACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "HEADRACE_FUZZ needs clang: libFuzzer is a part of it; "
                        "configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(headrace_flags INTERFACE $<BUILD_INTERFACE:-fsanitize=fuzzer-no-link>)
endif()
