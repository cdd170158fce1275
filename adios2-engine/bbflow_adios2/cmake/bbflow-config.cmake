# find_package(bbflow), with bbflow_DIR from 'python -m bbflow_adios2 cmake':
#   bbflow::phases      the header by which a C or C++ program announces its I/O phases
#   bbflow::adios2      the library that ADIOS2 loads, for tests that start programs; it lies in bbflow_PLUGIN_PATH
#   bbflow::preload     for LD_PRELOAD: selects the engine in programs that can't
get_filename_component(bbflow_PLUGIN_PATH "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
find_path(bbflow_INCLUDE_DIR bbflow_phase.h NO_DEFAULT_PATH
  HINTS "${bbflow_PLUGIN_PATH}/../bbflow/phases" "${bbflow_PLUGIN_PATH}/../../bbflow/phases")
mark_as_advanced(bbflow_INCLUDE_DIR)

if(NOT TARGET bbflow::phases)
  add_library(bbflow::phases INTERFACE IMPORTED)
  set_target_properties(bbflow::phases PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${bbflow_INCLUDE_DIR}")
  foreach(library adios2 preload)
    add_library(bbflow::${library} MODULE IMPORTED)
    set_target_properties(bbflow::${library} PROPERTIES
      IMPORTED_LOCATION "${bbflow_PLUGIN_PATH}/libbbflow_${library}.so")
  endforeach()
endif()
