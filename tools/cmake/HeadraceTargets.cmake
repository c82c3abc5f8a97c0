# One function per kind of target. Libraries, test executables and labels register themselves, so
# that install rules and `tools/check` need no list of their own.
set(HEADRACE_TEST_TIMEOUT 300 CACHE STRING "Seconds a single test may run")

# headrace_add_library(NAME HEADERS … SOURCES … [PUBLIC targets] [PRIVATE targets])
#   One static library per folder: target headrace_NAME, alias headrace::NAME. Headers are checked
#   to compile alone (all_verify_interface_header_sets) and installed under include/headrace.
function(headrace_add_library name)
  cmake_parse_arguments(ARG "" "" "HEADERS;SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(headrace_${name} STATIC ${ARG_SOURCES})
  add_library(headrace::${name} ALIAS headrace_${name})
  set_target_properties(headrace_${name} PROPERTIES
    EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON POSITION_INDEPENDENT_CODE ON)
  target_sources(headrace_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${ARG_HEADERS})
  target_link_libraries(headrace_${name}
    PUBLIC headrace_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_LIBRARIES headrace_${name})
endfunction()

# Target headrace_LABEL_tests builds every executable of a label; each label has one, used or not.
foreach(label unit model actor parity fault device)
  add_custom_target(headrace_${label}_tests)
endforeach()

# headrace_add_tests(NAME LABEL label SOURCES … LIBRARIES …)
#   One doctest executable, its cases discovered as ctest tests under one label (doctest 2.4.9 keeps
#   one). doctest says SUCCESS when its filter matches no case; the regular expression turns that
#   red.
function(headrace_add_tests name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LIBRARIES" ${ARGN})
  set(target ${name}_${ARG_LABEL}_tests)
  if(NOT TARGET headrace_${ARG_LABEL}_tests)
    message(FATAL_ERROR "${target}: HeadraceTargets.cmake does not list label '${ARG_LABEL}'")
  endif()
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE headrace_test_main ${ARG_LIBRARIES})
  doctest_discover_tests(${target} TEST_PREFIX "${ARG_LABEL}/"
    PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${HEADRACE_TEST_TIMEOUT}
    FAIL_REGULAR_EXPRESSION "test cases:[ ]+0 ")
  add_dependencies(headrace_${ARG_LABEL}_tests ${target})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_TEST_TARGETS ${target})
endfunction()
