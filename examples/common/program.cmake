# add_bundle_program(NAME SOURCE [LIBRARY...]): a C++ program around the bundle that BUDDY_BUNDLE names.
#
# Its default bundle is that one, by the macro BUDDY_PROGRAM_BUNDLE. With BUDDY_PROGRAM_IN_BUNDLE it is
# the folder of the program, which is to be put into the bundle: then a copy of the bundle is never
# run with the files of the original.
set(BUDDY_BUNDLE "" CACHE PATH "The bundle to link, as written by buddy build")
option(BUDDY_PROGRAM_IN_BUNDLE "The program will be put into the bundle" OFF)
if(NOT EXISTS ${BUDDY_BUNDLE}/model.h)
  message(FATAL_ERROR "BUDDY_BUNDLE is '${BUDDY_BUNDLE}', which holds no model.h; see buddy build")
endif()
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../../frontend/interfaces interfaces EXCLUDE_FROM_ALL)

function(add_bundle_program name source)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${BUDDY_BUNDLE})
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_link_libraries(${name} PRIVATE BuddyInterfaces ${ARGN} ${BUDDY_BUNDLE}/libmodel.so)
  if(BUDDY_PROGRAM_IN_BUNDLE)
    set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  else()
    set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN;${BUDDY_BUNDLE}")
    target_compile_definitions(${name} PRIVATE BUDDY_PROGRAM_BUNDLE="${BUDDY_BUNDLE}")
  endif()
endfunction()
