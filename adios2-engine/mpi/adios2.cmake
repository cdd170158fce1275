# How `make test-mpi` configures ADIOS2: with MPI, and without anything that the tests don't need.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(BUILD_SHARED_LIBS ON CACHE BOOL "")
set(BUILD_TESTING OFF CACHE BOOL "")
set(ADIOS2_BUILD_EXAMPLES OFF CACHE BOOL "")
set(ADIOS2_INSTALL_GENERATE_CONFIG OFF CACHE BOOL "")
set(ADIOS2_USE_MPI ON CACHE STRING "")
foreach(part
    BigWhoop Blosc2 BZip2 Caliper Campaign Catalyst CURL DAOS DataMan DataSpaces Fortran HDF5
    HDF5_VOL IME LIBPRESSIO MGARD MHS OpenSSL PNG PRODM Profiling Python Sodium SST SysVShMem SZ
    SZ3 UCX XRootD ZeroMQ ZFP)
  set(ADIOS2_USE_${part} OFF CACHE STRING "")
endforeach()
