# Intel MKL, linked into libbuddy_linalg.so: a bundle then carries one library
# more and no other package. The sequential layer, as calls come from generated
# code's own threads.
#
# BUDDY_MKL_ROOT is where the Python packages mkl-static and mkl-include lie, by
# default the prefix of the Python that the bindings are built for.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  message(FATAL_ERROR "Buddy is built on x86-64: its linear algebra and Fourier "
    "transforms are Intel MKL's, which is not there for ${CMAKE_SYSTEM_PROCESSOR}. "
    "Models for other machines are compiled on x86-64, with `buddy build --target`.")
endif()
if(NOT BUDDY_MKL_ROOT)
  if(Python3_EXECUTABLE AND NOT Python_EXECUTABLE)
    set(Python_EXECUTABLE ${Python3_EXECUTABLE})
  endif()
  find_package(Python COMPONENTS Interpreter REQUIRED)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)"
    OUTPUT_VARIABLE BUDDY_MKL_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(BUDDY_MKL_ROOT ${BUDDY_MKL_ROOT} CACHE PATH "Where lib/libmkl_core.a and include/mkl_dfti.h are")
set(BUDDY_MKL_LICENSE
  ${BUDDY_MKL_ROOT}/lib/python3*/site-packages/mkl_static-*.dist-info/LICENSE.txt)
file(GLOB found ${BUDDY_MKL_LICENSE})
if(found)
  set(BUDDY_MKL_LICENSE ${found})
endif()
set(BUDDY_MKL_OTHERS ${BUDDY_MKL_ROOT}/share/doc/mkl/licensing/third-party-programs.txt)
set(archives)
foreach(layer intel_lp64 sequential core)
  list(APPEND archives ${BUDDY_MKL_ROOT}/lib/libmkl_${layer}.a)
endforeach()
foreach(file ${archives} ${BUDDY_MKL_ROOT}/include/mkl_dfti.h ${BUDDY_MKL_LICENSE}
    ${BUDDY_MKL_OTHERS})
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "Intel MKL is not installed: there is no ${file}. `make setup` installs "
      "the Python packages mkl-static and mkl-include into .venv; -DBUDDY_MKL_ROOT=DIR names "
      "another place.")
  endif()
endforeach()
set(BUDDY_MKL_LIBRARIES -Wl,--start-group ${archives} -Wl,--end-group)
# Beside the library, as Intel asks of those who pass it on; bundles copy it too.
file(WRITE ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libbuddy_linalg.LICENSE.txt
  "libbuddy_linalg.so contains Intel oneAPI Math Kernel Library, under these terms:\n\n")
foreach(file ${BUDDY_MKL_LICENSE} ${BUDDY_MKL_OTHERS})
  file(READ ${file} text)
  file(APPEND ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libbuddy_linalg.LICENSE.txt "${text}\n")
endforeach()
