# The binary trireme_<name>_<suffix> of `sources`, its tests labelled; nothing without sources or tests.
function(trireme_module_tests name suffix label sources deps)
  if(NOT sources OR NOT BUILD_TESTING)
    return()
  endif()
  add_executable(trireme_${name}_${suffix} ${sources})
  target_link_libraries(trireme_${name}_${suffix} PRIVATE trireme::${name} ${deps} trireme::warnings GTest::gtest_main)
  gtest_discover_tests(trireme_${name}_${suffix} TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${label})
endfunction()

# trireme_module(<name> SOURCES ... [DEPS ...] [PRIVATE_DEPS ...] [TESTS ...] [SLOW_TESTS ...] [BENCHES ...]):
# one folder = one library = one test binary = one benchmark binary; tests of minutes have a binary of their own.
function(trireme_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS;TESTS;SLOW_TESTS;BENCHES" ${ARGN})
  add_library(trireme_${name} ${ARG_SOURCES})
  add_library(trireme::${name} ALIAS trireme_${name})
  target_include_directories(trireme_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(trireme_${name} PUBLIC cxx_std_20)
  target_link_libraries(trireme_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS} trireme::warnings)
  trireme_module_tests(${name} test fast "${ARG_TESTS}" "${ARG_PRIVATE_DEPS}")
  trireme_module_tests(${name} slow_test slow "${ARG_SLOW_TESTS}" "${ARG_PRIVATE_DEPS}")
  if(ARG_BENCHES AND TRIREME_BENCH)
    find_package(benchmark REQUIRED)
    add_executable(trireme_${name}_bench ${ARG_BENCHES})
    target_link_libraries(trireme_${name}_bench PRIVATE trireme::${name} ${ARG_PRIVATE_DEPS}
                          trireme::warnings benchmark::benchmark_main)
  endif()
endfunction()
