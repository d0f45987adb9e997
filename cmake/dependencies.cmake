# What the build needs from outside: Python, nanobind, Boost's headers, OpenSSL, threads.

if(FLOTA_PYTHON)
  find_package(Python 3.10 REQUIRED
    COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  find_package(nanobind CONFIG REQUIRED)
elseif(NOT FLOTA_BOOST_INCLUDE)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

# Searched on sys.path and not in one site-packages: pip's isolated builds put their requirements elsewhere.
set(boost_include "${FLOTA_BOOST_INCLUDE}")
if(NOT boost_include)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import pathlib, sys
for entry in sys.path:
    include = pathlib.Path(entry, 'cmeel.prefix', 'include')
    if (include / 'boost' / 'version.hpp').is_file():
        print(include.as_posix())
        break"
    OUTPUT_VARIABLE boost_include OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS "${boost_include}/boost/version.hpp")
  message(FATAL_ERROR
    "Boost's headers were not found: looked for boost/version.hpp in '${boost_include}'.\n"
    "Run 'pip install cmeel-boost' for ${Python_EXECUTABLE}, or configure with -DFLOTA_BOOST_INCLUDE=<folder>.")
endif()
add_library(flota_boost INTERFACE)
target_include_directories(flota_boost SYSTEM INTERFACE "${boost_include}")

find_package(OpenSSL 1.1.1)
if(NOT OpenSSL_FOUND)
  message(FATAL_ERROR
    "OpenSSL's headers (1.1.1 or newer) were not found. Install them:\n"
    "  Debian, Ubuntu:  apt-get install libssl-dev\n"
    "  Fedora, RHEL:    dnf install openssl-devel\n"
    "or name another place with OPENSSL_ROOT_DIR.")
endif()

find_package(Threads REQUIRED)
