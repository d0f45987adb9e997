# How code is compiled. flota_flags is public: inline functions of the core must come out the same in every target.

include(CheckCXXSourceCompiles)

add_library(flota_flags INTERFACE)
# A row is a function of its history: a multiply-add fused in a vector loop but not in its tail would make it depend on
# the row's place in a batch. Code that wants a fused one says so (std::fma, _mm256_fmadd_ps).
target_compile_options(flota_flags INTERFACE -ffp-contract=off)
if(FLOTA_MARCH)
  target_compile_options(flota_flags INTERFACE -march=${FLOTA_MARCH})
endif()

if(FLOTA_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
    list(APPEND sanitize -fno-sanitize=function) # stops at coroutines: "Cannot represent a difference across sections"
  endif()
elseif(FLOTA_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(flota_flags INTERFACE -Wno-tsan) # Asio's fences, which TSan does not model
  endif()
elseif(NOT FLOTA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "FLOTA_SANITIZE is '${FLOTA_SANITIZE}'; it must be empty, 'address' or 'thread'.")
endif()
target_compile_options(flota_flags INTERFACE ${sanitize})
target_link_options(flota_flags INTERFACE ${sanitize})
if(sanitize)
  target_compile_options(flota_flags INTERFACE -g -fno-omit-frame-pointer)
endif()

if(FLOTA_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(flota_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(flota_warnings INTERFACE)
target_compile_options(flota_warnings INTERFACE -Wall -Wextra -Wshadow $<$<BOOL:${FLOTA_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(flota_warnings INTERFACE -Wno-restrict) # false alarms about "text" + std::string (GCC 105651)
endif()

# Not every system ships the static libstdc++ (Fedora packages it apart), and sanitizers need the shared one.
set(FLOTA_STATIC_LIBSTDCXX OFF)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT sanitize)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++ -static-libgcc)
  check_cxx_source_compiles("#include <string>\nint main(int n, char**) { return std::to_string(n).size() > 9; }"
    FLOTA_STATIC_LIBSTDCXX_LINKS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  set(FLOTA_STATIC_LIBSTDCXX ${FLOTA_STATIC_LIBSTDCXX_LINKS})
endif()
