# Installs the libraries with their headers under include/headrace, the binary, and a CMake package:
# a consumer says find_package(headrace) and links headrace::schedules (tests/consumer shows it).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(HEADRACE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/headrace")
get_property(headrace_libraries GLOBAL PROPERTY HEADRACE_LIBRARIES)

set_target_properties(headrace_flags PROPERTIES EXPORT_NAME flags)
# Headers keep their path from the repository root, so "schedules/action.hpp" works here and there.
install(TARGETS headrace_flags ${headrace_libraries} EXPORT headraceTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/headrace")
install(EXPORT headraceTargets NAMESPACE headrace:: DESTINATION "${HEADRACE_PACKAGE_DIR}")
if(TARGET headrace)
  install(TARGETS headrace RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

list(TRANSFORM headrace_libraries REPLACE "^headrace_" "headrace::" OUTPUT_VARIABLE
  headrace_exported)
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/tools/cmake/headraceConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/headraceConfig.cmake"
  INSTALL_DESTINATION "${HEADRACE_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/headraceConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/headraceConfig.cmake"
  "${PROJECT_BINARY_DIR}/headraceConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/tools/cmake/FindCAF.cmake"
  DESTINATION "${HEADRACE_PACKAGE_DIR}")
